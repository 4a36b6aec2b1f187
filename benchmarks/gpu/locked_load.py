"""A load locked to the sensor's tick, and to half of it: how far do windows of it spread?

Run on a GPU host: ``python -m benchmarks.gpu.locked_load [--phases N] [--seconds S] [--csv FILE]``.
The load is on for a quarter of its period; each window begins at a random phase. Prints, for each
period, the coefficient of variation (CV) of the mean power by our window, and of a 10 Hz poll of
instant power beside it, with 95 % intervals; status 1 when the upper end of ours is out of reach.
Defaults take about seven minutes.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.energy import counter_energy
from ecocompute_cube.device.base import SystemClock
from ecocompute_cube.device.nvml import NvmlBoard, choose_board
from ecocompute_cube.engine.window import measure, measure_tick
from ecocompute_cube.model.base import present
from ecocompute_cube.units import Watt, seconds

if TYPE_CHECKING:
    from ecocompute_cube.model.readings import Span, Tick

_REACH_PCT: Final = 3.5  # upper end of the CV of our windows
_DUTY: Final = 0.25
_POLL_S: Final = 0.1
_SIDE: Final = 4096  # FP16 products of this size keep any board busy
_LIMIT_W: Final = Watt(1000.0)  # for the bound alone, which is not printed


class Reading(NamedTuple):
    """One window's mean power, in watts."""

    period_ms: float
    window: int
    delay_ms: float
    counter_w: float
    polled_w: float
    polls: int


class Spread(NamedTuple):
    """Coefficient of variation with its 95 % interval, in percent."""

    cv: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """By the chi-square distribution of a normal sample's variance."""
    from scipy import stats

    n = len(values)
    cv = 100 * statistics.stdev(values) / statistics.fmean(values)
    low, high = (math.sqrt((n - 1) / stats.chi2.ppf(p, n - 1)) for p in (0.975, 0.025))
    return Spread(cv, cv * low, cv * high)


class Beat:
    """On for a quarter of each period, by the clock; the work between two looks is calibrated."""

    def __init__(self, product: Callable[[], object], sync: Callable[[], None]) -> None:
        self._product = product
        self._sync = sync
        self._at_once = 1
        self._sync()
        self._times(8)
        self._product_s = self._times(64) / 64

    def _times(self, count: int) -> float:
        begun = time.monotonic()
        for _ in range(count):
            self._product()
        self._sync()
        return time.monotonic() - begun

    def run(self, period_s: float, length_s: float) -> None:
        """Whole periods, each begun when its time has come: lateness does not add up."""
        count = max(1, round(_DUTY * period_s / self._product_s))
        begun = time.monotonic()
        for beat in range(max(1, round(length_s / period_s))):
            _wait_until(begun + beat * period_s)
            self._times(count)
        _wait_until(begun + max(1, round(length_s / period_s)) * period_s)


def _wait_until(moment: float) -> None:
    """Sleep for most of it, then look at the clock: sleeping alone may take a millisecond more."""
    while (left := moment - time.monotonic()) > 0:
        time.sleep(left - 0.002 if left > 0.004 else 0)


def poll(uuid: str, file: Path) -> int:
    """Instant power ten times a second, as many tools do, until standard input closes."""
    board = NvmlBoard(uuid)
    begun, number = time.monotonic(), 0
    with file.open("w", buffering=1) as out:
        while True:
            at, power = time.monotonic_ns(), board.power_w()
            if present(power):
                out.write(f"{at},{power}\n")
            number += 1
            wait_s = max(0.0, begun + number * _POLL_S - time.monotonic())
            if select.select([sys.stdin], [], [], wait_s)[0]:
                return 0


def polled(file: Path, work: Span) -> list[float]:
    """What was polled within the work."""
    rows = (line.split(",") for line in file.read_text().splitlines()[:-1])  # the last may be torn
    return [float(power) for at, power in rows if work.start_ns <= int(at) <= work.end_ns]


