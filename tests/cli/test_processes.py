"""Arms in processes of their own: whatever one of them does, the run and its neighbours go on."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ecocompute_cube.model.journal import (
    BlockClosed,
    Fact,
    Refused,
    RunClosed,
    WindowMeasured,
)

from .rig import STAGED, Scene, alive, assert_told, ecocompute, until

PRECISIONS = ("FP16", "NF4", "INT8")


def measured(facts: tuple[Fact, ...]) -> list[str]:
    """Precisions of the windows in complete blocks."""
    complete = {f.block for f in facts if isinstance(f, BlockClosed) and f.complete}
    windows = [f for f in facts if isinstance(f, WindowMeasured) and f.block in complete]
    return sorted(f.arm.split("_")[2] for f in windows)


def refusals(facts: tuple[Fact, ...]) -> list[Refused]:
    return [fact for fact in facts if isinstance(fact, Refused)]


def test_an_undisturbed_rehearsal_measures_every_arm_once(scene: Scene) -> None:
    ended = scene.measure()
    assert ended.status == 0, ended.err
    assert measured(scene.facts()) == sorted(PRECISIONS)
    assert ended.out.count("not measured") == 3
    assert ended.err.count("block 1 of 1") == 3
    (run,) = scene.runs
    assert sorted(path.name for path in run.iterdir()) == ["arms", "journal.jsonl", "logs"]


def test_an_arm_that_is_killed_or_leaves_costs_only_itself(scene: Scene) -> None:
    scene.plan_to("NF4.window.die", "INT8.warm.leave")
    ended = scene.measure()
    assert ended.status == 0, ended.err
    assert "Traceback" not in ended.err
    found = {refused.stage: refused for refused in refusals(scene.facts())}
    assert {refused.reason for refused in found.values()} == {"process_died"}
    assert "killed by signal 9 (SIGKILL)" in found["window"].cause
    assert "ended with status 3" in found["warm"].cause
    assert measured(scene.facts()) == ["FP16"]
    assert all(f"refused: {refused.cause}" in ended.err for refused in found.values())


def test_an_arm_without_memory_or_library_costs_only_itself(scene: Scene) -> None:
    scene.plan_to("FP16.load.run-out", "INT8.load.import")
    ended = scene.measure()
    assert ended.status == 0, ended.err
    assert "Traceback" not in ended.err
    found = {refused.reason: refused for refused in refusals(scene.facts())}
    assert set(found) == {"out_of_memory", "library_missing"}
    assert "libwhatever.so.12" in found["library_missing"].cause
    assert all(refused.stage == "load" for refused in found.values())
    assert measured(scene.facts()) == ["NF4"]


def test_a_runtime_that_cannot_start_is_a_refusal_of_every_arm(scene: Scene) -> None:
    scene.plan_to("any.start.import")
    ended = scene.measure()
    assert_told(ended, 5, "No arm gave a valid number", "libwhatever.so.12")
    facts = scene.facts()
    assert {refused.reason for refused in refusals(facts)} == {"library_missing"}
    closed = facts[-1]
    assert isinstance(closed, RunClosed) and closed.reason == "failed"


def test_what_a_library_prints_goes_to_the_log_and_what_it_reads_is_nothing(scene: Scene) -> None:
    scene.plan_to(*(f"FP16.{point}.chatter" for point in ("load", "warm", "window", "score")))
    ended = scene.measure()
    assert ended.status == 0, ended.err
    assert measured(scene.facts()) == sorted(PRECISIONS)
    (log,) = scene.runs[0].glob("logs/*FP16*")
    text = log.read_text(errors="replace")
    assert text.count("from C") == text.count("from a process of its own") == 3
    assert text.count("read 0 bytes") == 3


def test_what_an_arm_started_ends_with_it(scene: Scene) -> None:
    scene.plan_to("NF4.load.spawn")
    assert scene.measure().status == 0
    until(lambda: not alive(scene.wait_for("NF4.load.spawned")))


@pytest.mark.parametrize(
    ("how", "point"),
    [(signal.SIGINT, "load"), (signal.SIGTERM, "window"), (signal.SIGHUP, "window")],
)
def test_a_stopped_run_ends_at_once_and_says_how_to_go_on(
    scene: Scene, how: signal.Signals, point: str
) -> None:
    scene.plan_to(f"INT8.{point}.hang")
    with scene.started() as process:
        hung = scene.wait_for(f"INT8.{point}.hung")
        start = time.monotonic()
        process.send_signal(how)
        _, err = process.communicate(timeout=20)
        assert time.monotonic() - start < 5
    assert process.returncode == 130
    assert err.endswith(
        "error: Stopped; finished blocks are kept.\nRun the same command again to go on.\n"
    )
    assert not alive(hung)
    facts = scene.facts()
    assert measured(facts) == []
    assert isinstance(facts[-1], RunClosed) and facts[-1].reason == "interrupted"


def test_a_stopped_run_is_finished_by_the_same_command(scene: Scene) -> None:
    scene.plan_to("INT8.window.hang")
    with scene.started() as process:
        scene.wait_for("INT8.window.hung")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    scene.call_off("INT8.window.hang")
    again = scene.measure()
    assert again.status == 0 and "going on with run" in again.err
    assert measured(scene.facts()) == sorted(PRECISIONS)


def test_a_run_under_nohup_outlives_the_terminal(scene: Scene) -> None:
    scene.plan_to("INT8.load.hang")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited, as from nohup
    try:
        with scene.started() as process:
            hung = scene.wait_for("INT8.load.hung")
            process.send_signal(signal.SIGHUP)
            os.kill(hung, signal.SIGKILL)
            process.communicate(timeout=20)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert process.returncode == 0
    assert measured(scene.facts()) == ["FP16", "NF4"]


def test_nobody_else_may_write_there_meanwhile(scene: Scene) -> None:
    scene.plan_to("FP16.window.hang")
    with scene.started() as first:
        scene.wait_for("FP16.window.hung")
        before = sorted(scene.output.rglob("*"))
        assert_told(scene.measure(), 7, "Another run", "--output_dir")
        assert sorted(scene.output.rglob("*")) == before
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=20)
    assert first.returncode == 130


def test_a_killed_runner_takes_its_arms_with_it_and_loses_nothing(scene: Scene) -> None:
    scene.plan_to("INT8.window.hang")
    with scene.started() as process:
        hung = scene.wait_for("INT8.window.hung")
        process.kill()
        process.communicate(timeout=20)
        until(lambda: not alive(hung), seconds=5)
    assert measured(scene.facts()) == []
    scene.call_off("INT8.window.hang")
    again = scene.measure()
    assert again.status == 0 and "going on with run" in again.err
    facts = scene.facts()
    assert measured(facts) == sorted(PRECISIONS)
    assert [f.block for f in facts if isinstance(f, BlockClosed)] == [1]


def test_nobody_who_reads_the_progress_is_no_fault(scene: Scene) -> None:
    with scene.started() as process:
        assert process.stderr is not None
        process.stderr.close()
        out = process.stdout.read() if process.stdout else ""
        assert process.wait(timeout=60) == 0
        process.stderr = None
    assert "not measured" in out
    assert measured(scene.facts()) == sorted(PRECISIONS)


def no_file_above(size: int) -> Callable[[], None]:
    """A limit as a full disk would set it."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize("size", [200, 3_000, 6_000])
