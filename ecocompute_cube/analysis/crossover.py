"""The size at which quantizing begins to pay, from changes measured at several sizes.

::

    log ratio
      │ ●                             means of the replicates at each size
      │   ╲                           isotonic fit of the means, falling or rising
    0 ┼─────●───x─────────            monotone cubic (PCHIP) through it, over log size
      │          ╲    ●               band: ± t·s/√n at each size, made monotone outwards
      └─────┬───┴───┬─────▶ log size  the crossover x, and its range: where the band holds zero

The spread s of a replicate is pooled over the sizes, so that a size of one replicate has a band as
well. The replicate is the session where any size has several, else the block. No form of the curve
is assumed: parametric ones are narrow, and wrong where their form is. What lies between the sizes
nobody measured; how far the curve bulges from straight lines there is added to the band in
quadrature (without it a steep step was held in 92 % of simulated experiments in place of 95 %:
``benchmarks.crossover``). Nothing is extrapolated, and sizes that are plainly out of order are
refused.
"""

from __future__ import annotations

import math
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np
from scipy import special
from scipy.interpolate import PchipInterpolator
from scipy.optimize import bisect, isotonic_regression

from ecocompute_cube.analysis.ratios import as_percent, replicates, t_interval
from ecocompute_cube.model.base import Absent, MaybeFloat, present
from ecocompute_cube.model.crossover import (
    Crossover,
    CrossoverStatus,
    CurvePoint,
    SizePoint,
    SizeRange,
)
from ecocompute_cube.units import percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from ecocompute_cube.model.claims import Interval, Unit

    Floats = npt.NDArray[np.float64]

LEAST_SIZES: Final = 3  # two would be a straight line by assumption
_CURVE_POINTS: Final = 40  # evenly spaced sizes of the curve that is drawn

_NO_SPREAD: Final = Absent(reason="one replicate at each size: no spread to pool")

Direction = Literal["falls", "rises"]


class Measured(NamedTuple):
    """One model's log ratios by (session, block)."""

    params_b: float
    model: str
    logs: Mapping[tuple[int, int], float]


class _Knot(NamedTuple):
    """What is known at one size."""

    params_b: float
    models: tuple[str, ...]
    values: tuple[float, ...]
    interval: Interval | Absent  #: of their mean, by their own spread

    @property
    def mean(self) -> float:
        return fmean(self.values)


class _Spread(NamedTuple):
    """Standard deviation of a replicate, pooled."""

    value: float
    degrees: int


class _Curves(NamedTuple):
    """Fit and band as functions of log size; turned over where the change rises."""

    fit: PchipInterpolator
    low: PchipInterpolator | None
    high: PchipInterpolator | None


def crossover(measured: Iterable[Measured], confidence: float) -> Crossover:
    """Fit changes over size; a refusal with its reason where they cannot be."""
    knots, unit = _knots(tuple(measured), confidence)
    spread = _pooled(knots)
    if len(knots) < LEAST_SIZES:
        return _refused(
            knots, unit, spread, f"too few sizes: {len(knots)}, and a curve takes {LEAST_SIZES}"
        )
    direction = _direction(knots)
    disorder = _disorder(knots, spread, direction, confidence)
    if disorder is not None:
        low, high = disorder
        turn = "falls" if low.mean > high.mean else "rises"
        return _refused(
            knots,
            unit,
            spread,
            f"not monotone: the change mostly {direction} with size, yet {turn} from "
            f"{low.params_b:.3g}B to {high.params_b:.3g}B by more than the replicates spread",
        )
    return _fitted(knots, unit, spread, direction, confidence)


# What is fitted


def _knots(measured: Sequence[Measured], confidence: float) -> tuple[tuple[_Knot, ...], Unit]:
    """Models of exactly one size together; sessions as replicates where any size has several."""
    sizes: dict[float, list[Measured]] = {}
    for each in sorted(measured, key=lambda each: (each.params_b, each.model)):
        sizes.setdefault(each.params_b, []).append(each)
    by_session = any(len({s for s, _ in each.logs}) > 1 for each in measured)
    unit: Unit = "sessions" if by_session else "blocks"
    knots = []
    for size, here in sizes.items():
        values = tuple(value for each in here for value in _values(each, by_session))
        models = tuple(dict.fromkeys(each.model for each in here))
        knots.append(_Knot(size, models, values, t_interval(values, confidence, unit)))
    return tuple(knots), unit


def _values(each: Measured, by_session: bool) -> tuple[float, ...]:
    if by_session and len({session for session, _ in each.logs}) == 1:
        return (fmean(each.logs[key] for key in sorted(each.logs)),)
    return replicates(each.logs).values


