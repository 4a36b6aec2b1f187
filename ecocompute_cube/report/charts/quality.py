"""Energy against quality: what each arm saves, and what it costs in perplexity."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import present
from ecocompute_cube.model.manifest import Weights
from ecocompute_cube.report.charts.many import MOST_ARMS, MOST_MEANS, alike, meant
from ecocompute_cube.report.charts.spec import Chart, Spec, number, spanned, vega_lite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.report.shown import Shown


_LEAST: Final = 2  # points that show anything
_SAYS: Final = (
    "Energy per million tokens against the change of perplexity, an arm a point; filled points are "
    "those that no other arm of the model beats in both, in the same run."
)
_AGAIN: Final = (
    " Weights that had been quantized before (*) are quantized again: their change of perplexity "
    "is not what a precision costs."
)


class Point(NamedTuple):
    """One arm."""

    arm: str
    group: str
    kj: float
    delta: float  #: of perplexity, in percent of the baseline's
    low: float | None
    high: float | None
    short: str
    run: str
    original: bool  #: weights that nobody quantized before
    best: bool  #: no other arm of the model and run is lower in one and no higher in the other


def quality_chart(shown: Sequence[Shown]) -> Chart | None:
    """A point an arm with energy and perplexity; None where fewer than two have both."""
    points = _points(shown)
    if len(points) < _LEAST:
        return None
    means = _means(points)
    few = len(points) <= MOST_ARMS
    again = "" if all(point.original for point in points) else _AGAIN
    return Chart(
        name="quality",
        title="Energy against quality",
        says=f"{_SAYS}{again}{meant(len(points), len(means), 'model, precision and runtime')}",
        spec=_scatter(points if few else means[:MOST_MEANS]),
        head=(
            "model",
            "arm",
            "kJ per 1M tokens",
            "perplexity, change in %",
            "low",
            "high",
            "on the front",
        ),
        rows=tuple(
            (
                p.group,
                p.arm,
                p.kj,
                p.delta,
                p.low,
                p.high,
                "yes" if p.best else "no",
            )
            for p in points
        ),
    )


def _points(shown: Sequence[Shown]) -> list[Point]:
    found: list[Point] = []
    for each in shown:
        energy, perplexity = each.arm.energy, each.arm.perplexity
        if not present(energy) or not present(perplexity):
            continue
        delta, interval = perplexity.delta_pct, perplexity.delta_interval_pct
        if not present(delta) and not each.arm.is_baseline:
            continue
        change = delta if present(delta) else 0.0
        low, high = spanned(interval)
        original = each.arm.weights is Weights.ORIGINAL
        point = Point(
            each.label,
            each.group,
            number(energy.mj_per_token),
            number(change),
            low,
            high,
            short=f"{each.arm.precision} {each.arm.runtime}{'' if original else ' *'}",
            run=each.report.run_id,
            original=original,
            best=False,
        )
        found.append(point)
    rivals = {
        (those[0].run, those[0].group): those for those in alike(found, lambda p: (p.run, p.group))
    }
    return [
        point._replace(best=not _beaten(point, rivals[point.run, point.group])) for point in found
    ]


def _means(points: Sequence[Point]) -> list[Point]:
    """A point a model, precision and runtime; none of them is said to be on a front."""
    return [
        those[0]._replace(
            arm=f"{those[0].short}, {len(those)} arms",
            kj=number(fmean(p.kj for p in those)),
            delta=number(fmean(p.delta for p in those)),
            low=None,
            high=None,
            best=False,
        )
        for those in alike(points, lambda p: (p.group, p.short))
    ]


def _beaten(point: Point, others: Sequence[Point]) -> bool:
    return any(
        other.kj <= point.kj
        and other.delta <= point.delta
        and (other.kj, other.delta) != (point.kj, point.delta)
        for other in others
    )


def _scatter(points: Sequence[Point]) -> Spec:
    title = "kJ per million tokens (board)"
    x = {"field": "kj", "type": "quantitative", "title": title, "scale": {"zero": False}}
    y = {"field": "delta", "type": "quantitative", "title": "perplexity, change in %"}
    legend = {"orient": "top", "columns": 3, "symbolOpacity": 1}
    colour = {"field": "short", "type": "nominal", "title": None, "legend": legend}
    shape = {**colour, "field": "group", "legend": {**legend, "columns": 1}}
    filled = {"condition": {"test": "datum.best", "value": 1}, "value": 0}
    return vega_lite(
        width=520,
        height=300,
        data={"values": [point._asdict() for point in points]},
        encoding={
            "x": x,
            "tooltip": [{"field": name} for name in ("arm", "group", "kj", "delta", "low", "high")],
        },
        layer=[
            {
                "transform": [{"filter": "datum.low !== null"}],
                "mark": {"type": "rule"},
                "encoding": {
                    "y": {"field": "low", "type": "quantitative"},
                    "y2": {"field": "high"},
                },
            },
            {
                "mark": {"type": "point", "size": 90, "filled": True, "opacity": 1},
                "encoding": {
                    "y": y,
                    "fillOpacity": filled,
                    "color": colour,
                    "stroke": colour,
                    "shape": shape,
                },
            },
        ],
    )
