"""How fast the host is right now: the time of a fixed loop of plain Python.

Eager decoding at batch 1 waits for the host. On a shared machine the same core can be twice as fast
a minute later without any steal time being reported (seen on a virtual machine beside an H200: the
loop took 73 to 140 ms while decoding went from 51 to 31 tokens/s), so every window records it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.units import Second, seconds

if TYPE_CHECKING:
    from ecocompute_cube.device.base import Clock

_ROUNDS: Final = 400_000  # about 15 ms on a fast core of 2023


def spin(clock: Clock) -> Second:
    """Seconds that the loop takes now."""
    start = clock.now_ns()
    total = 0
    for number in range(_ROUNDS):
        total += number
    return seconds(clock.now_ns() - start)