def _pooled(knots: Sequence[_Knot]) -> _Spread | None:
    degrees = sum(len(knot.values) - 1 for knot in knots)
    if degrees == 0:
        return None
    squares = sum((value - knot.mean) ** 2 for knot in knots for value in knot.values)
    return _Spread(math.sqrt(squares / degrees), degrees)


# Order


def _isotonic(knots: Sequence[_Knot], direction: Direction) -> Floats:
    means = np.array([knot.mean for knot in knots])
    weights = np.array([float(len(knot.values)) for knot in knots])
    fitted: Floats = isotonic_regression(means, weights=weights, increasing=direction == "rises").x
    return fitted


def _direction(knots: Sequence[_Knot]) -> Direction:
    """Whichever leaves less unexplained."""

    def left(direction: Direction) -> float:
        fitted: list[float] = _isotonic(knots, direction).tolist()
        return sum(
            len(knot.values) * (knot.mean - at) ** 2 for knot, at in zip(knots, fitted, strict=True)
        )

    return "rises" if left("rises") < left("falls") else "falls"


def _disorder(
    knots: Sequence[_Knot], spread: _Spread | None, direction: Direction, confidence: float
) -> tuple[_Knot, _Knot] | None:
    """The pair of sizes most out of order, if by more than chance (one-sided t, Bonferroni)."""
    if spread is None:
        return None
    pairs = list(combinations(knots, 2))
    quantile = special.stdtrit(spread.degrees, 1 - (1 - confidence) / len(pairs))
    sign = 1 if direction == "falls" else -1
    beyond = {
        pair: sign * (pair[1].mean - pair[0].mean)
        - quantile * spread.value * math.sqrt(1 / len(pair[0].values) + 1 / len(pair[1].values))
        for pair in pairs
    }
    worst = max(pairs, key=lambda pair: beyond[pair])
    return worst if beyond[worst] > 0 else None


# The fit


def _fitted(
    knots: Sequence[_Knot],
    unit: Unit,
    spread: _Spread | None,
    direction: Direction,
    confidence: float,
) -> Crossover:
    logs = _logs(knots)
    curves = _curves(knots, logs, spread, direction, confidence)
    root = _root(curves.fit, logs)
    status, around = _zero(curves, knots, root, confidence)
    size = None if root is None else _size(root, knots)
    rises = direction == "rises"
    first = _isotonic(knots, direction)[0]
    return Crossover(
        status=status,
        size_b=Absent(reason="not in this range") if size is None else size,
        size_range_b=around,
        direction=direction,
        spread_pct=_spread_pct(spread),
        degrees=spread.degrees if spread else 0,
        unit=unit,
        says=_says(knots, status, size, around, first),
        points=_points(knots),
        curve=_drawn(curves, knots, rises),
    )


def _logs(knots: Sequence[_Knot]) -> Floats:
    logs: Floats = np.log([knot.params_b for knot in knots])
    return logs


def _curves(
    knots: Sequence[_Knot],
    logs: Floats,
    spread: _Spread | None,
    direction: Direction,
    confidence: float,
) -> _Curves:
    """As if falling: a rising change is turned over, and so is its band."""
    fitted = _isotonic(knots, direction) * (1.0 if direction == "falls" else -1.0)
    if spread is None:
        return _Curves(_through(logs, fitted), None, None)
    quantile = float(special.stdtrit(spread.degrees, 0.5 + confidence / 2))
    half = np.array([quantile * spread.value / math.sqrt(len(knot.values)) for knot in knots])
    half = np.hypot(half, _between(_through(logs, fitted), logs))
    low = np.minimum.accumulate(fitted - half)
    high = np.maximum.accumulate((fitted + half)[::-1])[::-1]
    return _Curves(*(_through(logs, values) for values in (fitted, low, high)))


def _through(logs: Floats, values: Floats) -> PchipInterpolator:
    with np.errstate(over="ignore"):  # slopes too small to be turned over are flat
        return PchipInterpolator(logs, values)


def _between(curve: PchipInterpolator, logs: Floats) -> Floats:
    """What no measurement says of the sizes between: how far the curve is from straight lines.

    At each knot the larger of what its two neighbours leave open.
    """
    within = np.linspace(logs[:-1], logs[1:], 9)
    bulge = np.abs(curve(within) - np.interp(within, logs, curve(logs))).max(axis=0)
    widest: Floats = np.maximum(np.append(bulge, 0.0), np.append(0.0, bulge))
    return widest


def _root(curve: PchipInterpolator, logs: Floats) -> float | None:
    """Log of the size where a falling curve passes zero; None where it does not, within these."""
    first, last = float(curve(logs[0])), float(curve(logs[-1]))
    if first < 0 or last > 0 or first == last:
        return None
    # by halving: a curve may be flat at 1e-75, where methods that use its slope give up
    root: float = bisect(curve, logs[0], logs[-1])
    return root


