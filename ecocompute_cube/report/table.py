"""A table for a terminal, and how figures are written in it and anywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_WHOLE: Final = 99.5  # is 100 when rounded


def three_digits(value: float) -> str:
    """Whole numbers from a hundred on; a prompt's token may take less than a millijoule."""
    return f"{value:.0f}" if abs(value) >= _WHOLE else f"{value:.3g}"


def counted(number: int, what: str) -> str:
    """``1 block``, ``2 blocks``."""
    return f"{number} {what}{'s' if number != 1 else ''}"


def table(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines of left-aligned columns; the first row is the head."""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = ["  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) for row in cells]
    return [line.rstrip() for line in (lines[0], "  ".join("-" * w for w in widths), *lines[1:])]
