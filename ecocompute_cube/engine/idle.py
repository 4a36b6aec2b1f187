"""Idle power with a live context: what the board draws while it holds the models and rests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.engine.window import wait_for_tick
from ecocompute_cube.model.base import present
from ecocompute_cube.model.readings import IdleReading, Span

if TYPE_CHECKING:
    from ecocompute_cube.device.base import Clock, PowerSource

UNCOUNTED_S: Final = 2.5  # without a counter: power readings may stand for the second before them


def read_idle(
    source: PowerSource, clock: Clock, own_processes: frozenset[int], idle_s: float
) -> IdleReading:
    """Rest for ``idle_s`` seconds, and then from tick to tick for as long or a little more.

    The first rest is for what went before to fade, from the board and from the driver's averages.
    """
    clock.sleep(idle_s)
    start = clock.now_ns()
    first = wait_for_tick(source, clock)
    clock.sleep(idle_s if present(first) else max(idle_s, UNCOUNTED_S))
    last = wait_for_tick(source, clock) if present(first) else first
    span = Span(start_ns=start, end_ns=clock.now_ns())
    return IdleReading(span=span, first=first, last=last, seen=source.telemetry(own_processes))
