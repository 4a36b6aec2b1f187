"""A rate that no memory could sustain is a fault of the measurement, not a result."""

from __future__ import annotations

from typing import Final, NamedTuple

#: × the bandwidth of a copy: reading alone may beat it, but not by a fifth (an H200 copies 87 % of
#: what its memory's clock and width allow).
_BEYOND: Final = 1.2


class MemoryUse(NamedTuple):
    """What a step must fetch from memory, and what memory gives."""

    step_bytes: float  #: weights beyond what the board's last cache may have kept
    copy_bytes_per_s: float

    def impossible(self, steps: int, took_s: float) -> bool:
        """Whether so many steps cannot have fetched that in this time."""
        return self.step_bytes * steps > _BEYOND * self.copy_bytes_per_s * took_s