class Stage(NamedTuple):
    """A board, its load, and what is polled beside it."""

    board: NvmlBoard
    tick: Tick
    beat: Beat
    sync: Callable[[], None]
    polls: Path


def windows(stage: Stage, period_s: float, count: int, length_s: float) -> list[Reading]:
    """So many windows of a load of this period, each at a random phase of the tick."""
    draw = random.Random(round(1e6 * period_s))
    found: list[Reading] = []
    for number in range(count):
        delay_s = draw.random() * stage.tick.median_ms / 1e3
        time.sleep(draw.random() * _POLL_S)  # and of the poll
        window = measure(
            stage.board,
            SystemClock(),
            stage.sync,
            lambda: stage.beat.run(period_s, length_s),
            delay_s,
        )
        assert present(window.counter), window.counter
        energy = counter_energy(window.counter, window.work, stage.tick, _LIMIT_W)
        assert present(energy), energy
        power = polled(stage.polls, window.work)
        took_s = seconds(window.work.end_ns - window.work.start_ns)
        mean_w = energy.energy / took_s
        found.append(
            Reading(
                1e3 * period_s,
                number,
                1e3 * delay_s,
                mean_w,
                statistics.fmean(power) if power else math.nan,
                len(power),
            )
        )
        sys.stdout.write(
            f"{1e3 * period_s:6.1f} ms {number + 1:3}/{count}: counter {mean_w:6.1f} W, "
            f"polled {found[-1].polled_w:6.1f} W ({len(power)})\n"
        )
        sys.stdout.flush()
    return found


def save(readings: Sequence[Reading], file: Path) -> None:
    """One line a window."""
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(Reading._fields)
        rows.writerows(readings)


def as_text(period_ms: float, found: Sequence[Reading], ours: Spread, theirs: Spread) -> str:
    """The figures of one period."""
    return (
        f"{period_ms:.1f} ms, {len(found)} phases: CV of our window {ours.cv:.2f} % "
        f"({ours.low:.2f} to {ours.high:.2f}; reach {_REACH_PCT:g}), of a 10 Hz poll "
        f"{theirs.cv:.1f} % ({theirs.low:.1f} to {theirs.high:.1f})"
    )


def _beat() -> tuple[Beat, Callable[[], None]]:
    import torch

    a = torch.randn(_SIDE, _SIDE, device="cuda:0", dtype=torch.float16)
    out = torch.empty_like(a)
    return Beat(lambda: torch.mm(a, a, out=out), torch.cuda.synchronize), torch.cuda.synchronize


def main(arguments: Sequence[str]) -> int:
    """Print the figures; status 1 when one is out of reach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--phases", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--csv", type=Path, default=Path("locked_load.csv"))
    parser.add_argument("--poll", nargs=2, metavar=("UUID", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.poll:
        return poll(options.poll[0], Path(options.poll[1]))
    chosen = choose_board()  # held until the end
    uuid = chosen.uuid
    (beat, sync), board = _beat(), NvmlBoard(uuid)
    tick = measure_tick(board, SystemClock())
    assert present(tick), tick
    sys.stdout.write(
        f"tick {tick.median_ms:.2f} ms ({tick.shortest_ms:.1f} to {tick.longest_ms:.1f})\n"
    )
    within = True
    readings: list[Reading] = []
    with tempfile.TemporaryDirectory() as folder:
        polls = Path(folder) / "polls.csv"
        command = [sys.executable, "-m", "benchmarks.gpu.locked_load", "--poll", uuid, str(polls)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as poller:
            time.sleep(3)  # for the poller to start
            stage = Stage(board, tick, beat, sync, polls)
            for period_s in (tick.median_ms / 1e3, tick.median_ms / 2e3):
                found = windows(stage, period_s, options.phases, options.seconds)
                readings += found
                save(readings, options.csv)
                ours = spread([reading.counter_w for reading in found])
                theirs = spread([reading.polled_w for reading in found])
                within &= ours.high <= _REACH_PCT
                sys.stdout.write(as_text(1e3 * period_s, found, ours, theirs) + "\n")
            poller.communicate(timeout=10)
    return 0 if within else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
