"""A side sampler in a process of its own: ``python -m ecocompute_cube.device.sampler UUID FILE``.

Python in the measured process can be busy for seconds; this one never is. It writes one CSV line
a sample, ends when its standard input closes (also when its parent dies), and says how many
samples failed. Slow readings (temperature, clocks) are taken once a second.
"""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from ecocompute_cube.device.base import PowerSource, RawTrace, SystemClock
from ecocompute_cube.model.base import Absent, MaybeFloat, present
from ecocompute_cube.model.journal import TRACE_COLUMNS, PowerKind
from ecocompute_cube.units import nanoseconds, seconds

if TYPE_CHECKING:
    from ecocompute_cube.device.base import Clock

_PERIOD_S: Final = 0.05  # twice as often as the readings change on an H200 (100 ms, our probe)
_SLOW_EVERY: Final = 20  # samples: once a second
_STOP_TIMEOUT_S: Final = 10.0


def sample_line(source: PowerSource, clock: Clock, slow: bool) -> tuple[str, bool]:
    """One CSV line and whether power was there. Absent values are empty fields."""
    at = clock.now_ns()
    power = source.power_w()
    if not slow:
        return f"{at},{_cell(power)},,,\n", present(power)
    seen = source.telemetry(frozenset())
    cells = (seen.temperature_c, seen.sm_clock_mhz, seen.memory_clock_mhz)
    return f"{at},{_cell(power)},{','.join(map(_cell, cells))}\n", present(power)


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
    """Sample until standard input closes; print ``kind samples failed``."""
    from ecocompute_cube.device.nvml import NvmlBoard

    uuid, name = arguments
    board = NvmlBoard(uuid)
    with Path(name).open("w", encoding="ascii") as file:
        samples, failed = _record(board, file, sys.stdin)
    sys.stdout.write(f"{board.board().power} {samples} {failed}\n")
    board.close()
    return 0


class ProcessTracer:
    """Runs the side sampler for one visit at a time."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._process: subprocess.Popen[str] | None = None
        self._file = Path()

    def start(self, file: Path) -> None:
        """Begin sampling into ``file``."""
        self._file = file
        command = [sys.executable, "-m", "ecocompute_cube.device.sampler", self._uuid, str(file)]
        self._process = subprocess.Popen(  # noqa: S603 (our own module, fixed arguments)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the runner to pass on
        )

    def stop(self) -> RawTrace | Absent:
        """End sampling; a reason if the sampler died or left nothing."""
        if self._process is None:
            return Absent(reason="the side sampler was not started")
        process, self._process = self._process, None
        try:
            answer, complaint = process.communicate(timeout=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Absent(reason="the side sampler did not end when asked")
        if process.returncode != 0:
            last = complaint.strip().splitlines()[-1:] or [f"status {process.returncode}"]
            return Absent(reason=f"the side sampler died: {last[0]}")
        kind, samples, failed = answer.split()
        return RawTrace(self._file, PowerKind(kind), int(samples), int(failed))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
