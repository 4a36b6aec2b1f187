"""The driver's own power samples, laid on CLOCK_MONOTONIC.

nvmlDeviceGetSamples gives every sample the CPU's wall clock in microseconds. A wall clock can be
set or slewed, so the distance to CLOCK_MONOTONIC is measured anew at every drain: look at one, the
other, the first again; the narrowest of a few such brackets counts, and half of it is how far it
may be off. What the distance moves by during a record is told as its drift.
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.journal import ClockAlignment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TRIES: Final = 5  # brackets: one is rarely disturbed, five hardly ever all
_FEWEST: Final = 5  # samples that make a spacing
_WIDEST_US: Final = 60_000  # median spacing; beyond it polling sees more (an H200 has 20 ms, probe)
_OLDEST_US: Final = 1_000_000  # age of the newest sample (an H200 has 20 ms, our probe)
_EARLIEST_US: Final = -1_000  # a sample from after now is on another clock than ours


class Sample(NamedTuple):
    """One sample as the driver keeps it."""

    at_us: int  #: wall clock, since the epoch
    power_w: float


class Bracketed(NamedTuple):
    """CLOCK_MONOTONIC minus the wall clock, and by how much it may be off, in nanoseconds."""

    offset_ns: int
    half_ns: int


def align(
    monotonic_ns: Callable[[], int] = time.monotonic_ns,
    wall_ns: Callable[[], int] = time.time_ns,
) -> Bracketed:
    """The distance of the two clocks now, by the narrowest of a few brackets."""
    found: list[Bracketed] = []
    for _ in range(_TRIES):
        before, wall, after = monotonic_ns(), wall_ns(), monotonic_ns()
        found.append(Bracketed((before + after) // 2 - wall, (after - before + 1) // 2))
    return min(found, key=lambda each: each.half_ns)


class Drain:
    """Takes every sample of the driver's buffer once."""

    def __init__(
        self,
        read: Callable[[int], Sequence[Sample] | Absent],
        align: Callable[[], Bracketed] = align,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._read = read
        self._align = align
        self._wall_ns = wall_ns
        self._last_us = 0
        self._last_ns = 0
        self._clocks: list[Bracketed] = []

    def begin(self) -> Absent | None:
        """From now on; a reason where this buffer is empty, too coarse, old, or on another clock.

        Call it again after a while: a buffer that works has new samples by then.
        """
        samples = self._read(self._last_us)
        if not present(samples):
            return samples
        times = sorted(sample.at_us for sample in samples)
        wrong = self._wrong(times)
        if wrong is None:
            self._last_us = times[-1]
            self._clocks = [self._align()]
        return wrong

    def _wrong(self, times: Sequence[int]) -> Absent | None:
        if len(times) < _FEWEST:
            return Absent(reason=f"the driver's sample buffer holds {len(times)} samples")
        spacing = statistics.median(b - a for a, b in pairwise(times))
        if not 0 < spacing <= _WIDEST_US:
            return Absent(reason=f"the driver keeps a sample every {spacing / 1e3:g} ms")
        age = self._wall_ns() // 1000 - times[-1]
        if not _EARLIEST_US <= age <= _OLDEST_US:
            return Absent(reason=f"the driver's newest sample is {age / 1e6:g} s old")
        return None

    def fresh(self) -> list[tuple[int, float]] | Absent:
        """Samples since the last call: nanoseconds of CLOCK_MONOTONIC, and watts."""
        samples = self._read(self._last_us)
        clock = self._align()
        self._clocks.append(clock)
        if not present(samples):
            return samples
        kept: list[tuple[int, float]] = []
        for sample in sorted(samples):
            at_ns = sample.at_us * 1000 + clock.offset_ns
            if (
                at_ns > self._last_ns
            ):  # a wall clock that was set back would make time run backwards
                kept.append((at_ns, sample.power_w))
                self._last_us, self._last_ns = sample.at_us, at_ns
        return kept

    def alignment(self) -> ClockAlignment:
        """How well the two clocks were laid on each other, over the whole record."""
        offsets = [clock.offset_ns for clock in self._clocks]
        return ClockAlignment(
            offset_ns=offsets[0],
            uncertainty_ns=max(clock.half_ns for clock in self._clocks),
            drift_ns=max(offsets) - min(offsets),
        )
