"""Whether two measurements of one arm agree: their ratios to FP16, never their joules.

The spread is that of sessions where either side, or what was published of the same precision, has
several; two single sessions leave only their blocks. All of it is pooled: one spread for both.
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from scipy import special

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.replication import Agreeing, DifferenceInterval, Side
from ecocompute_cube.units import percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ecocompute_cube.analysis.pooling import Group

_NO_SPREAD: Final = Absent(reason="one session of one block on either side: no spread")


class Scatter(NamedTuple):
    """Sum of squared deviations, and its degrees of freedom."""

    squares: float
    degrees: int


NO_SCATTER: Final = Scatter(0.0, 0)


class Difference(NamedTuple):
    """Ratio here over ratio there, as a change in percent."""

    difference_pct: float
    interval_pct: DifferenceInterval | Absent


def difference(
    here: Group, there: Group, confidence: float, beside: Scatter = NO_SCATTER
) -> Difference:
    """How far the two are apart. ``beside``: what else is known of how sessions scatter."""
    log = _mean(here) - _mean(there)
    sides = [_means(here), _means(there)]
    scatter = together([scattered(sides[0]), scattered(sides[1]), beside])
    unit: Literal["sessions", "blocks"] = "sessions"
    if scatter.degrees == 0:
        unit = "blocks"
        sides = [_blocks(here), _blocks(there)]
        scatter = together(scattered(side) for side in sides)
    if scatter.degrees == 0:
        return Difference(percent(math.exp(log)), _NO_SPREAD)
    deviation = math.sqrt(scatter.squares / scatter.degrees)
    quantile = float(special.stdtrit(scatter.degrees, 0.5 + confidence / 2))
    half = quantile * deviation * math.sqrt(sum(1 / len(side) for side in sides))
    interval = DifferenceInterval(
        low=percent(math.exp(log - half)),
        high=percent(math.exp(log + half)),
        confidence=confidence,
        degrees=scatter.degrees,
        unit=unit,
    )
    return Difference(percent(math.exp(log)), interval)


def agreeing(interval_pct: DifferenceInterval | Absent, threshold_pct: float) -> Agreeing:
    """Where the interval lies: within ±τ, reaching into it, or beyond."""
    if not present(interval_pct):
        return "undecided"
    low, high = interval_pct.low, interval_pct.high
    if -threshold_pct <= low and high <= threshold_pct:
        return "same"
    return "different" if low > threshold_pct or high < -threshold_pct else "consistent"


def side(group: Group) -> Side:
    """What a group found, as documents say it."""
    return Side(
        runs=group.runs,
        change_pct=percent(math.exp(_mean(group))),
        sessions=len(group.sessions),
        blocks=sum(len(session.logs) for session in group.sessions),
    )


# Scatter


def session_scatter(groups: Iterable[Group], precision: str) -> Scatter:
    """How sessions of one precision scatter, where an arm has several of one stack."""
    return together(scattered(_means(each)) for each in groups if each.kind.precision == precision)


def scattered(values: Sequence[float]) -> Scatter:
    """Of values around their mean."""
    mean = fmean(values)
    return Scatter(sum((value - mean) ** 2 for value in values), len(values) - 1)


def together(parts: Iterable[Scatter]) -> Scatter:
    """Pooled."""
    found = list(parts)
    return Scatter(sum(each.squares for each in found), sum(each.degrees for each in found))


def _means(group: Group) -> list[float]:
    return [fmean(session.logs) for session in group.sessions]


def _mean(group: Group) -> float:
    return fmean(_means(group))


def _blocks(group: Group) -> list[float]:
    return [log for session in group.sessions for log in session.logs]
