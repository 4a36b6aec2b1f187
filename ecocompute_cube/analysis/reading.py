"""One window's energy by the best source its session has, with what stands beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.energy import WindowEnergy, counter_energy
from ecocompute_cube.analysis.gates import Judged
from ecocompute_cube.analysis.idle import PowerReadings, idle_around
from ecocompute_cube.analysis.traces import integral_bound, integrate, rate_hz
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.readings import COUNTER_STUCK, EARLY, PowerKind
from ecocompute_cube.units import Joule, Watt, seconds

if TYPE_CHECKING:
    from ecocompute_cube.analysis.rates import MemoryUse
    from ecocompute_cube.analysis.traces import Bound, Trace
    from ecocompute_cube.model.base import MaybeFloat
    from ecocompute_cube.model.journal import (
        ClockAlignment,
        Warmed,
        WindowMeasured,
    )
    from ecocompute_cube.model.plan import Workload
    from ecocompute_cube.model.readings import Span, Tick

#: Seconds by which the edges of a trace's integral may be off, by what was sampled: a reading
#: stands for the last 0.1 s (field 186) or the last second (185, power usage); nvml.h, our probe.
#: What the driver's own samples stand for is not documented: taken as for field 186.
EDGE_S: Final = {
    PowerKind.SAMPLES: 0.1,
    PowerKind.INSTANT: 0.1,
    PowerKind.AVERAGE: 1.0,
    PowerKind.USAGE: 1.0,
}
_MEANS: Final = (PowerKind.AVERAGE, PowerKind.USAGE)  # power may have passed what these read


class Seen(NamedTuple):
    """What is known around a window."""

    tick: Tick | Absent
    limit_w: MaybeFloat
    trace: Trace | Absent
    source: PowerKind  #: of the trace
    clock: ClockAlignment | Absent  #: of the trace
    warmed: Warmed | None
    workload: Workload
    memory: MemoryUse | None = None


class _Integral(NamedTuple):
    energy: Joule | Absent
    bound: Bound | None


def judged(window: WindowMeasured, seen: Seen) -> Judged:
    """A window with its energy, and what is known about it."""
    integral = _integral(window.work, seen)
    energy, source = _energy(window, seen, integral)
    trace = seen.trace
    return Judged(
        fact=window,
        warmed=seen.warmed,
        workload=seen.workload,
        energy=energy,
        source=source,
        integral=integral.energy,
        integral_source=seen.source,
        rate_hz=rate_hz(trace.t_ns, window.work) if present(trace) else trace,
        reasons=trace.reasons_in(window.work) if present(trace) else trace,
        power_limit_w=seen.limit_w,
        integral_bound=integral.bound,
        tick_s=seen.tick.longest_ms / 1e3 if present(seen.tick) else 0.0,
        idle=idle_around(
            seen.warmed.idle if seen.warmed else EARLY,
            window.idle,
            PowerReadings(trace, EDGE_S.get(seen.source, 1.0)),
        ),
        memory=seen.memory,
    )


def _integral(work: Span, seen: Seen) -> _Integral:
    if not present(seen.trace):
        return _Integral(seen.trace, None)
    energy = integrate(seen.trace, work)
    if not present(energy):
        return _Integral(energy, None)
    edge_s = EDGE_S.get(seen.source, 1.0)
    bound = integral_bound(seen.trace, work, edge_s)
    if seen.source in _MEANS:
        bound = bound.wider(edge_s * max(_peaks(seen)))
    if present(seen.clock):  # a trace that lies early or late by so much
        off_s = seconds(seen.clock.uncertainty_ns + seen.clock.drift_ns)
        bound = bound.wider(off_s * max(_peaks(seen)))
    return _Integral(energy, bound)


def _energy(
    window: WindowMeasured, seen: Seen, integral: _Integral
) -> tuple[WindowEnergy | Absent, PowerKind]:
    """By the counter where the session has one, else by the trace; never both in one session."""
    if not present(seen.tick):
        return _by_trace(window, seen, integral)
    if isinstance(window.counter, Absent):
        code = "counter_stuck" if COUNTER_STUCK in window.counter.reason else "counter_lost"
        return Absent(reason=f"{code}: {window.counter.reason}"), PowerKind.COUNTER
    mean = (window.counter.closing.energy_mj - window.counter.opening.energy_mj) / 1e3
    highest = max(_peaks(seen), default=2 * abs(mean) / _length(window.work))
    look_s = seconds(window.look_ns)
    energy = counter_energy(window.counter, window.work, seen.tick, Watt(highest), look_s)
    return energy, PowerKind.COUNTER


def _by_trace(
    window: WindowMeasured, seen: Seen, integral: _Integral
) -> tuple[WindowEnergy | Absent, PowerKind]:
    if not present(integral.energy) or integral.bound is None or seen.source not in EDGE_S:
        reasons = [r.reason for r in (window.counter, integral.energy) if isinstance(r, Absent)]
        return Absent(reason="; ".join(reasons) or "nothing was sampled"), PowerKind.NONE
    slack = EDGE_S[seen.source] * max(_peaks(seen))
    low = min(integral.bound.low, Joule(integral.energy - slack))
    high = max(integral.bound.high, Joule(integral.energy + slack))
    return WindowEnergy(integral.energy, low, high, Absent(reason="no counter")), seen.source


def _peaks(seen: Seen) -> list[float]:
    sampled = seen.trace.power_w if present(seen.trace) else ()
    return [*sampled, *([seen.limit_w] if present(seen.limit_w) else ())]


def _length(span: Span) -> float:
    return max(seconds(span.end_ns - span.start_ns), 1e-9)
