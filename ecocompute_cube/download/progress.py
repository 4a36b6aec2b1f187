"""Telling the user what takes long: one line at a time, some seconds apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ecocompute_cube.units import gib

Say: TypeAlias = Callable[[str], None]

_LINE_EVERY_NS: Final = 5_000_000_000  # often enough to see it move, seldom enough for a log
_SMALL: Final = 0.1  # GiB; below it MiB read better


def size(count: float) -> str:
    """A number of bytes as people read it, in GiB or MiB."""
    return f"{gib(count):.1f} GiB" if gib(count) >= _SMALL else f"{count / 2**20:.1f} MiB"


def silent(_line: str) -> None:
    """Say nothing."""


@dataclass
class Progress:
    """Counts bytes up to ``total`` and says how far it is, at most every five seconds."""

    doing: str
    total: int
    say: Say
    now_ns: Callable[[], int] = time.monotonic_ns
    done: int = 0

    def __post_init__(self) -> None:
        self._next_ns = self.now_ns() + _LINE_EVERY_NS

    def advance(self, count: int) -> None:
        """Take note of ``count`` more bytes."""
        self.done += count
        if self.now_ns() >= self._next_ns:
            self._next_ns = self.now_ns() + _LINE_EVERY_NS
            self.say(f"{self.doing}: {size(self.done)} of {size(self.total)}")