def _size(log: float, knots: Sequence[_Knot]) -> float:
    """Back from its logarithm; no rounding leads out of the sizes measured."""
    return min(max(math.exp(log), knots[0].params_b), knots[-1].params_b)


def _zero(
    curves: _Curves, knots: Sequence[_Knot], root: float | None, confidence: float
) -> tuple[CrossoverStatus, SizeRange | Absent]:
    """What the band says of zero: it crosses where both ends of the sizes are certain of theirs."""
    if curves.low is None or curves.high is None:
        return "undecided", _NO_SPREAD
    logs = _logs(knots)
    if curves.low(logs[-1]) > 0:
        return "not in this range", Absent(reason="the whole band lies above zero")
    if curves.high(logs[0]) < 0:
        return "not in this range", Absent(reason="the whole band lies below zero")
    low, high = _root(curves.low, logs), _root(curves.high, logs)
    around = SizeRange(
        low_b=Absent(reason="below the smallest size measured")
        if low is None
        else _size(low if root is None else min(low, root), knots),
        high_b=Absent(reason="above the largest size measured")
        if high is None
        else _size(high if root is None else max(high, root), knots),
        confidence=confidence,
    )
    return "undecided" if low is None or high is None else "crosses", around


def _drawn(curves: _Curves, knots: Sequence[_Knot], rises: bool) -> tuple[CurvePoint, ...]:
    known = {knot.params_b for knot in knots}
    even = np.geomspace(min(known), max(known), _CURVE_POINTS)[1:-1]
    sizes = sorted(known | {float(each) for each in even})
    logs = np.log(sizes)
    fit: Floats = curves.fit(logs)
    lows, highs = (None if each is None else each(logs) for each in (curves.low, curves.high))
    if lows is None or highs is None:
        return tuple(
            CurvePoint(params_b=size, change_pct=change, low_pct=_NO_SPREAD, high_pct=_NO_SPREAD)
            for size, change in zip(sizes, _changes(fit, rises), strict=True)
        )
    low, high = np.minimum(lows, fit), np.maximum(highs, fit)
    low, high = (high, low) if rises else (low, high)
    columns = (_changes(each, rises) for each in (fit, low, high))
    return tuple(
        CurvePoint(params_b=size, change_pct=change, low_pct=below, high_pct=above)
        for size, change, below, above in zip(sizes, *columns, strict=True)
    )


def _changes(logs: Floats, rises: bool) -> list[float]:
    """In percent; a curve that rises was turned over, and is turned back."""
    return [_changed(-log if rises else log) for log in logs.tolist()]


# Words


def _changed(log: float) -> float:
    return percent(math.exp(log))


def _says(
    knots: Sequence[_Knot],
    status: CrossoverStatus,
    size: float | None,
    around: SizeRange | Absent,
    first: float,
) -> str:
    smallest, largest = knots[0].params_b, knots[-1].params_b
    if status == "not in this range":
        side = "costs" if first > 0 else "saves"
        return f"{side} energy at every size from {smallest:.3g}B to {largest:.3g}B"
    fit = (
        f"the fit changes its sign at {size:.3g}B"
        if size is not None
        else f"the fit keeps its sign from {smallest:.3g}B to {largest:.3g}B"
    )
    if not present(around):
        return f"{fit}; {around.reason}"
    low = f"{around.low_b:.3g}B" if present(around.low_b) else around.low_b.reason
    high = f"{around.high_b:.3g}B" if present(around.high_b) else around.high_b.reason
    if status == "undecided" and not present(around.low_b) and not present(around.high_b):
        return f"{fit}; the band holds zero at every size measured"
    return f"{fit}, {100 * around.confidence:g}% range from {low} to {high}"


def _refused(knots: Sequence[_Knot], unit: Unit, spread: _Spread | None, reason: str) -> Crossover:
    absent = Absent(reason=reason)
    return Crossover(
        status="refused",
        size_b=absent,
        size_range_b=absent,
        direction=absent,
        spread_pct=_spread_pct(spread),
        degrees=spread.degrees if spread else 0,
        unit=unit,
        says=reason,
        points=_points(knots),
        curve=(),
    )


def _spread_pct(spread: _Spread | None) -> MaybeFloat:
    return _changed(spread.value) if spread else _NO_SPREAD


def _points(knots: Sequence[_Knot]) -> tuple[SizePoint, ...]:
    return tuple(
        SizePoint(
            params_b=knot.params_b,
            models=knot.models,
            change_pct=_changed(knot.mean),
            n=len(knot.values),
            interval_pct=as_percent(knot.interval),
        )
        for knot in knots
    )
