"""A side sampler in a process of its own: ``python -m ecocompute_cube.device.sampler UUID FILE``.

Python in the measured process can be busy for seconds; this one never is. It writes one CSV line
a sample, ends when its standard input closes (also when its parent dies), and says how many
samples failed. Slow readings (temperature, clocks) are taken once a second.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from ecocompute_cube.device.base import PowerSource, RawTrace, SystemClock
from ecocompute_cube.errors import EcoError, output_error
from ecocompute_cube.model.base import Absent, MaybeFloat, present
from ecocompute_cube.model.journal import TRACE_COLUMNS, PowerKind
from ecocompute_cube.units import nanoseconds, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ecocompute_cube.device.base import Clock

_PERIOD_S: Final = 0.05  # twice as often as the readings change on an H200 (100 ms, our probe)
_SLOW_EVERY: Final = 20  # samples: once a second
_STOP_TIMEOUT_S: Final = 10.0


def sample_line(source: PowerSource, clock: Clock, slow: bool) -> tuple[str, bool]:
    """One CSV line and whether power was there. Absent values are empty fields."""
    at = clock.now_ns()
    power = source.power_w()
    if not slow:
        return f"{at},{_cell(power)},,,,\n", present(power)
    seen = source.telemetry(frozenset())
    cells = (seen.temperature_c, seen.sm_clock_mhz, seen.memory_clock_mhz)
    reasons = "+".join(seen.event_reasons) or "-" if present(seen.event_reasons) else ""
    return f"{at},{_cell(power)},{','.join(map(_cell, cells))},{reasons}\n", present(power)


def _cell(value: MaybeFloat) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if present(value) else ""


def _record(source: PowerSource, file: IO[str], control: IO[str]) -> tuple[int, int]:
    clock = SystemClock()
    samples = failed = 0
    due = clock.now_ns()
    file.write(",".join(TRACE_COLUMNS) + "\n")
    asked_to_end = False
    while True:
        line, ok = sample_line(source, clock, slow=samples % _SLOW_EVERY == 0)
        file.write(line)
        samples += 1
        failed += not ok
        if asked_to_end:  # one sample after the work, so that the trace covers all of it
            return samples, failed
        due = max(due + nanoseconds(_PERIOD_S), clock.now_ns())
        wait = seconds(due - clock.now_ns())
        asked_to_end = bool(select.select([control], [], [], max(0.0, wait))[0])


def main(arguments: list[str]) -> int:
    """Sample until standard input closes; print ``kind samples failed``, or why not on stderr."""
    uuid, name = arguments
    try:
        answer = _sample(uuid, Path(name))
    except EcoError as error:
        sys.stderr.write(f"{error.cause}\n")
        return error.exit_status
    with contextlib.suppress(BrokenPipeError):  # whoever asked is gone
        os.write(sys.stdout.fileno(), answer.encode())
    return 0


def _sample(uuid: str, name: Path) -> str:
    from ecocompute_cube.device.nvml import NvmlBoard

    board = NvmlBoard(uuid)
    try:
        with name.open("w", encoding="ascii", buffering=1) as file:  # a line survives a kill
            samples, failed = _record(board, file, sys.stdin)
    except OSError as error:
        raise output_error(error, "write the trace") from None
    finally:
        board.close()
    return f"{board.power} {samples} {failed}\n"


class ProcessTracer:
    """Runs the side sampler for one visit at a time; what goes wrong is told by ``stop``."""

    def __init__(
        self,
        uuid: str,
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        self._command = (python, "-m", "ecocompute_cube.device.sampler", uuid)
        self._environment = None if environment is None else dict(environment)
        self._process: subprocess.Popen[str] | None = None
        self._trouble: str | None = None
        self._file = Path()

    def start(self, file: Path) -> None:
        """Begin sampling into ``file``."""
        if self._process is not None:
            _kill(self._process)
            self._process, self._trouble = None, "the side sampler was started twice"
            return
        self._file = file
        try:
            self._process = subprocess.Popen(  # noqa: S603 (our own module, fixed arguments)
                [*self._command, str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the runner to pass on
            )
        except OSError as error:
            self._trouble = f"the side sampler cannot be started: {error.strerror}"

    def stop(self) -> RawTrace | Absent:
        """End sampling; a reason if the sampler died or left nothing."""
        process, self._process = self._process, None
        trouble, self._trouble = self._trouble, None
        if process is None:
            return Absent(reason=trouble or "the side sampler was not started")
        try:
            answer, complaint = process.communicate(timeout=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _kill(process)
            return Absent(reason="the side sampler did not end when asked")
        if process.returncode != 0:
            return Absent(reason=f"the side sampler died: {_why(process.returncode, complaint)}")
        return _raw_trace(self._file, answer)


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _why(status: int, complaint: str) -> str:
    if status < 0:
        return f"killed by signal {-status}"
    return (complaint.strip().splitlines() or [f"status {status}"])[-1]


def _raw_trace(file: Path, answer: str) -> RawTrace | Absent:
    try:
        kind, samples, failed = answer.split()
        return RawTrace(file, PowerKind(kind), int(samples), int(failed))
    except ValueError:
        return Absent(reason="the side sampler did not say what it recorded")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
