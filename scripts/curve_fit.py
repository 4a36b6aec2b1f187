"""Monotone curves over size with the range in which another session is expected.

::

    value ── mean of the sessions at each size, isotonic, PCHIP over log size (analysis.crossover)
    range ── ± t·s·√(1 + 1/n), and between sizes how far the curve bulges from straight lines

The spread s of a session is pooled over the sizes of every board, of one precision and runtime: no
board has been measured in enough sessions to tell its own. Sessions of one board share what makes
them differ (a host, a release), over all sizes, so that t has a degree of freedom a session, not a
row.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from scipy import special

from ecocompute_cube.analysis.crossover import LEAST_SIZES, Measured, crossover
from ecocompute_cube.analysis.curves import Curve, Knot
from ecocompute_cube.model.crossover import Crossover

CONFIDENCE: Final = 0.95


class Value(NamedTuple):
    """A logarithm that one session found at one size."""

    gpu: str
    params_b: float
    session: str
    stack: str
    log: float
    doubtful: bool


class Spread(NamedTuple):
    """Standard deviation of a session, and its degrees of freedom."""

    log: float
    degrees: int

    def half(self, n: int) -> float:
        """Half the range of another session about the mean of so many."""
        quantile = float(special.stdtrit(self.degrees, 0.5 + CONFIDENCE / 2))
        return quantile * self.log * math.sqrt(1 + 1 / n)


def spread(values: Iterable[Value]) -> Spread | None:
    """Of all boards; None where none has two sessions at a size."""
    sizes: dict[tuple[str, float], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for value in values:
        sizes[value.gpu, value.params_b][value.session].append(value.log)
    sessions: dict[str, set[str]] = defaultdict(set)
    squares, rows = 0.0, 0
    for (gpu, _), by_session in sizes.items():
        if len(by_session) > 1:
            means = [fmean(logs) for logs in by_session.values()]
            squares += sum((mean - fmean(means)) ** 2 for mean in means)
            rows += len(means) - 1
            sessions[gpu] |= by_session.keys()
    degrees = sum(len(names) - 1 for names in sessions.values())
    return Spread(math.sqrt(squares / rows), degrees) if degrees else None


def curve(values: Sequence[Value], scatter: Spread | None) -> Curve | None:
    """Of one board; by sessions without a doubt, where there are any."""
    sound = [value for value in values if not value.doubtful] or list(values)
    if not sound:
        return None
    means = _means(sound)
    sizes = tuple(
        Knot(size, fmean(logs.values()), scatter.half(len(logs)) if scatter else None, len(logs))
        for size, logs in sorted(means.items())
    )
    refused = _refusal(sound, means)
    knots = () if refused else _knots(_fit(means), means, scatter)
    return Curve(
        sizes=sizes,
        knots=knots,
        refused=refused,
        sessions=tuple(sorted({value.session for value in sound})),
        doubtful=sound[0].doubtful,
        crossing=_crossing(knots),
        anchors=(),
    )


def _means(values: Iterable[Value]) -> dict[float, dict[str, float]]:
    found: dict[float, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for value in values:
        found[value.params_b][value.session].append(value.log)
    return {
        size: {session: fmean(logs) for session, logs in sessions.items()}
        for size, sessions in found.items()
    }


def _fit(means: dict[float, dict[str, float]]) -> Crossover:
    return crossover(
        [
            Measured(size, f"{size:g}B", {(n, 0): log for n, log in enumerate(logs.values())})
            for size, logs in means.items()
        ],
        CONFIDENCE,
    )


def _refusal(values: Sequence[Value], means: dict[float, dict[str, float]]) -> str | None:
    """Too few sizes, or a stack whose sizes are plainly out of order.

    Sessions of one stack are asked: what sets stacks apart would hide it.
    """
    if len(means) < LEAST_SIZES:
        return f"{len(means)} sizes were measured, and a curve takes {LEAST_SIZES}"
    for stack in sorted({value.stack for value in values}):
        fitted = _fit(_means(value for value in values if value.stack == stack))
        if fitted.status == "refused" and fitted.says.startswith("not monotone"):
            return fitted.says
    whole = _fit(means)
    return whole.says if whole.status == "refused" else None


def _knots(
    fitted: Crossover, means: dict[float, dict[str, float]], scatter: Spread | None
) -> tuple[Knot, ...]:
    fits = [(point.params_b, math.log1p(point.change_pct / 100)) for point in fitted.curve]
    known = sorted(means)
    at = dict(fits)
    found = []
    for size, fit in fits:
        left = max(each for each in known if each <= size)
        right = min(each for each in known if each >= size)
        half = None
        fewest = min(len(means[left]), len(means[right]))
        if scatter is not None:
            half = math.hypot(scatter.half(fewest), _bulge(at, left, right))
        found.append(Knot(size, fit, half, fewest))
    return tuple(found)


def _bulge(at: dict[float, float], left: float, right: float) -> float:
    """How far the curve is from a straight line between two sizes: what nobody measured."""
    if left == right:
        return 0.0
    rise = (at[right] - at[left]) / math.log(right / left)
    return max(
        abs(fit - at[left] - rise * math.log(size / left))
        for size, fit in at.items()
        if left <= size <= right
    )


# How well it predicts


class Coverage(NamedTuple):
    """Of values that a curve had not seen: how many lay in its range."""

    held: int
    of: int

    def more(self, other: Coverage) -> Coverage:
        """Both together."""
        return Coverage(self.held + other.held, self.of + other.of)


def session_coverage(values: Sequence[Value]) -> Coverage:
    """Each session of each board predicted from all others."""
    total = Coverage(0, 0)
    for gpu, session in sorted({(value.gpu, value.session) for value in values}):
        out = [value for value in values if (value.gpu, value.session) == (gpu, session)]
        rest = [value for value in values if (value.gpu, value.session) != (gpu, session)]
        total = total.more(_held(out, rest))
    return total


def size_coverage(values: Sequence[Value]) -> Coverage:
    """Each size between others predicted from them, for every session that has it."""
    total = Coverage(0, 0)
    for gpu, size in sorted({(value.gpu, value.params_b) for value in values}):
        out = [value for value in values if (value.gpu, value.params_b) == (gpu, size)]
        rest = [value for value in values if (value.gpu, value.params_b) != (gpu, size)]
        total = total.more(_held(out, rest))
    return total


def _held(out: Sequence[Value], rest: Sequence[Value]) -> Coverage:
    found = curve([value for value in rest if value.gpu == out[0].gpu], spread(rest))
    held = of = 0
    for value in out:
        expected = _expected(found, value.params_b) if found else None
        if expected is not None and expected.half is not None:
            held += abs(value.log - expected.fit) <= expected.half
            of += 1
    return Coverage(held, of)


def _crossing(knots: Sequence[Knot]) -> tuple[float | None, float | None, float | None]:
    """Size where the fit changes its sign, and where its range does; None where it does not."""
    sizes = [knot.params_b for knot in knots]
    middle = _root(sizes, [knot.fit for knot in knots])
    if any(knot.half is None for knot in knots):
        return middle, None, None
    ends = sorted(
        root
        for sign in (-1, 1)
        if (root := _root(sizes, [knot.fit + sign * (knot.half or 0.0) for knot in knots]))
    )
    if len(ends) == 1:  # the other lies beyond the sizes measured
        return middle, *((ends[0], None) if middle is None or ends[0] < middle else (None, ends[0]))
    return middle, *(ends or (None, None))


def _expected(found: Curve, params_b: float) -> Knot | None:
    return found.measured(params_b) or found.between(params_b)


def _root(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    for n in range(len(values) - 1):
        first, second = values[n], values[n + 1]
        if first * second < 0:
            part = first / (first - second)
            return float(sizes[n] * (sizes[n + 1] / sizes[n]) ** part)
    return None
