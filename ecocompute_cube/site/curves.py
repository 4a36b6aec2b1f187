"""Curves over model size as pages draw them: fit with its range, sizes, and single sessions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.curves import library
from ecocompute_cube.report.charts.spec import COLOURS, Cell, Chart, Spec, number, vega_lite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ecocompute_cube.analysis.curves import Curve, Knot

Data = dict[str, object]

FIRST: Final = ("NF4", "eager")
_HEAD: Final = ("board and arm", "billion parameters", "change in %", "low", "high", "sessions")
TURNING_HEAD: Final = ("arm", "board", "sizes measured", "sessions", "turns at", "range", "remarks")

#: Of sizes that several sessions measured, and of the others.
_CIRCLE: Final[Data] = {"type": "point", "size": 90, "opacity": 1}
_LOOKS: Final = ((">", _CIRCLE | {"filled": True}), ("<=", _CIRCLE | {"strokeWidth": 2}))


class Drawn(NamedTuple):
    """One board, precision and runtime, as the charts and the drop zone know it."""

    curve: str
    board: str
    precision: str
    runtime: str
    fit: tuple[Data, ...]
    sizes: tuple[Data, ...]
    sessions: tuple[Data, ...]
    band: tuple[tuple[float, float | None, float | None], ...]
    knots: tuple[Knot, ...]  #: at the sizes; for who draws here


def drawn() -> tuple[Drawn, ...]:
    """Every curve that has a session."""
    return tuple(_drawn(*key, curve) for key, curve in library().ratios.items() if curve.anchors)


def data(each: Drawn) -> Data:
    """As the pages' scripts have it."""
    return {name: value for name, value in each._asdict().items() if name != "knots"}


def short_name(gpu: str) -> str:
    """Without the maker's words."""
    return gpu.replace("NVIDIA ", "").replace("GeForce ", "").replace(" Laptop GPU", " laptop")


def _drawn(gpu: str, precision: str, runtime: str, curve: Curve) -> Drawn:
    name = f"{short_name(gpu)}, {precision} {runtime}"
    return Drawn(
        name,
        gpu,
        precision,
        runtime,
        fit=tuple(_knot(name, knot) for knot in curve.knots),
        sizes=tuple(_knot(name, knot) | {"n": knot.n} for knot in curve.sizes),
        sessions=tuple(
            {
                "curve": name,
                "n_b": each.N,
                "change": number(each.dE),
                "session": each.session,
                "model": each.model,
            }
            for each in curve.anchors
        ),
        band=tuple((knot.params_b, *_ends(knot)) for knot in curve.knots),
        knots=curve.sizes,
    )


def _knot(name: str, knot: Knot) -> Data:
    low, high = _ends(knot)
    return {"curve": name, "n_b": knot.params_b, "change": _pct(knot.fit), "low": low, "high": high}


def _ends(knot: Knot) -> tuple[float, float] | tuple[None, None]:
    if knot.half is None:
        return None, None
    return _pct(knot.fit - knot.half), _pct(knot.fit + knot.half)


def _pct(log: float) -> float:
    return number(100 * math.expm1(log))


def layers_of(curves: Iterable[Drawn]) -> dict[str, list[Data]]:
    """The chart's datasets."""
    found: dict[str, list[Data]] = {"fit": [], "sizes": [], "sessions": [], "yours": []}
    for each in curves:
        found["fit"] += each.fit
        found["sizes"] += each.sizes
        found["sessions"] += each.sessions
    return found


def curves_chart(curves: Sequence[Drawn], yours: Sequence[Data] = ()) -> Chart:
    """The chart of some of them, and of points of the reader's."""
    return Chart(
        name="curves",
        title="Change against model size",
        says="Change of energy per token against FP16 over model size; below zero it saves. "
        "Line and band: the monotone curve, and where another session is expected. Circles: sizes, "
        "filled where two sessions or more measured them. Dots: single sessions.",
        spec=_spec(layers_of(curves) | {"yours": list(yours)}),
        head=_HEAD,
        rows=tuple(_rows(curves)),
    )


