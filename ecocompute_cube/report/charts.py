"""Charts as Vega-Lite specifications (plain dicts), drawn to SVG without a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.model.base import present

if TYPE_CHECKING:
    from ecocompute_cube.model.report import ArmReport, Report

Spec = dict[str, object]


def energy_bars(report: Report) -> Spec | None:
    """MJ per token of each arm with its interval; None where nothing was measured."""
    values = [_bar(arm) for arm in report.arms if present(arm.energy)]
    if not values:
        return None
    base: Spec = {"y": {"field": "arm", "type": "nominal", "sort": None, "title": None}}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": 560,
        "height": {"step": 34},
        "config": {"view": {"stroke": None}, "font": "sans-serif"},
        "data": {"values": values},
        "encoding": base,
        "layer": [
            {
                "mark": {"type": "bar", "color": "#4c78a8", "height": {"band": 0.6}},
                "encoding": {
                    "x": {
                        "field": "mj",
                        "type": "quantitative",
                        "title": "energy per output token, mJ (board)",
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


def _bar(arm: ArmReport) -> dict[str, object]:
    energy = arm.energy
    if not present(energy):
        raise ValueError(f"{arm.arm} has no energy to draw")
    interval = energy.interval_mj
    low, high = (interval.low, interval.high) if present(interval) else (energy.mj_per_token,) * 2
    versus = arm.vs_baseline
    change = versus.change_pct if present(versus) else versus
    label = f"{energy.mj_per_token:.0f}" + (f"  ({change:+.1f} %)" if present(change) else "")
    return {
        "arm": f"{arm.model} {arm.precision} {arm.runtime}",
        "mj": energy.mj_per_token,
        "low": low,
        "high": high,
        "label": label,
    }


def as_svg(spec: Spec) -> str:
    """The specification drawn as SVG."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(spec)
    return svg
