"""Change of energy against model size: measured points, a monotone fit with its band, and zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.base import MaybeFloat, present, printable
from ecocompute_cube.report.charts.spec import Cell, Chart, Spec, number, vega_lite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ecocompute_cube.model.merged import SizeCurve

_HEAD: Final = (
    "curve",
    "billion parameters",
    "models",
    "change in %",
    "replicates",
    "where it turns",
)
_SIZE: Final = {
    "field": "n_b",
    "type": "quantitative",
    "title": "billion parameters",
    "scale": {"type": "log"},
}
Data = dict[str, object]


def crossover_chart(curves: Sequence[SizeCurve]) -> Chart | None:
    """A line a precision, runtime, board and stack; None where nothing was compared with FP16."""
    if not any(curve.crossover.points for curve in curves):
        return None
    return Chart(
        name="crossover",
        title="Change against model size",
        says="Change of energy against FP16 over model size, with the monotone fit and its band; "
        "below zero quantizing saves.",
        spec=_lines(curves),
        head=_HEAD,
        rows=tuple(row for curve in curves for row in _rows(curve)),
    )


def label(curve: SizeCurve) -> str:
    """What the curve is of."""
    batch = f", batch {curve.workload.batch}" if curve.workload.batch > 1 else ""
    board = curve.keys.get("board", "an unknown board")
    return printable(f"{curve.precision} {curve.runtime}{batch}, {board}")


def _rows(curve: SizeCurve) -> Iterable[tuple[Cell, ...]]:
    for point in curve.crossover.points:
        models = printable(", ".join(point.models))
        change = number(point.change_pct)
        yield label(curve), point.params_b, models, change, point.n, curve.crossover.says


def curve_data(curves: Iterable[SizeCurve]) -> list[Data]:
    """Points and bands as the page lays dropped points over them."""
    return [
        {
            "curve": label(curve),
            "precision": curve.precision,
            "runtime": curve.runtime,
            "board": curve.keys.get("board", ""),
            "says": curve.crossover.says,
            "runs": list(curve.runs),
            "points": [
                _point(curve, each.params_b, each.change_pct) for each in curve.crossover.points
            ],
            "band": [
                [number(each.params_b), _maybe(each.low_pct), _maybe(each.high_pct)]
                for each in curve.crossover.curve
            ],
        }
        for curve in curves
        if curve.crossover.points
    ]


def _maybe(value: MaybeFloat) -> float | None:
    return number(value) if present(value) else None


def _point(curve: SizeCurve, size: float, change: float) -> Data:
    """Two stacks of one board have one colour, and lines of their own."""
    runs = printable(", ".join(curve.runs))
    return {"curve": label(curve), "runs": runs, "n_b": number(size), "change": number(change)}


def _fit(curves: Iterable[SizeCurve]) -> list[Data]:
    return [
        _point(curve, each.params_b, each.change_pct)
        | {"low": _maybe(each.low_pct), "high": _maybe(each.high_pct)}
        for curve in curves
        for each in curve.crossover.curve
    ]


def _lines(curves: Sequence[SizeCurve]) -> Spec:
    points = [
        _point(curve, each.params_b, each.change_pct)
        for curve in curves
        for each in curve.crossover.points
    ]
    change = {"field": "change", "type": "quantitative", "title": "change of energy, %"}
    legend = {"orient": "top", "columns": 2}
    colour = {"field": "curve", "type": "nominal", "title": None, "legend": legend}
    faint = {"type": "line", "strokeDash": [3, 3], "color": "#999", "point": {"color": "#999"}}
    runs = {"field": "runs"}
    tip = [{"field": name} for name in ("curve", "runs", "n_b", "change")]
    return vega_lite(
        width=600,
        height=320,
        datasets={"points": points, "fit": _fit(curves), "published": [], "yours": []},
        layer=[
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
                "mark": {"type": "line", "strokeWidth": 1.5},
                "encoding": {"x": _SIZE, "y": change, "color": colour, "detail": runs},
            },
            {
                "data": {"name": "points"},
                "mark": {"type": "point", "filled": True, "size": 60},
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
        ],
    )
