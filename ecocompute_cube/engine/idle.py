"""Idle power with a live context: what boards draw while they hold the models and rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.engine.window import wait_for_ticks
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.readings import CounterReading, IdleReading, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.device.base import Clock, PowerSource

UNCOUNTED_S: Final = 2.5  # without a counter: power readings may stand for the second before them


def read_idle(
    sources: Sequence[PowerSource], clock: Clock, own_processes: frozenset[int], idle_s: float
) -> tuple[IdleReading, ...]:
    """Rest for ``idle_s`` seconds, and then from tick to tick for as long or a little more.

    The first rest is for what went before to fade, from the board and from the driver's averages.
    """
    clock.sleep(idle_s)
    start = clock.now_ns()
    first = wait_for_ticks(sources, clock, 1, [None] * len(sources))
    counted = all(present(edges) for edges in first.boards)
    clock.sleep(idle_s if counted else max(idle_s, UNCOUNTED_S))
    last = wait_for_ticks(
        sources, clock, 1, [None if present(edges) else edges for edges in first.boards]
    )
    span = Span(start_ns=start, end_ns=clock.now_ns())
    return tuple(
        IdleReading(
            span=span,
            first=_only(begun),
            last=_only(ended),
            seen=source.telemetry(own_processes),
            look_ns=max(first.look_ns, last.look_ns),
        )
        for source, begun, ended in zip(sources, first.boards, last.boards, strict=True)
    )


def _only(edges: tuple[CounterReading, ...] | Absent) -> CounterReading | Absent:
    return edges[0] if present(edges) else edges
