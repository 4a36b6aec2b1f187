"""The measuring window: the lines that matter.

    previous  opening           start            end   closing   next   after next
       │         │    delay       │      work      │      │       │         │
    ───┴─────────┴────────────────┴────────────────┴──────┴───────┴─────────┴──▶ t
     tick      tick                                             tick      tick

The counter moves once a tick (100 ms on the boards seen so far). Reading it right after a tick
pins the opening energy; the random delay below one tick varies the phase, so that work locked to
the sensor's period cannot hide from it; the last three readings bracket the closing energy, even
of a counter that lags by a tick. Counters of several boards are looked at in turn, before the work
and after it: each has readings of its own, and what a look may be late by is kept with them.
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
    from collections.abc import Callable, Iterator, Sequence

    from ecocompute_cube.device.base import Clock, PowerSource

_TICK_TIMEOUT_S: Final = 2.0  # 20 times the tick of the slowest board seen
_POLL_S: Final = 0.001


class Window(NamedTuple):
    """What was read around one piece of work."""

    counter: CounterBracket | Absent
    work: Span
    others: tuple[CounterBracket | Absent, ...] = ()  #: of the further boards
    look_ns: int = 0  #: the longest time between two looks at one of several boards


class Ticks(NamedTuple):
    """First readings after successive ticks of each board, or why it has none."""

    boards: tuple[tuple[CounterReading, ...] | Absent, ...]
    look_ns: int = 0  #: from one look at a board to the one that saw its tick; of a single board 0


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
    (seen,) = wait_for_ticks((source,), clock, 1, (since,)).boards
    return seen[0] if present(seen) else seen


def wait_for_ticks(
    sources: Sequence[PowerSource],
    clock: Clock,
    count: int,
    since: Sequence[CounterReading | Absent | None],
) -> Ticks:
    """Look at each counter in turn until every board has ticked so often.

    Each since its reading, or since one taken now; a board without a reading is not waited for.
    """
    watched = [
        _Watched(source, read_counter(source, clock) if last is None else last)
        for source, last in zip(sources, since, strict=True)
    ]
    while any(board.waits(count) for board in watched):
        clock.sleep(_POLL_S)
        for board in watched:
            if board.waits(count):
                board.look(clock)
    several = len(watched) > 1
    return Ticks(
        tuple(board.seen for board in watched),
        max(board.look_ns for board in watched) if several else 0,
    )


class _Watched:
    """A board whose counter is looked at until it moves."""

    def __init__(self, source: PowerSource, last: CounterReading | Absent) -> None:
        self._source, self._last, self._looked = source, last, last
        self._edges: list[CounterReading] = []
        self.look_ns = 0

    def waits(self, count: int) -> bool:
        return present(self._last) and len(self._edges) < count

    def look(self, clock: Clock) -> None:
        last, looked = self._last, self._looked
        self._looked = reading = read_counter(self._source, clock)
        if not present(reading) or not present(last) or not present(looked):
            self._last = reading
        elif reading.energy_mj != last.energy_mj:
            self._edges.append(reading)
            self._last = reading
            self.look_ns = max(self.look_ns, reading.before_ns - looked.before_ns)
        elif reading.after_ns > last.after_ns + nanoseconds(_TICK_TIMEOUT_S):
            self._last = Absent(reason=f"{COUNTER_STUCK} for {_TICK_TIMEOUT_S:.0f} s")

    @property
    def seen(self) -> tuple[CounterReading, ...] | Absent:
        return tuple(self._edges) if present(self._last) else self._last


def measure(
    source: PowerSource,
    clock: Clock,
    sync: Callable[[], None],
    work: Callable[[], None],
    delay_s: float,
    others: Sequence[PowerSource] = (),
) -> Window:
    """Do ``work`` between readings. Without a counter the work is done all the same."""
    boards = (source, *others)
    with _no_collection():
        sync()
        opening = wait_for_ticks(boards, clock, 2, [None] * len(boards))
        clock.sleep(delay_s)
        start = clock.now_ns()
        work()
        sync()
        end = clock.now_ns()
        closing = [read_counter(board, clock) for board in boards]
        # Since the closing reading itself: a tick during that call must not be passed over.
        following = wait_for_ticks(boards, clock, 2, closing)
    counter, *more = map(_bracket, opening.boards, closing, following.boards)
    look_ns = max(opening.look_ns, following.look_ns)
    return Window(counter, Span(start_ns=start, end_ns=end), tuple(more), look_ns)


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


def _bracket(
    before: tuple[CounterReading, ...] | Absent,
    closing: CounterReading | Absent,
    after: tuple[CounterReading, ...] | Absent,
) -> CounterBracket | Absent:
    if not present(before):
        return before
    if not present(closing):
        return closing
    if not present(after):
        return after
    (previous, opening), (following, last) = before, after
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
