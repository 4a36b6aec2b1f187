"""Starting the command as a user would, and waiting for what it does."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ecocompute_cube.model.journal import Fact
from ecocompute_cube.model.journal_file import read_journal

#: The shortest measurement that is one.
BRIEF: Final = {
    "mode": "precise",
    "window_s": 0.3,
    "idle_s": 0.05,
    "blocks": 1,
    "warmup": {"min_passes": 1, "max_passes": 1},
}
ROOT: Final = Path(__file__).parents[2]
DEADLINE_S: Final = 60.0
REAL: Final = "ecocompute_cube.cli"
STAGED: Final = "tests.cli.driver"


class Ended(NamedTuple):
    """A command that has ended."""

    status: int
    out: str
    err: str


def ecocompute(
    *arguments: str | Path,
    module: str = REAL,
    environment: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    before: Callable[[], None] | None = None,
) -> Ended:
    """Run the command to its end."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env=surroundings(environment),
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        timeout=180,
        check=False,
        stdin=subprocess.DEVNULL,
        preexec_fn=before,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@contextlib.contextmanager
def under_way(
    *words: str | Path,
    before: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """A module with its arguments under way; its process is gone afterwards."""
    process = subprocess.Popen(
        [*before, sys.executable, "-m", *map(str, words)],
        env=surroundings(environment),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def surroundings(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment, with the sources on the path and one thread."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(more or {})}


def assert_told(ended: Ended, status: int, *words: str) -> None:
    """One sentence of cause, one of remedy, these words in them, and nothing else of an error."""
    assert ended.status == status, ended
    assert "Traceback" not in ended.err, ended.err
    *_, cause, fix = ended.err.rstrip("\n").split("\n")
    assert cause.startswith("error: "), ended.err
    assert re.fullmatch(r"error: \S.*[.?]", cause) and re.fullmatch(r"\S.*[.?]", fix), ended.err
    for word in words:
        assert word in f"{cause} {fix}", ended.err


def until(condition: Callable[[], object], seconds: float = DEADLINE_S) -> None:
    """Wait for something that will be so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet buried does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


class Scene:
    """A staged run in folders of its own."""

    def __init__(self, folder: Path, models: Path, plan: Mapping[str, object]) -> None:
        self.folder, self.models, self.stage = folder, models, folder / "stage"
        self.stage.mkdir()
        self.output = folder / "results"
        self.plan = folder / "plan.yaml"
        self.plan.write_text(json.dumps(plan))
        self.environment: dict[str, str] = {"STAGE": str(self.stage)}

    @property
    def arguments(self) -> tuple[str, ...]:
        """Of ``measure`` and, but for the last, of ``run``."""
        folders = ("--models_dir", str(self.models), "--output_dir", str(self.output))
        return ("--parameters_file", str(self.plan), *folders)

    def measure(
        self, *more: str, rehearse: bool = True, before: Callable[[], None] | None = None
    ) -> Ended:
        """Run ``measure`` to its end."""
        last = ("--rehearse",) if rehearse else ()
        return ecocompute(
            "measure",
            *self.arguments,
            *last,
            *more,
            module=STAGED,
            environment=self.environment,
            before=before,
        )

    def plan_to(self, *actions: str) -> None:
        """Write down what happens, as ``FP16.load.hang``."""
        for action in actions:
            (self.stage / action).touch()

    def call_off(self, action: str) -> None:
        """What was written down happens no more."""
        (self.stage / action).unlink()

    @contextlib.contextmanager
    def started(self, *more: str, rehearse: bool = True) -> Iterator[subprocess.Popen[str]]:
        """``measure`` under way; it is gone afterwards, however the test ends."""
        last = ("--rehearse",) if rehearse else ()
        words = (STAGED, "measure", *self.arguments, *last, *more)
        try:
            with under_way(*words, environment=self.environment) as process:
                yield process
        finally:
            for pid in self.hung():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def hung(self) -> list[int]:
        """Process ids of the arms that hang."""
        return [int(file.read_text()) for file in self.stage.glob("*.hung")]

    def wait_for(self, name: str) -> int:
        """The process id that an arm left when it came to this point."""
        file = self.stage / name
        until(file.exists)
        return int(file.read_text())

    @property
    def runs(self) -> list[Path]:
        """Run folders."""
        return sorted(path for path in self.output.iterdir() if path.is_dir())

    def facts(self) -> tuple[Fact, ...]:
        """Of the only run; the chain is checked, and no line is torn."""
        (run,) = self.runs
        journal = read_journal(run / "journal.jsonl")
        assert journal.torn == b""
        return journal.records
