"""Docker as the tests meet it: through its command, with an engine that may not be there."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
IMAGE: Final = str(yaml.safe_load((ROOT / "mlcube.yaml").read_text())["docker"]["image"])
LABEL: Final = "ecocompute=tests"
DEADLINE_S: Final = 240.0
#: As mlcube.yaml starts containers, by hand.
PLAIN: Final = ("--rm", "--init", "--ipc=host", "--network=none", f"--label={LABEL}")


class Ended(NamedTuple):
    """A command that has ended."""

    status: int
    out: str  #: both streams


def missing(reason: str) -> NoReturn:
    """Skip, saying why; where the cube is required, fail."""
    if os.environ.get("ECO_REQUIRE_CUBE") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def run(*command: str | Path, environment: dict[str, str] | None = None) -> Ended:
    """Run a command to its end."""
    done = subprocess.run(
        [*map(str, command)],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        errors="replace",
        timeout=DEADLINE_S,
        check=False,
    )
    return Ended(done.returncode, done.stdout)


def docker(*arguments: str | Path) -> Ended:
    """Run docker to its end."""
    return run("docker", *arguments)


def start(*command: str | Path) -> subprocess.Popen[str]:
    """Start a command in a process group of its own."""
    return subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )


def containers(label: str = LABEL) -> list[str]:
    """Ids of the containers with a label, running or not."""
    return docker("ps", "--all", "--quiet", "--filter", f"label={label}").out.split()


def inspected(image: str = IMAGE) -> dict[str, Any]:
    """What docker says of an image."""
    told: list[dict[str, Any]] = json.loads(docker("image", "inspect", image).out)
    return told[0]


def until(condition: Callable[[], object], seconds: float = DEADLINE_S) -> None:
    """Wait for something that will be so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)


def ended_within(process: subprocess.Popen[str], seconds: float) -> Ended:
    """Wait for a started command, which must end in time."""
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Ended(process.returncode, out)


def volumes(workspace: Path, names: Sequence[str] = ("workspace",)) -> list[str]:
    """The one mount that a plain ``docker run`` needs."""
    return [f"--volume={workspace}:/{name}" for name in names]
