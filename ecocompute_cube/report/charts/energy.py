"""Energy per million output tokens of each arm, with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import present
from ecocompute_cube.report.charts.spec import Cell, Chart, Spec, grouped, number, vega_lite
from ecocompute_cube.units import kwh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.report.shown import Shown

MOST_ARMS: Final = 50  #: beyond, a chart shows models

_HEAD: Final = ("model", "arm", "kJ per 1M tokens", "low", "high", "kWh per 1M tokens", "basis")


class Bar(NamedTuple):
    """One arm. A millijoule a token is a kilojoule a million tokens."""

    arm: str
    group: str
    kj: float
    low: float
    high: float
    basis: str
    replicated: bool
    label: str


def energy_chart(shown: Sequence[Shown]) -> Chart | None:
    """Bars of every measured arm; None where nothing was measured."""
    bars = [bar for each in shown if (bar := _bar(each)) is not None]
    if not bars:
        return None
    return Chart(
        name="energy",
        title="Energy per million tokens",
        says="Board energy of each arm for a million output tokens (in phase prefill: prompt "
        "tokens). Filled bars rest on two sessions or more, hollow ones on one.",
        spec=_bars(bars) if len(bars) <= MOST_ARMS else _models(bars),
        head=_HEAD,
        rows=tuple(_row(bar) for bar in bars),
    )


def _row(bar: Bar) -> tuple[Cell, ...]:
    return bar.group, bar.arm, bar.kj, bar.low, bar.high, number(kwh(bar.kj)), bar.basis


def _bar(each: Shown) -> Bar | None:
    energy, versus = each.arm.energy, each.arm.vs_baseline
    if not present(energy):
        return None
    kj, interval = energy.mj_per_token, energy.interval_mj
    low, high = (interval.low, interval.high) if present(interval) else (kj, kj)
    change = versus.change_pct if present(versus) else versus
    return Bar(
        arm=each.label,
        group=each.group,
        kj=number(kj),
        low=number(low),
        high=number(high),
        basis=each.basis,
        replicated=each.arm.sessions > 1,
        label=f"{kj:.0f}" + (f"  ({change:+.1f} %)" if present(change) else ""),
    )


def _bars(bars: Sequence[Bar]) -> Spec:
    title = "kJ per million tokens (board)"
    scale = {"domainMin": 0, "domainMax": 1.25 * max(bar.high for bar in bars)}
    filled = {"condition": {"test": "datum.replicated", "value": 0.85}, "value": 0.12}
    kj = {"field": "kj", "type": "quantitative", "title": title, "axis": {"tickCount": 6}}
    low, high = {"field": "low", "type": "quantitative"}, {"field": "high"}
    layers = [
        {
            "mark": {"type": "bar", "stroke": "#0072b2", "fill": "#0072b2", "height": 18},
            "encoding": {"x": {**kj, "scale": scale}, "fillOpacity": filled},
        },
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"x": low, "x2": high}},
        {
            "mark": {"type": "text", "align": "left", "dx": 8},
            "encoding": {"x": {**high, "type": "quantitative"}, "text": {"field": "label"}},
        },
    ]
    return vega_lite(
        data={"values": [bar._asdict() for bar in bars]},
        facet={"row": grouped(bar.group for bar in bars)},
        resolve={"scale": {"y": "independent"}},
        spec={
            "width": 560,
            "height": {"step": 28},
            "encoding": {
                "y": {"field": "arm", "type": "nominal", "sort": None, "title": None},
                "tooltip": [{"field": name} for name in ("arm", "kj", "low", "high", "basis")],
            },
            "layer": layers,
        },
    )


def _models(bars: Sequence[Bar]) -> Spec:
    """A stroke an arm, a row a model: what many arms look like from afar."""
    return vega_lite(
        width=560,
        height={"step": 26},
        data={"values": [{"model": bar.group, "kj": bar.kj} for bar in bars]},
        mark={"type": "tick", "thickness": 2, "color": "#0072b2", "opacity": 0.6},
        encoding={
            "y": {"field": "model", "type": "nominal", "sort": None, "title": None},
            "x": {
                "field": "kj",
                "type": "quantitative",
                "title": "kJ per million tokens (board), a stroke an arm",
                "scale": {"type": "log"},
            },
        },
    )
