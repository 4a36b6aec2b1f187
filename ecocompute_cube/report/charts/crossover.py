"""Change of energy against model size: measured points, a monotone fit with its band, and zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.base import MaybeFloat, present, printable
from ecocompute_cube.report.charts.spec import Cell, Chart, Spec, number, spanned, vega_lite

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ecocompute_cube.model.crossover import SizePoint
    from ecocompute_cube.model.merged import SizeCurve

_HEAD: Final = (
    "curve",
    "billion parameters",
    "models",
    "change in %",
    "low",
    "high",
    "replicates",
    "where it turns",
)
_SIZE: Final = {
    "field": "n_b",
    "type": "quantitative",
    "title": "billion parameters",
    "scale": {"type": "log"},
}
_LEAST_REACH: Final = 10.0  # percent, beyond the points
_MOST_NAMED: Final = 12  # curves that a legend names: beyond, colours repeat, and the table tells
Data = dict[str, object]


def crossover_chart(curves: Sequence[SizeCurve]) -> Chart | None:
    """A line a precision, runtime, board and stack; None where nothing was compared with FP16."""
    if not any(curve.crossover.points for curve in curves):
        return None
    return Chart(
        name="crossover",
        title="Change against model size",
        says="Change of energy against FP16 over model size: measured points joined by thin lines, "
        "and from three sizes on the monotone fit (thick) with its band; below zero quantizing "
        "saves. The line through a point is its interval by its own replicates, one has none; "
        "where it leaves the picture, the table holds its ends.",
        spec=_lines(curves),
        head=_HEAD,
        rows=tuple(
            row
            for curve, name in zip(curves, labels(curves), strict=True)
            for row in _rows(curve, name)
        ),
    )


def labels(curves: Sequence[SizeCurve]) -> tuple[str, ...]:
    """What each curve is of; of several alike also what keeps them apart."""
    facets = [{"workload": curve.workload.slug, **curve.keys} for curve in curves]
    named = [_label(curve) for curve in curves]
    alike = {name: [f for n, f in zip(named, facets, strict=True) if n == name] for name in named}
    return tuple(
        printable(", ".join([name, *_apart(facet, alike[name])]))
        for name, facet in zip(named, facets, strict=True)
    )


def _label(curve: SizeCurve) -> str:
    board = curve.keys.get("board", "an unknown board")
    return f"{curve.precision} {curve.runtime}, {board}"


def _apart(facet: Mapping[str, str], others: Sequence[Mapping[str, str]]) -> list[str]:
    """Each key of one that not all of the others have alike."""
    return [
        f"{key} {facet.get(key, 'not told')}"
        for key in dict.fromkeys(key for other in others for key in other)
        if len({other.get(key) for other in others}) > 1
    ]


def _rows(curve: SizeCurve, name: str) -> Iterable[tuple[Cell, ...]]:
    for point in curve.crossover.points:
        models = printable(", ".join(point.models))
        change = number(point.change_pct)
        low, high = spanned(point.interval_pct)
        yield name, point.params_b, models, change, low, high, point.n, curve.crossover.says


def curve_data(curves: Sequence[SizeCurve]) -> list[Data]:
    """Points and bands as the page lays dropped points over them."""
    return [
        {
            "curve": name,
            "precision": curve.precision,
            "runtime": curve.runtime,
            "board": printable(curve.keys.get("board", "")),
            "says": curve.crossover.says,
            "runs": printable(", ".join(curve.runs)),
            "points": [
                _point(curve, name, each.params_b, each.change_pct)
                for each in curve.crossover.points
            ],
            "band": [
                [number(each.params_b), _maybe(each.low_pct), _maybe(each.high_pct)]
                for each in curve.crossover.curve
            ],
        }
        for curve, name in zip(curves, labels(curves), strict=True)
        if curve.crossover.points
    ]


def _maybe(value: MaybeFloat) -> float | None:
    return number(value) if present(value) else None


def _point(curve: SizeCurve, name: str, size: float, change: float) -> Data:
    runs = printable(", ".join(curve.runs))
    return {"curve": name, "runs": runs, "n_b": number(size), "change": number(change)}


def _fit(curves: Sequence[SizeCurve]) -> list[Data]:
    return [
        _point(curve, name, each.params_b, each.change_pct)
        | {"low": _maybe(each.low_pct), "high": _maybe(each.high_pct)}
        for curve, name in zip(curves, labels(curves), strict=True)
        for each in curve.crossover.curve
    ]


def _lines(curves: Sequence[SizeCurve]) -> Spec:
    reach = _reach(curves)
    points = [
        _point(curve, name, each.params_b, each.change_pct) | _ends(each, reach)
        for curve, name in zip(curves, labels(curves), strict=True)
        for each in curve.crossover.points
    ]
    named = len({point["curve"] for point in points}) <= _MOST_NAMED
    return vega_lite(
        width=600,
        height=320,
        datasets={"points": points, "fit": _fit(curves), "published": [], "yours": []},
        layer=_layers(named=named),
    )


def _reach(curves: Sequence[SizeCurve]) -> tuple[float, float]:
    """How far the picture goes: an interval of two replicates may be wider than all else."""
    changes = [each.change_pct for curve in curves for each in curve.crossover.points]
    beyond = max(_LEAST_REACH, max(changes) - min(changes))
    return min(changes) - beyond, max(changes) + beyond


def _ends(point: SizePoint, reach: tuple[float, float]) -> Data:
    low, high = spanned(point.interval_pct)
    if low is None or high is None:
        return {"low": None, "high": None}
    return {"low": max(low, reach[0]), "high": min(high, reach[1])}


def _layers(*, named: bool) -> list[Data]:
    """Zero, what was published, band, fit, points, and what a reader drops; back to front."""
    change = {"field": "change", "type": "quantitative", "title": "change of energy, %"}
    legend = {"orient": "top", "columns": 1, "symbolOpacity": 1} if named else None
    colour = {"field": "curve", "type": "nominal", "title": None, "legend": legend}
    faint = {"type": "line", "strokeDash": [3, 3], "color": "#999", "point": {"color": "#999"}}
    runs = {"field": "runs"}
    tip = [{"field": name} for name in ("curve", "runs", "n_b", "change")]
    return [
        {
            "data": {"values": [{"change": 0}]},
            "mark": {"type": "rule", "strokeDash": [6, 4]},
            "encoding": {"y": change},
        },
        {
            "data": {"name": "published"},
            "mark": faint,
            "encoding": {"x": _SIZE, "y": change, "detail": runs, "tooltip": tip},
        },
        {
            "data": {"name": "fit"},
            "mark": {"type": "area", "opacity": 0.15},
            "encoding": {
                "x": _SIZE,
                "y": {"field": "low", "type": "quantitative"},
                "y2": {"field": "high"},
                "color": colour,
                "detail": runs,
            },
        },
        {
            "data": {"name": "fit"},
            "mark": {"type": "line", "strokeWidth": 2.5},
            "encoding": {"x": _SIZE, "y": change, "color": colour, "detail": runs},
        },
        {
            "data": {"name": "points"},
            "mark": {"type": "line", "strokeWidth": 1},
            "encoding": {"x": _SIZE, "y": change, "color": colour, "detail": runs},
        },
        {
            "data": {"name": "points"},
            "transform": [{"filter": "datum.low !== null"}],
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {
                "x": _SIZE,
                "y": {"field": "low", "type": "quantitative"},
                "y2": {"field": "high"},
                "color": colour,
            },
        },
        {
            "data": {"name": "points"},
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {"x": _SIZE, "y": change, "color": colour, "tooltip": tip},
        },
        {
            "data": {"name": "yours"},
            "mark": {"type": "point", "shape": "cross", "filled": True, "size": 120},
            "encoding": {
                "x": _SIZE,
                "y": change,
                "color": {"value": "#d55e00"},
                "tooltip": tip,
            },
        },
    ]
