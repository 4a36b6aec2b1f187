"""Idle power around a window, and the energy above it.

Between two ticks of the counter a resting board draws

    idle = (C_last − C_first) / (t_last − t_first)   ± idle · (calls + polls) / (t_last − t_first)

Before the warm-up and after the window give two such powers. Their mean is taken off the gross
energy; their drift says how well that is known. Net energy is given where it exceeds three times
the drift, and where nobody else can have been drawing power.
"""

from __future__ import annotations

from bisect import bisect_left
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.readings import EARLY, CounterReading, IdleReading
from ecocompute_cube.units import Joule, Watt, joules, nanoseconds, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.analysis.gates import Judged
    from ecocompute_cube.analysis.traces import Trace

BUSY_PCT: Final = 5.0  # utilization of a board at rest is 0; a stray kernel rounds up to 1
_SAMPLE_S: Final = 1.0  # NVML's utilization is of the last second at most, and may be as old
_POLL_S: Final = 0.001  # between two looks at the counter, as the window polls
_NOISE: Final = 3.0  # times the drift: what net energy must exceed (the design's rule)


class IdlePower(NamedTuple):
    """Around one window, in watts."""

    before: Watt
    after: Watt
    slack: Watt  #: that the readings leave open, of the less certain one

    @property
    def mean(self) -> Watt:
        """What is taken off."""
        return Watt((self.before + self.after) / 2)

    @property
    def drift(self) -> Watt:
        """How far apart they are, or may be for all that the readings tell."""
        return Watt(max(abs(self.after - self.before), self.slack))


class PowerReadings(NamedTuple):
    """The trace of a visit, for boards without a counter."""

    trace: Trace | Absent
    stale_s: float  #: a reading shows power as of a moment up to so long ago


def idle_around(
    before: IdleReading | Absent, after: IdleReading | Absent, readings: PowerReadings
) -> IdlePower | Absent:
    """Both idle powers of a window by the counter, else by the trace; or why there are none."""
    found: list[tuple[float, float]] = []
    for reading in (before, after):
        if isinstance(reading, Absent):
            return Absent(reason="idle_not_measured") if reading == EARLY else reading
        if (shared := _shared(reading)) is not None:
            return shared
        power = _by_counter(reading) or _by_trace(reading, readings)
        if isinstance(power, Absent):
            return power
        found.append(power)
    (before_w, before_slack), (after_w, after_slack) = found
    return IdlePower(Watt(before_w), Watt(after_w), Watt(max(before_slack, after_slack)))


def resting_power(reading: IdleReading | Absent) -> Watt | Absent:
    """Of one rest, by the counter."""
    if isinstance(reading, Absent):
        return reading
    if (shared := _shared(reading)) is not None:
        return shared
    found = _by_counter(reading)
    if found is None:
        return Absent(reason="idle_not_measured: the energy counter gave nothing")
    return Watt(found[0])


def busy(reading: IdleReading | Absent) -> bool:
    """Whether kernels ran on the board while this run rested.

    A rest is as long unseen as it is read, and shorter ones may show this run's own kernels.
    """
    if isinstance(reading, Absent):
        return False
    if seconds(reading.span.end_ns - reading.span.start_ns) < _SAMPLE_S:
        return False
    utilization = reading.seen.utilization_pct
    return present(utilization) and utilization >= BUSY_PCT


def _shared(reading: IdleReading) -> Absent | None:
    """Why what was seen may be somebody else's power."""
    others = reading.seen.foreign_processes
    if isinstance(others, Absent):
        return Absent(reason=f"neighbours_unknown: {others.reason}")
    if others or busy(reading):
        return Absent(reason="foreign_process: somebody else used the board")
    return None


def _by_counter(reading: IdleReading) -> tuple[float, float] | None:
    first, last = reading.first, reading.last
    if not present(first) or not present(last) or last.energy_mj <= first.energy_mj:
        return None
    if last.before_ns <= first.after_ns:  # no board wrote that
        return None
    length = seconds(last.before_ns - first.before_ns)
    power = joules(last.energy_mj - first.energy_mj) / length
    look_s = 2 * seconds(reading.look_ns)  # that several boards' ticks may have been seen late
    return power, power * (_edge_s(first) + _edge_s(last) + look_s) / length


def _edge_s(reading: CounterReading) -> float:
    return seconds(reading.after_ns - reading.before_ns) + _POLL_S


def _by_trace(reading: IdleReading, readings: PowerReadings) -> tuple[float, float] | Absent:
    if not present(readings.trace):
        return Absent(reason=f"idle_not_measured: {readings.trace.reason}")
    times = readings.trace.t_ns
    # A reading shows what was drawn up to ``stale_s`` before it.
    first = bisect_left(times, reading.span.start_ns + nanoseconds(readings.stale_s))
    seen = readings.trace.power_w[first : bisect_left(times, reading.span.end_ns)]
    if not seen or min(seen) <= 0:
        return Absent(reason="idle_not_measured: no power was read while the board rested")
    return fmean(seen), max(seen) - min(seen)


def net_energy(windows: Sequence[Judged]) -> Joule | Absent:
    """Energy above idle over an arm's windows.

    A reason when a window has no idle power, or the sum is not clearly above idle's own drift.
    """
    net = noise = 0.0
    for window in windows:
        if not present(window.energy):
            return Absent(reason=window.energy.reason)
        if not present(window.idle):
            return window.idle
        net += window.energy.energy - window.idle.mean * window.work_s
        noise += window.idle.drift * window.work_s
    if net <= _NOISE * noise:
        return Absent(
            reason=f"below_idle_noise: {net:.1f} J above idle, whose drift is {noise:.1f} J"
        )
    return Joule(net)
