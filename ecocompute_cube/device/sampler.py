"""A side sampler in a process of its own: ``python -m ecocompute_cube.device.sampler UUID FILE``.

Python in the measured process can be busy for seconds; this one never is. Power comes from the
driver's own samples where it keeps some that can be used, else it is polled; a record holds one of
the two, from its beginning to its end. It writes one CSV line a sample, ends when its standard
input closes (also when its parent dies), and says how many samples failed. Slow readings
(temperature, clocks) are taken once a second.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.device.base import POLLED, PowerSource, RawTrace, SystemClock
from ecocompute_cube.device.drain import Drain
from ecocompute_cube.errors import EcoError, output_error
from ecocompute_cube.model.base import Absent, MaybeFloat, present
from ecocompute_cube.model.journal import TRACE_COLUMNS, ClockAlignment
from ecocompute_cube.model.readings import PowerKind
from ecocompute_cube.units import nanoseconds, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ecocompute_cube.device.base import Clock
    from ecocompute_cube.device.nvml import NvmlBoard

_PERIOD_S: Final = 0.05  # twice as often as the readings change on an H200 (100 ms, our probe)
_SLOW_EVERY: Final = 20  # samples: once a second
_DRAIN_S: Final = 0.5  # an H200 keeps 2.4 s of samples (our probe); others may keep less
_SLOW_DRAINS: Final = 2  # once a second
_REFILL_S: Final = 0.1  # five samples of an H200
_LAST_DRAINS: Final = 10  # of _REFILL_S each: samples reach the buffer 20 ms late on an H200
_STOP_TIMEOUT_S: Final = 10.0


class Counted(NamedTuple):
    """How a record ended."""

    kind: PowerKind
    samples: int
    failed: int
    clock: ClockAlignment | Absent


def sample_line(source: PowerSource, clock: Clock, slow: bool) -> tuple[str, bool]:
    """One CSV line and whether power was there. Absent values are empty fields."""
    at = clock.now_ns()
    power = source.power_w()
    rest = slow_cells(source) if slow else ",,,"
    return f"{at},{_cell(power)},{rest}\n", present(power)


def slow_cells(source: PowerSource) -> str:
    """Temperature, clocks and event reasons, as the last cells of a line."""
    seen = source.telemetry(frozenset())
    cells = (seen.temperature_c, seen.sm_clock_mhz, seen.memory_clock_mhz)
    reasons = "+".join(seen.event_reasons) or "-" if present(seen.event_reasons) else ""
    return f"{','.join(map(_cell, cells))},{reasons}"


def _cell(value: MaybeFloat) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if present(value) else ""


def _poll(source: PowerSource, file: IO[str], control: IO[str]) -> tuple[int, int]:
    clock = SystemClock()
    samples = failed = 0
    due = clock.now_ns()
    asked_to_end = False
    while True:
        line, ok = sample_line(source, clock, slow=samples % _SLOW_EVERY == 0)
        file.write(line)
        samples += 1
        failed += not ok
        if asked_to_end:  # one sample after the work, so that the trace covers all of it
            return samples, failed
        due = max(due + nanoseconds(_PERIOD_S), clock.now_ns())
        asked_to_end = _asked(control, seconds(due - clock.now_ns()))


def _asked(control: IO[str], wait_s: float) -> bool:
    """Whether the end is asked for within so many seconds."""
    return bool(select.select([control], [], [], max(0.0, wait_s))[0])


class _Rows:
    """Lines in the order of their times, though slow readings come before older samples."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._waiting: list[tuple[int, str]] = []
        self.samples = self.failed = self.last_ns = 0

    def add_slow(self, source: PowerSource) -> None:
        self._waiting.append((time.monotonic_ns(), f",{slow_cells(source)}"))

    def add_samples(self, drain: Drain) -> None:
        fresh = drain.fresh()
        if not present(fresh):
            self.failed += 1
            return
        self._waiting += [(at, f"{_cell(power)},,,,") for at, power in fresh]
        self.samples += len(fresh)
        self.last_ns = fresh[-1][0] if fresh else self.last_ns

    def write(self, until_ns: int | None = None) -> None:
        """Those until a moment, or all."""
        self._waiting.sort(key=lambda row: row[0])
        ready = [row for row in self._waiting if until_ns is None or row[0] <= until_ns]
        self._waiting = self._waiting[len(ready) :]
        self._file.write("".join(f"{at},{cells}\n" for at, cells in ready))
        self._file.flush()


def _drain(source: PowerSource, drain: Drain, file: IO[str], control: IO[str]) -> tuple[int, int]:
    rows = _Rows(file)
    for number in itertools.count():
        if number % _SLOW_DRAINS == 0:
            rows.add_slow(source)
        rows.add_samples(drain)
        rows.write(rows.last_ns)
        if _asked(control, _DRAIN_S):
            break
    asked_ns = time.monotonic_ns()
    for _ in range(_LAST_DRAINS):  # one sample after the work, so that the trace covers all of it
        rows.add_samples(drain)
        if rows.last_ns >= asked_ns:
            break
        time.sleep(_REFILL_S)
    rows.write()
    return rows.samples, rows.failed


def _working(drain: Drain) -> bool:
    """Whether the driver's samples can be used, and whether more of them come."""
    if drain.begin() is not None:
        return False
    time.sleep(_REFILL_S)
    fresh = drain.fresh()
    return present(fresh) and len(fresh) > 0


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
            file.write(",".join(TRACE_COLUMNS) + "\n")
            counted = _record(board, file)
    except OSError as error:
        raise output_error(error, "write the trace") from None
    finally:
        board.close()
    clock = counted.clock
    aligned = (clock.offset_ns, clock.uncertainty_ns, clock.drift_ns) if present(clock) else ()
    return " ".join(map(str, (counted.kind, counted.samples, counted.failed, *aligned))) + "\n"


def _record(board: NvmlBoard, file: IO[str]) -> Counted:
    drain = Drain(board.power_samples)
    if _working(drain):
        counts = _drain(board, drain, file, sys.stdin)
        return Counted(PowerKind.SAMPLES, *counts, drain.alignment())
    return Counted(board.power, *_poll(board, file, sys.stdin), POLLED)


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
        kind, samples, failed, *aligned = answer.split()
        clock = _alignment(*map(int, aligned)) if aligned else POLLED
        return RawTrace(file, PowerKind(kind), int(samples), int(failed), clock)
    except (TypeError, ValueError):
        return Absent(reason="the side sampler did not say what it recorded")


def _alignment(offset_ns: int, uncertainty_ns: int, drift_ns: int) -> ClockAlignment:
    return ClockAlignment(offset_ns=offset_ns, uncertainty_ns=uncertainty_ns, drift_ns=drift_ns)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