def _rows(curves: Iterable[Drawn]) -> Iterable[tuple[Cell, ...]]:
    for each in curves:
        for knot in each.knots:
            low, high = _ends(knot)
            yield each.curve, knot.params_b, _pct(knot.fit), low, high, str(knot.n)


def _spec(datasets: dict[str, list[Data]]) -> Spec:
    x = {
        "field": "n_b",
        "type": "quantitative",
        "title": "billion parameters",
        "scale": {"type": "log", "nice": False, "padding": 12},
        "axis": {"values": [0.1, 0.2, 0.5, 1, 2, 3, 5, 7, 10, 14, 30, 70, 200, 700]},
    }
    y = {"field": "change", "type": "quantitative", "title": "change of energy, %"}
    low, high = {"field": "low", "type": "quantitative"}, {"field": "high"}
    legend = {"orient": "top", "columns": 2, "symbolOpacity": 1, "symbolType": "circle"}
    range_ = {"range": [*COLOURS, "#8a8a8a"]}  # as many as the most boards of one arm
    colour = {
        "field": "curve",
        "type": "nominal",
        "title": None,
        "legend": legend,
        "scale": range_,
    }
    tip = [{"field": name} for name in ("curve", "n_b", "change", "low", "high")]
    return vega_lite(
        width=600,
        height=340,
        datasets=datasets,
        layer=[
            {
                "data": {"values": [{"change": 0}]},
                "mark": {"type": "rule", "strokeDash": [6, 4]},
                "encoding": {"y": y},
            },
            {
                "data": {"name": "fit"},
                "mark": {"type": "area", "opacity": 0.15},
                "encoding": {"x": x, "y": low, "y2": high, "color": colour},
            },
            {
                "data": {"name": "fit"},
                "mark": {"type": "line", "strokeWidth": 2.5},
                "encoding": {"x": x, "y": y, "color": colour},
            },
            {
                "data": {"name": "sessions"},
                "mark": {"type": "point", "filled": True, "size": 18, "opacity": 0.7},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": colour,
                    "tooltip": [{"field": name} for name in ("session", "model", "n_b", "change")],
                },
            },
            *(
                {
                    "data": {"name": "sizes"},
                    "transform": [{"filter": f"datum.n {test} 1"}],
                    "mark": look,
                    "encoding": {
                        "x": x,
                        "y": y,
                        "color": colour,
                        "tooltip": [*tip, {"field": "n"}],
                    },
                }
                for test, look in _LOOKS
            ),
            {
                "data": {"name": "yours"},
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "strokeWidth": 3, "color": "#d55e00"},
                "encoding": {"x": x, "y": low, "y2": high},
            },
            {
                "data": {"name": "yours"},
                "mark": {
                    "type": "point",
                    "shape": "cross",
                    "filled": True,
                    "size": 150,
                    "opacity": 1,
                },
                "encoding": {"x": x, "y": y, "color": {"value": "#d55e00"}, "tooltip": tip},
            },
        ],
    )


def turning_rows() -> tuple[tuple[str, ...], ...]:
    """Where each curve changes its sign, or why nobody knows."""
    return tuple(
        _turning(f"{precision} {runtime}", gpu, curve)
        for (gpu, precision, runtime), curve in sorted(
            library().ratios.items(), key=lambda each: (each[0][1:], each[0][0])
        )
    )


def _turning(arm: str, gpu: str, curve: Curve) -> tuple[str, ...]:
    at, low, high = curve.crossing
    sizes = ", ".join(f"{knot.params_b:.3g}B" for knot in curve.sizes) or "–"
    if at is not None:
        ends = [f"{each:.2g}B" if each is not None else "beyond" for each in (low, high)]
        turns, span = f"{at:.2g}B", " to ".join(ends)
    else:
        turns, span = _none_because(curve), "–"
    return arm, gpu, sizes, str(len(curve.sessions)), turns, span, " ".join(curve.notes) or "–"


def _none_because(curve: Curve) -> str:
    if not curve.knots:
        return "no curve"
    over = [knot.fit > 0 for knot in curve.sizes]
    return "nowhere: it costs at every size" if all(over) else "not within the sizes measured"
