"""Energy per million output tokens of each arm, with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import present
from ecocompute_cube.report.charts.many import MOST_ARMS
from ecocompute_cube.report.charts.spec import (
    Cell,
    Chart,
    Spec,
    grouped,
    number,
    spanned,
    vega_lite,
)
from ecocompute_cube.report.table import three_digits
from ecocompute_cube.units import kwh, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.report.shown import Shown

_HEAD: Final = ("model", "arm", "kJ per 1M tokens", "low", "high", "kWh per 1M tokens", "basis")
_WHAT: Final = (
    "Board energy of each arm for a million output tokens (in phase prefill: prompt tokens)."
)
_OF_ARMS: Final = (
    "Filled bars rest on two sessions or more, of one run or of several that agree; hollow ones on "
    "one. The line across a bar's end is "
    "its interval; one block has none. In brackets: the change against the baseline."
)
_OF_MODELS: Final = "A row a model, a stroke an arm; intervals are in the table."


class Bar(NamedTuple):
    """One arm. A millijoule a token is a kilojoule a million tokens."""

    arm: str
    group: str
    kj: float
    low: float | None  #: none of one block
    high: float | None
    basis: str
    replicated: bool
    end: float  #: of the bar or of its interval: where the label begins
    label: str


def energy_chart(shown: Sequence[Shown]) -> Chart | None:
    """Bars of every measured arm; None where nothing was measured."""
    bars = [bar for each in shown if (bar := _bar(each)) is not None]
    if not bars:
        return None
    few = len(bars) <= MOST_ARMS
    return Chart(
        name="energy",
        title="Energy per million tokens",
        says=f"{_WHAT} {_OF_ARMS if few else _OF_MODELS}",
        spec=_bars(bars) if few else _models(bars),
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
    low, high = spanned(interval)
    change = versus.change_pct if present(versus) else versus
    return Bar(
        arm=each.label,
        group=each.group,
        kj=number(kj),
        low=low,
        high=high,
        basis=each.basis,
        replicated=each.replicates > 1,
        end=number(kj if high is None else max(kj, high)),
        label=three_digits(kj) + (f"  ({signed(change)} %)" if present(change) else ""),
    )


def _bars(bars: Sequence[Bar]) -> Spec:
    title = "kJ per million tokens (board)"
    scale = {"domainMin": 0, "domainMax": 1.25 * max(bar.end for bar in bars)}
    filled = {"condition": {"test": "datum.replicated", "value": 0.85}, "value": 0.12}
    kj = {"field": "kj", "type": "quantitative", "title": title, "axis": {"tickCount": 6}}
    low, high = {"field": "low", "type": "quantitative"}, {"field": "high"}
    end = {"field": "end", "type": "quantitative"}
    layers = [
        {
            "mark": {"type": "bar", "stroke": "#0072b2", "fill": "#0072b2", "height": 18},
            "encoding": {"x": {**kj, "scale": scale}, "fillOpacity": filled},
        },
        {
            "transform": [{"filter": "datum.low !== null"}],
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"x": low, "x2": high},
        },
        {
            "mark": {"type": "text", "align": "left", "dx": 8},
            "encoding": {"x": end, "text": {"field": "label"}},
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
