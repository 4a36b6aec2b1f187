"""The page's first table: every arm with its numbers, and what each rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.report.charts.spec import number
from ecocompute_cube.report.table import three_digits
from ecocompute_cube.report.text import perplexity_words
from ecocompute_cube.units import kwh, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.claims import Comparison, Interval
    from ecocompute_cube.model.report import ArmReport
    from ecocompute_cube.report.shown import Shown


class Cell(NamedTuple):
    """What is read, and what it is sorted by."""

    text: str
    value: float | str | None = None


MEASURED: Final = (
    "model",
    "arm",
    "kJ per 1M tokens",
    "interval",
    "kWh per 1M tokens",
    "against baseline",
    "tokens/s",
    "W",
    "perplexity",
    "verdict",
    "basis",
    "tier",
)
_NONE: Final = Cell("–")
_SMALL_KWH: Final = 0.1  # has fewer than three digits behind the point


def measured_rows(shown: Sequence[Shown]) -> tuple[tuple[Cell, ...], ...]:
    """A row an arm, in the order of ``MEASURED``."""
    return tuple(_row(each) for each in shown)


def _row(each: Shown) -> tuple[Cell, ...]:
    return (
        Cell(each.group, each.group),
        Cell(each.label, each.label),
        *_energy(each),
        *_versus(each.arm.vs_baseline),
        *_rates(each),
        _verdict(each),
        Cell(each.basis, each.basis),
        Cell(each.tier, each.tier),
    )


def _energy(each: Shown) -> tuple[Cell, Cell, Cell]:
    energy = each.arm.energy
    if not present(energy):
        return Cell("–"), Cell(energy.reason), _NONE
    kj = energy.mj_per_token  # a millijoule a token is a kilojoule a million tokens
    hours = kwh(kj)
    return (
        Cell(three_digits(kj), number(kj, 9)),
        _span(energy.interval_mj),
        Cell(f"{hours:.3f}" if hours >= _SMALL_KWH else f"{hours:.3g}", number(hours, 9)),
    )


def _span(interval: Interval | Absent) -> Cell:
    """Sorted by how wide it is."""
    if not present(interval):
        return Cell("one block")
    ends = f"{three_digits(interval.low)} to {three_digits(interval.high)}"
    return Cell(ends, number(interval.high - interval.low, 9))


def _versus(comparison: Comparison | Absent) -> tuple[Cell]:
    if not present(comparison) or not present(comparison.change_pct):
        return (_NONE,)
    change, interval = comparison.change_pct, comparison.interval_pct
    span = f" ({signed(interval.low)} to {signed(interval.high)})" if present(interval) else ""
    return (Cell(f"{signed(change)} %{span}", number(change, 9)),)


def _rates(each: Shown) -> tuple[Cell, Cell, Cell]:
    rate, energy = each.arm.tokens_per_s, each.arm.energy
    return (
        Cell(f"{rate:.1f}", number(rate, 9)) if present(rate) else _NONE,
        Cell(f"{energy.mean_power_w:.0f}", number(energy.mean_power_w, 9))
        if present(energy)
        else _NONE,
        _perplexity(each.arm),
    )


def _perplexity(arm: ArmReport) -> Cell:
    found = arm.perplexity
    return Cell(perplexity_words(arm), number(found.value, 9)) if present(found) else _NONE


def _verdict(each: Shown) -> Cell:
    if each.report.rehearsal:
        return Cell("not measured")
    if each.arm.is_baseline:
        return Cell("baseline", "baseline")
    versus = each.arm.vs_baseline
    return Cell(versus.verdict, versus.verdict) if present(versus) else _NONE
