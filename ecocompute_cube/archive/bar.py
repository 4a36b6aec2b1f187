"""How far an upload is: a bar that moves on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ecocompute_cube.download.progress import Progress, size

if TYPE_CHECKING:
    from typing import TextIO

_WIDTH: Final = 30


def bar(stream: TextIO, say: Callable[[str], None]) -> Callable[[int], Callable[[int], None]]:
    """Given the bytes to send, something that is told of those that have gone."""

    def begun(total: int) -> Callable[[int], None]:
        if not stream.isatty():
            return Progress("sending", total, say).advance
        return _Moving(total, stream).advance

    return begun


class _Moving:
    def __init__(self, total: int, stream: TextIO) -> None:
        self._total, self._stream = total, stream
        self._done = self._shown = 0

    def advance(self, count: int) -> None:
        """Take note of ``count`` more bytes; fewer than none when a file begins anew."""
        self._done += count
        filled = _WIDTH * self._done // max(self._total, 1)
        percent = 100 * self._done // max(self._total, 1)
        if percent == self._shown and self._done < self._total:
            return
        self._shown = percent
        text = f"[{'#' * filled:{_WIDTH}}] {percent:3} % of {size(self._total)}"
        end = "\n" if self._done >= self._total else ""
        self._stream.write(f"\r{text}{end}")
        self._stream.flush()