def test_a_full_disk_loses_nothing_that_was_finished(scene: Scene, size: int) -> None:
    """OUT-ENOSPC."""
    ended = scene.measure(before=no_file_above(size))
    assert_told(ended, 7, "No room left on the disk", "run the same command again")
    names = {path.name for path in scene.output.rglob("*") if path.is_file()}
    assert not any(name.startswith(".") and name != ".lock" for name in names), names
    assert len(scene.runs) == (size > 200)
    again = scene.measure()
    assert again.status == 0, again.err
    assert ("going on with run" in again.err) == (size > 200)
    assert measured(scene.facts()) == sorted(PRECISIONS)
    assert len(list(scene.runs[0].glob("arms/*/energy.json"))) == 3


def test_no_process_leaves_bytecode_that_a_full_disk_could_cut(tmp_path: Path) -> None:
    ended = ecocompute("--help", module=STAGED, environment={"PYTHONPYCACHEPREFIX": str(tmp_path)})
    assert ended.status == 0, ended.err
    assert list(tmp_path.rglob("*.pyc")) == []


def test_a_disk_that_is_full_for_an_arm_costs_no_arm(scene: Scene) -> None:
    scene.plan_to("INT8.warm.fill")
    assert_told(scene.measure(), 7, "No room left on the disk")
    assert refusals(scene.facts()) == [] and measured(scene.facts()) == []
    scene.call_off("INT8.warm.fill")
    assert scene.measure().status == 0
    assert measured(scene.facts()) == sorted(PRECISIONS)


def test_a_run_without_time_for_a_block_says_so_and_can_be_gone_on_with(scene: Scene) -> None:
    words = ("No block was finished", "more --max_minutes", "go on")
    assert_told(scene.measure("--max_minutes", "1e-9"), 5, *words)
    closed = scene.facts()[-1]
    assert isinstance(closed, RunClosed) and closed.reason == "time is up"


def test_documents_that_could_not_be_written_are_written_by_the_same_command(
    scene: Scene,
) -> None:
    scene.plan_to("INT8.window.hang")
    with scene.started() as process:
        scene.wait_for("INT8.window.hung")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    (run,) = scene.runs
    (document,) = run.glob("arms/*INT8*/energy.json")
    document.unlink()
    document.parent.rmdir()
    document.parent.touch()
    scene.call_off("INT8.window.hang")
    assert_told(scene.measure(), 7, "Could not make the folder")
    document.parent.unlink()
    windows = measured(scene.facts())
    again = scene.measure()
    assert again.status == 0 and "going on with run" in again.err
    assert document.exists()
    assert measured(scene.facts()) == windows == sorted(PRECISIONS)


def test_no_process_of_a_run_is_left_behind(scene: Scene) -> None:
    scene.plan_to("NF4.window.die")
    with contextlib.suppress(subprocess.TimeoutExpired), scene.started() as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        seen: set[int] = set()
        while process.poll() is None:
            with contextlib.suppress(OSError):
                seen |= {int(pid) for pid in children.read_text().split()}
            time.sleep(0.01)
    assert len(seen) >= len(PRECISIONS)
    assert not any(map(alive, seen))
