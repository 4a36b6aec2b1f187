"""Arms that several runs measured alike, as rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.base import present
from ecocompute_cube.report.merged_text import interval_words
from ecocompute_cube.report.table import counted, three_digits
from ecocompute_cube.units import kwh, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.merged import Pooled

TOGETHER: Final = (
    "model",
    "arm",
    "kJ per 1M tokens",
    "interval",
    "kWh per 1M tokens",
    "against FP16",
    "interval of it",
    "n",
    "verdict",
    "basis",
    "tier",
)


def together_rows(pooled: Sequence[Pooled]) -> tuple[tuple[str, ...], ...]:
    """Cells in the order of ``TOGETHER``, a row an arm."""
    return tuple(_row(each) for each in pooled)


def _row(each: Pooled) -> tuple[str, ...]:
    return (
        f"{each.arm.model}, {each.arm.workload.slug}",
        f"{each.arm.precision} {each.arm.runtime}",
        *_energy(each),
        f"{signed(each.change_pct)} %",
        interval_words(each.interval_pct),
        f"{each.n} {each.unit}",
        str(each.verdict),
        _basis(each),
        ", ".join(each.lowered_by) or "full",
    )


def _energy(each: Pooled) -> tuple[str, str, str]:
    """A millijoule a token is a kilojoule a million tokens."""
    kj, span = each.mj_per_token, each.interval_mj
    if not present(kj):
        return "–", "–", "–"
    ends = f"{three_digits(span.low)} to {three_digits(span.high)}" if present(span) else "–"
    return three_digits(kj), ends, f"{kwh(kj):.3g}"


def _basis(each: Pooled) -> str:
    sessions = counted(len(each.members), "session")
    runs = counted(len({member.run_id for member in each.members}), "run")
    boards = f" on {counted(each.boards, 'board')}" if each.boards else ""
    return f"measured, {sessions} of {runs}{boards}"
