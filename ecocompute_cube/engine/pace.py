"""How fast the host is right now: the time of a fixed loop of plain Python.

Eager decoding at batch 1 waits for the host. On a shared machine the same core can be twice as fast
a minute later without any steal time being reported (data/h200/host_pace_2026-11-30.txt), so every
window records it. The median of several loops, so that one interruption is not taken for a slow
host.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from ecocompute_cube.units import Second, seconds

if TYPE_CHECKING:
    from ecocompute_cube.device.base import Clock

_ROUNDS: Final = 400_000  # about 15 ms on a fast core of 2023
_LOOPS: Final = 5


def spin(clock: Clock) -> Second:
    """Seconds that one loop takes now."""
    return Second(statistics.median(_loop(clock) for _ in range(_LOOPS)))


def _loop(clock: Clock) -> Second:
    start = clock.now_ns()
    total = 0
    for number in range(_ROUNDS):
        total += number
    return seconds(clock.now_ns() - start)
