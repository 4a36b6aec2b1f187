"""The measuring window: the lines that matter.

    previous  opening           start            end   closing   next   after next
       │         │    delay       │      work      │      │       │         │
    ───┴─────────┴────────────────┴────────────────┴──────┴───────┴─────────┴──▶ t
     tick      tick                                             tick      tick

The counter moves once a tick (100 ms on the boards seen so far). Reading it right after a tick
pins the opening energy; the random delay below one tick varies the phase, so that work locked to
the sensor's period cannot hide from it; the last three readings bracket the closing energy, even
of a counter that lags by a tick.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.readings import (
    COUNTER_STUCK,
    CounterBracket,
    CounterReading,
    Span,
    Tick,
)
from ecocompute_cube.units import nanoseconds, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ecocompute_cube.device.base import Clock, PowerSource

_TICK_TIMEOUT_S: Final = 2.0  # 20 times the tick of the slowest board seen
_POLL_S: Final = 0.001


class Window(NamedTuple):
    """What was read around one piece of work."""

    counter: CounterBracket | Absent
    work: Span


def read_counter(source: PowerSource, clock: Clock) -> CounterReading | Absent:
    """Clock, counter, clock."""
    before = clock.now_ns()
    energy = source.energy_mj()
    after = clock.now_ns()
    if not present(energy):
        return energy
    return CounterReading(before_ns=before, energy_mj=energy, after_ns=after)


def wait_for_tick(
    source: PowerSource, clock: Clock, since: CounterReading | None = None
) -> CounterReading | Absent:
    """The first reading that differs from ``since``, or from one taken now.

    A reason when the counter cannot be read or does not move for two seconds.
    """
    first = since or read_counter(source, clock)
    if not present(first):
        return first
    deadline = first.after_ns + nanoseconds(_TICK_TIMEOUT_S)
    while True:
        clock.sleep(_POLL_S)
        reading = read_counter(source, clock)
        if not present(reading) or reading.energy_mj != first.energy_mj:
            return reading
        if reading.after_ns > deadline:
            return Absent(reason=f"{COUNTER_STUCK} for {_TICK_TIMEOUT_S:.0f} s")


def measure(
    source: PowerSource,
    clock: Clock,
    sync: Callable[[], None],
    work: Callable[[], None],
    delay_s: float,
) -> Window:
    """Do ``work`` between readings. Without a counter the work is done all the same."""
    with _no_collection():
        sync()
        previous = wait_for_tick(source, clock)
        opening = wait_for_tick(source, clock, previous) if present(previous) else previous
        clock.sleep(delay_s)
        start = clock.now_ns()
        work()
        sync()
        end = clock.now_ns()
        closing = read_counter(source, clock)
        # Since the closing reading itself: a tick during that call must not be passed over.
        following = wait_for_tick(source, clock, closing) if present(closing) else closing
        last = wait_for_tick(source, clock, following) if present(following) else following
    counter = _bracket(previous, opening, closing, following, last)
    return Window(counter, Span(start_ns=start, end_ns=end))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect garbage first (it takes a few tenths of a second), then not at all."""
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _bracket(*readings: CounterReading | Absent) -> CounterBracket | Absent:
    for reading in readings:
        if isinstance(reading, Absent):
            return reading
    previous, opening, closing, following, last = (r for r in readings if present(r))
    return CounterBracket(
        previous=previous, opening=opening, closing=closing, next=following, after_next=last
    )


def measure_tick(source: PowerSource, clock: Clock, ticks: int = 20) -> Tick | Absent:
    """How often the counter moves, over ``ticks`` ticks, and what a call costs."""
    edges: list[CounterReading] = []
    for _ in range(ticks + 1):
        edge = wait_for_tick(source, clock)
        if not present(edge):
            return edge
        edges.append(edge)
    periods = sorted(1e3 * seconds(b.before_ns - a.before_ns) for a, b in pairwise(edges))
    calls = sorted(1e3 * seconds(edge.after_ns - edge.before_ns) for edge in edges)
    return Tick(
        median_ms=periods[len(periods) // 2],
        shortest_ms=periods[0],
        longest_ms=periods[-1],
        ticks=ticks,
        call_median_ms=calls[len(calls) // 2],
        call_longest_ms=calls[-1],
    )
