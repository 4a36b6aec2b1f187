"""One window's energy from its readings, with the bound that the readings allow.

With the counter's value C at ``opening``, ``closing``, ``next`` and ``after next``, the idle power
p just before the work, the work's start s and end e:

    delay   = p · (s − opening)                      drawn before the work began
    average = (C_closing − C_opening − delay) / (t_closing − s)
    energy  = C_closing − C_opening − delay + tail   tail = average · (e − t_closing)

where t_closing is the tick that ``closing`` shows, one tick before ``next``; the tail is kept
between 0 and C_next − C_closing. The bound holds for a counter that lags by up to one tick:

    low  = C_closing    − C_opening − delay − p·tick − call·P
    high = C_after next − C_opening − delay          + call·P

call is the time the readings at both ends took, P the highest power that may have flowed in it.

Of several boards the counters are looked at in turn. A tick is then seen up to ``look`` late: the
opening one, and both from which p is taken, over at most two ticks of delay. And ``closing`` of a
board is read ``late`` after the work, when those before it have been:

    low  −= 3 · p · look + late · P      high += 2 · p · look

The gain of the board's sensor is not in this bound; nobody can know it without another meter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import Absent
from ecocompute_cube.units import Joule, Second, Watt, joules, seconds

if TYPE_CHECKING:
    from ecocompute_cube.model.readings import (
        CounterBracket,
        CounterReading,
        Span,
        Tick,
    )

_AT_ONCE: Final = Second(0.0)
_SEEN_LATE: Final = 0.8  # of a tick: below the closest ticks on an H200 (0.89, our probe)


class WindowEnergy(NamedTuple):
    """Energy of the work in one window, and what the readings bound it by."""

    energy: Joule
    low: Joule
    high: Joule
    idle: Watt | Absent  #: just before the work, with the model loaded


def counter_energy(
    bracket: CounterBracket, work: Span, tick: Tick, highest: Watt, look: Second = _AT_ONCE
) -> WindowEnergy | Absent:
    """Energy by the counter; ``highest`` bounds what may flow while a reading is taken.

    ``look`` is how late one of several boards' ticks may have been seen; zero of a single board.

    A reason when the readings cannot be of one running counter, or too few ticks fit the work.
    """
    wrong = _impossible(bracket, work, tick)
    if wrong is not None:
        return wrong
    period = Second(tick.median_ms / 1e3)
    idle = _power(bracket.previous, bracket.opening, period)
    delay = idle * seconds(work.start_ns - bracket.opening.before_ns)
    gross = _between(bracket.opening, bracket.closing) - delay
    shown = seconds(bracket.next.before_ns - work.start_ns) - period  # until the tick of closing
    if shown <= 0 or gross <= 0:
        return Absent(reason="below_resolution: the work is shorter than the counter's tick")
    left = max(0.0, seconds(work.end_ns - bracket.next.before_ns) + period)
    tail = min(gross / shown * left, _between(bracket.closing, bracket.next))
    slack = highest * (_call_s(bracket.opening) + _call_s(bracket.closing))
    late = seconds(bracket.closing.before_ns - work.end_ns) if look else 0.0
    return WindowEnergy(
        energy=Joule(gross + tail),
        low=Joule(gross - idle * period - slack - 3 * idle * look - late * highest),
        high=Joule(_between(bracket.opening, bracket.after_next) - delay + slack + 2 * idle * look),
        idle=Watt(idle),
    )


def _impossible(bracket: CounterBracket, work: Span, tick: Tick) -> Absent | None:
    steps = (bracket.previous, bracket.opening, bracket.closing, bracket.next, bracket.after_next)
    values = [reading.energy_mj for reading in steps]
    if values != sorted(values):
        return Absent(reason="counter_reset: the energy counter went backwards in the window")
    if bracket.closing.energy_mj > bracket.opening.energy_mj:
        return None
    work_s = seconds(work.end_ns - work.start_ns)
    if work_s > 2 * tick.longest_ms / 1e3:  # two ticks: of which one may show nothing but lag
        return Absent(
            reason=f"counter_stuck: the energy counter did not move during {work_s:.1f} s of work"
        )
    return Absent(reason="below_resolution: the counter did not move during the work")


def _between(a: CounterReading, b: CounterReading) -> float:
    return joules(b.energy_mj - a.energy_mj)


def _power(a: CounterReading, b: CounterReading, period: Second) -> float:
    """Between two ticks; a slow call may have seen the first late, and then they look too close."""
    apart = seconds(b.before_ns - a.before_ns)
    return _between(a, b) / (apart if apart >= _SEEN_LATE * period else period)


def _call_s(reading: CounterReading) -> float:
    return seconds(reading.after_ns - reading.before_ns)
