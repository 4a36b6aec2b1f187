"""Where an arm runs: in a process of its own, or (for tests) in this one."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
from typing import IO, TYPE_CHECKING, Final, Protocol

from pydantic import ValidationError

from ecocompute_cube.engine.orders import Answer, AnswerLine, Failure, Order, OrderLine
from ecocompute_cube.errors import ArmFailed, DiskFull, EcoError, output_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ecocompute_cube.engine.worker import ArmWorker

_PATIENCE_S: Final = 20.0  # to free a model; the largest take a few seconds
_BURIAL_S: Final = 5.0  # after a kill; a process that a driver holds may take for ever
_LOOK_UP_S: Final = 1.0  # a stop may take five
_LAST_WORDS: Final = 200  # characters
_PROGRESS: Final = re.compile(r"\d%\|")  # a bar of tqdm's


class ArmLink(Protocol):
    """A line to one arm at work."""

    @property
    def pid(self) -> int:
        """The process that does the arm's work."""

    def ask(self, order: Order) -> Answer:
        """Send an order and wait for the fact. Raises ArmFailed, or DiskFull."""

    def close(self, *, patient: bool) -> None:
        """End the arm, waiting for what it is doing if ``patient``; never raises."""


class Executor(Protocol):
    """Starts arms."""

    def start(self, arm: str) -> ArmLink:
        """A fresh place for this arm to work in."""


class InProcess:
    """Runs arms in this process: for tests with a scripted board."""

    def __init__(self, make_worker: Callable[[], ArmWorker]) -> None:
        self._make_worker = make_worker

    def start(self, arm: str) -> ArmLink:
        """A worker of its own in this process."""
        del arm
        return _Here(self._make_worker())


class _Here:
    def __init__(self, worker: ArmWorker) -> None:
        self._worker = worker

    @property
    def pid(self) -> int:
        return os.getpid()

    def ask(self, order: Order) -> Answer:
        return self._worker.obey(order)

    def close(self, *, patient: bool) -> None:
        del patient
        self._worker.close()


class ChildProcesses:
    """Runs each arm in a child process; what it prints goes to ``logs/ARM.log``."""

    def __init__(
        self,
        backend: str,
        power: str,
        device: str,
        logs: Path,
        environment: Mapping[str, str],
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._command = (
            sys.executable,
            "-m",
            "ecocompute_cube.engine.child",
            backend,
            power,
            device,
        )
        self._logs = logs
        self._environment = dict(environment)
        self._patience_s = patience_s

    def start(self, arm: str) -> ArmLink:
        """A child process for this arm.

        Raises ArmFailed when the system has no room for it, DiskFull or OutputError for its log.
        """
        log = self._logs / f"{arm}.log"
        try:
            self._logs.mkdir(exist_ok=True)
            file = log.open("ab")
        except OSError as error:
            raise output_error(error, f"open the log of {arm}") from error
        with file:
            return _Child(self._popen(file), log, file.tell(), self._patience_s)

    def _popen(self, log: IO[bytes]) -> subprocess.Popen[str]:
        try:
            return subprocess.Popen(  # noqa: S603 (our own module)
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
                env=self._environment,
                start_new_session=True,  # Ctrl-C reaches the runner, which ends the arms
            )
        except OSError as error:
            raise ArmFailed(
                "process_not_started",
                f"The arm's process cannot be started ({error.strerror}).",
                "Free some memory or end other programs.",
            ) from None


class _Child:
    def __init__(
        self, process: subprocess.Popen[str], log: Path, log_start: int, patience_s: float
    ) -> None:
        self._process = process
        self._log = log
        self._log_start = log_start  #: what stands before is of earlier processes
        self._patience_s = patience_s

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, order: Order) -> Answer:
        reply = self._exchange(OrderLine(order=order).model_dump_json())
        if not reply.endswith("\n"):
            raise self._died()
        try:
            answer = AnswerLine.model_validate_json(reply)
        except ValidationError:
            raise self._garbled(reply) from None
        if answer.failure is not None:
            raise _raised(answer.failure)
        if answer.fact is None:
            raise self._garbled(reply)
        return answer.fact

    def _exchange(self, line: str) -> str:
        """The answer to one line; a part of it, or nothing, from a process that has ended."""
        if self._process.stdin is None or self._process.stdout is None:
            return ""
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            _await(self._process.stdout)
            return self._process.stdout.readline()
        except (BrokenPipeError, ValueError):  # ValueError: closed, or not UTF-8
            return ""

    def _garbled(self, reply: str) -> ArmFailed:
        return ArmFailed(
            "garbled_answer",
            f"The arm's process answered what nobody understands ({_printable(reply)}).",
            "See the arm's log in the run folder, and report this as a fault of ours.",
        )

    def _died(self) -> ArmFailed:
        self.close(patient=True)
        return ArmFailed(
            "process_died",
            f"The arm's process {_ending(self._process.returncode)}{self._last_words()}.",
            "See the arm's log in the run folder; the system may be out of memory (dmesg).",
        )

    def _last_words(self) -> str:
        with self._log.open("rb") as file:
            file.seek(self._log_start)
            text = file.read().decode("utf-8", "replace")
        lines = [line for line in text.strip().splitlines() if not _PROGRESS.search(line)]
        return f" ({_printable(lines[-1]).rstrip('.')})" if lines else ""

    def close(self, *, patient: bool) -> None:
        """Close its input and wait, if ``patient``; then kill what is left of it."""
        try:
            if patient:
                _shut(self._process.stdin)
                self._process.wait(self._patience_s)
        except subprocess.TimeoutExpired:
            pass
        finally:  # also when Ctrl-C comes while it is waited for
            self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # and whatever it has started
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_BURIAL_S)
        _shut(self._process.stdin)
        _shut(self._process.stdout)


def _await(pipe: IO[str]) -> None:
    """Wait until there is something to read, or the end.

    A signal that comes just before a system call begins does not interrupt it; so look up in time.
    """
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    while not waiting.poll(1e3 * _LOOK_UP_S):
        pass


def _raised(failure: Failure) -> EcoError:
    """A full disk is no fault of the arm, and must not cost it the block."""
    if failure.reason == DiskFull.code:
        return DiskFull(failure.cause, failure.fix)
    return ArmFailed(failure.reason, failure.cause, failure.fix)


def _shut(pipe: IO[str] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):
            pipe.close()


def _ending(status: int | None) -> str:
    if status is None:
        return "hangs in the driver"
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "no name"
    return f"was killed by signal {-status} ({name})"


def _printable(text: str) -> str:
    """One line that a terminal can be shown."""
    return "".join(c if c.isprintable() else " " for c in text.strip())[:_LAST_WORDS]
