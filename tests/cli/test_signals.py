"""SIGTERM ends every command within seconds and in good order, also the first of a container."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ecocompute_cube.model.journal import RunClosed

from .rig import REAL, ROOT, STAGED, Scene, alive, under_way, until

AT_ONCE_S = 15.0  # far below what is left to do, also on a machine that others keep busy
#: A process namespace of its own: what it starts first is to it what a container's command is.
FIRST = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")


def namespaces() -> bool:
    with contextlib.suppress(FileNotFoundError):
        return subprocess.run([*FIRST, "true"], capture_output=True, check=False).returncode == 0
    return False


needs_namespaces = pytest.mark.skipif(not namespaces(), reason="no user namespaces here")


def child_of(pid: int) -> int:
    """The only child of a process, when it is there."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    until(lambda: children.read_text().split())
    return int(children.read_text().split()[0])


def ended(process: subprocess.Popen[str], since: float) -> str:
    """What a stopped command said last; it has ended at once and with status 130."""
    _, err = process.communicate(timeout=20)
    assert time.monotonic() - since < AT_ONCE_S
    assert process.returncode == 130, err
    assert "Traceback" not in err
    return err


@needs_namespaces
def test_a_run_that_is_the_first_process_of_its_container_is_stopped_by_sigterm(
    scene: Scene,
) -> None:
    scene.plan_to("INT8.window.hang")
    arguments = ("measure", *scene.arguments, "--rehearse")
    os.environ["STAGE"] = str(scene.stage)
    try:
        with under_way(STAGED, *arguments, before=FIRST) as process:
            until((scene.stage / "INT8.window.hung").exists)
            first = child_of(process.pid)
            start = time.monotonic()
            os.kill(first, signal.SIGTERM)
            assert "Stopped; finished blocks are kept." in ended(process, start)
    finally:
        del os.environ["STAGE"]
    assert not alive(first)
    closed = scene.facts()[-1]
    assert isinstance(closed, RunClosed) and closed.reason == "interrupted"


def test_a_signal_that_comes_twice_at_once_is_one(scene: Scene) -> None:
    scene.plan_to("INT8.window.hang")
    with scene.started() as process:
        scene.wait_for("INT8.window.hung")
        start = time.monotonic()
        for _ in range(3):
            process.send_signal(signal.SIGTERM)
        assert "Stopped; finished blocks are kept." in ended(process, start)
    facts = scene.facts()
    assert isinstance(facts[-1], RunClosed) and facts[-1].reason == "interrupted"
    assert len(list(scene.runs[0].glob("arms/*/energy.json"))) == 3
    assert not [path for path in scene.output.rglob(".*") if path.name != ".lock"]


def heeds_sigterm(pid: int) -> bool:
    """Whether the process has a handler of its own (proc(5), SigCgt)."""
    (caught,) = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def test_a_stopped_report_leaves_no_half_page(tmp_path: Path) -> None:
    pages, runs = tmp_path / "pages", ROOT / "data" / "h200" / "runs"
    with under_way(REAL, "report", f"--results_dir={runs}", f"--report_dir={pages}") as process:
        until(lambda: heeds_sigterm(process.pid))
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert ended(process, start).endswith("stopped\n")
    assert not list(tmp_path.rglob("*.*"))


def test_a_stopped_download_leaves_no_half_model(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(json.dumps({"name": "stopped", "models": ["random:smollm2-135m"]}))
    models = tmp_path / "models"
    arguments = (f"--parameters_file={plan}", f"--models_dir={models}")
    with under_way(REAL, "download", *arguments) as process:
        until(lambda: list(models.glob("*/*")) + list(models.glob(".*/*")))
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert ended(process, start).endswith("stopped\n")
    assert not list(models.rglob("manifest.json"))
