"""Charts as Vega-Lite specifications (plain dicts), drawn to SVG without a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from ecocompute_cube.model.base import Absent, present, printable
from ecocompute_cube.report.labels import arm_label

if TYPE_CHECKING:
    from ecocompute_cube.model.claims import Comparison
    from ecocompute_cube.model.report import Energy, Report

Spec = dict[str, object]


def energy_bars(report: Report) -> Spec | None:
    """MJ per token of each arm with its interval; None where nothing was measured."""
    values = [
        _bar(printable(arm_label(arm, report.arms)), energy, arm.vs_baseline)
        for arm in report.arms
        if present(energy := arm.energy)
    ]
    if not values:
        return None
    axis = {"labelLimit": 420, "labelFontSize": 12}  # px: long model names stay whole
    arm: Spec = {"field": "arm", "type": "nominal", "sort": None, "title": None, "axis": axis}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "padding": {"left": 60, "right": 10, "top": 5, "bottom": 5},  # browsers' fonts are wider
        "width": 560,
        "height": {"step": 34},
        "config": {"view": {"stroke": None}, "font": "sans-serif"},
        "data": {"values": values},
        "encoding": {"y": arm},
        "layer": [
            {
                "mark": {"type": "bar", "color": "#4c78a8", "height": {"band": 0.6}},
                "encoding": {
                    "x": {
                        "field": "mj",
                        "type": "quantitative",
                        "title": "energy per output token, mJ (board)",
                        "axis": {"tickCount": 6},
                        "scale": {"domainMax": 1.25 * max(bar["high"] for bar in values)},
                    }
                },
            },
            {
                "mark": {"type": "rule", "color": "#222", "strokeWidth": 2},
                "encoding": {
                    "x": {"field": "low", "type": "quantitative"},
                    "x2": {"field": "high"},
                },
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 8, "color": "#222"},
                "encoding": {
                    "x": {"field": "high", "type": "quantitative"},
                    "text": {"field": "label", "type": "nominal"},
                },
            },
        ],
    }


class Bar(TypedDict):
    """One arm as the chart draws it; millijoules a token."""

    arm: str
    mj: float
    low: float
    high: float
    label: str


def _bar(arm: str, energy: Energy, versus: Comparison | Absent) -> Bar:
    interval = energy.interval_mj
    low, high = (interval.low, interval.high) if present(interval) else (energy.mj_per_token,) * 2
    change = versus.change_pct if present(versus) else versus
    label = f"{energy.mj_per_token:.0f}" + (f"  ({change:+.1f} %)" if present(change) else "")
    return {"arm": arm, "mj": energy.mj_per_token, "low": low, "high": high, "label": label}


def as_svg(spec: Spec) -> str:
    """The specification drawn as SVG."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(spec)
    return svg
