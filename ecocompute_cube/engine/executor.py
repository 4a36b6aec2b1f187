"""Where an arm runs: in a process of its own, or (for tests) in this one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final, Protocol

from ecocompute_cube.engine.orders import Answer, AnswerLine, Order, OrderLine
from ecocompute_cube.errors import ArmFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ecocompute_cube.engine.worker import ArmWorker

_END_TIMEOUT_S: Final = 20.0


class ArmLink(Protocol):
    """A line to one arm at work."""

    @property
    def pid(self) -> int:
        """The process that does the arm's work."""

    def ask(self, order: Order) -> Answer:
        """Send an order and wait for the fact. Raises ArmFailed."""

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
        self, backend: str, power: str, device: str, logs: Path, environment: Mapping[str, str]
    ) -> None:
        self._arguments = (backend, power, device)
        self._logs = logs
        self._environment = dict(environment)

    def start(self, arm: str) -> ArmLink:
        """A child process for this arm."""
        self._logs.mkdir(exist_ok=True)
        return _Child(self._arguments, self._logs / f"{arm}.log", self._environment)


class _Child:
    def __init__(
        self, arguments: tuple[str, ...], log: Path, environment: Mapping[str, str]
    ) -> None:
        self._log = log
        with log.open("ab") as log_file:
            self._process = subprocess.Popen(  # noqa: S603 (our own module)
                [sys.executable, "-m", "ecocompute_cube.engine.child", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                text=True,
                env=dict(environment),
                start_new_session=True,  # Ctrl-C reaches the runner, which ends the arms
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, order: Order) -> Answer:
        line = OrderLine(order=order).model_dump_json()
        reply = self._exchange(line)
        if not reply:
            raise self._died()
        answer = AnswerLine.model_validate_json(reply)
        if answer.failure is not None:
            failure = answer.failure
            raise ArmFailed(failure.reason, failure.cause, failure.fix)
        if answer.fact is None:
            raise ArmFailed("empty_answer", "The arm's process answered nothing.", "Try again.")
        return answer.fact

    def _exchange(self, line: str) -> str:
        if self._process.stdin is None or self._process.stdout is None:
            return ""
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            return self._process.stdout.readline()
        except (BrokenPipeError, ValueError):
            return ""

    def _died(self) -> ArmFailed:
        self.close(patient=True)
        status = self._process.returncode
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return ArmFailed(
            "process_died",
            f"The arm's process {how}{_last_words(self._log)}.",
            "See the arm's log in the run folder; the system may be out of memory (dmesg).",
        )

    def close(self, *, patient: bool) -> None:
        """Close its input, wait, and kill it if it does not end; at once if not ``patient``."""
        with contextlib.suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        if not patient:
            self._process.kill()
        try:
            self._process.wait(timeout=_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f" ({lines[-1][:200]})" if lines else ""
