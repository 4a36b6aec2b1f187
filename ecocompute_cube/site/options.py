"""The optimizer's page as it opens: energy against latency, and what nothing else beats in both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.analysis.optimizer import optimize
from ecocompute_cube.report.charts.spec import Chart, Spec, number, vega_lite

if TYPE_CHECKING:
    from ecocompute_cube.analysis.optimizer import Config

Data = dict[str, object]

#: What the page opens on.
SIZE: Final = 7.0
GPU: Final = "NVIDIA GeForce RTX 4090"


def options_chart() -> Chart:
    """Every configuration on the front of energy and latency, and the recommended one."""
    found = optimize(SIZE, gpu=GPU, batch=1)
    front = [point(each) for each in found.pareto]
    chosen = [point(found.recommended)] if found.recommended else []
    others = [point(each) for each in found.alternatives if each not in found.pareto]
    return Chart(
        name="options",
        title="Energy against latency",
        says="Energy of a million tokens against the time a token takes, a configuration a point: "
        "filled where none that keeps to the limits beats it in both, hollow the next best. The "
        "star is recommended.",
        spec=_spec({"front": front, "others": others, "chosen": chosen}),
        head=("configuration", "kJ per 1M tokens", "ms a token", "energy is"),
        rows=tuple(
            (
                str(each["arm"]),
                number(c.energy_mj_per_token),
                number(c.latency_ms),
                c.basis["energy"],
            )
            for each, c in zip(front, found.pareto, strict=True)
        ),
    )


def point(config: Config) -> Data:
    """As ``templates/optimize.js`` makes it, too."""
    return {
        "arm": f"{config.precision} {config.runtime}, batch {config.batch}",
        "precision": config.precision,
        "kj": config.energy_mj_per_token,
        "ms": config.latency_ms,
    }


def _spec(datasets: dict[str, list[Data]]) -> Spec:
    x = {
        "field": "ms",
        "type": "quantitative",
        "title": "ms a token",
        "scale": {"zero": False, "padding": 20},
        "axis": {"tickCount": 6},
    }
    y = {
        "field": "kj",
        "type": "quantitative",
        "title": "kJ per million tokens (board)",
        "scale": {"type": "log", "padding": 20, "nice": False},
        "axis": {"tickCount": 6},
    }
    colour = {
        "field": "precision",
        "type": "nominal",
        "title": None,
        "legend": {"orient": "top", "columns": 3, "symbolOpacity": 1},
    }
    tip = [{"field": name} for name in ("arm", "kj", "ms")]
    return vega_lite(
        width=560,
        height=300,
        datasets=datasets,
        layer=[
            {
                "data": {"name": "front"},
                "mark": {"type": "line", "strokeWidth": 1, "color": "#8888"},
                "encoding": {"x": x, "y": y, "order": {"field": "ms"}},
            },
            {
                "data": {"name": "front"},
                "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1},
                "encoding": {"x": x, "y": y, "color": colour, "tooltip": tip},
            },
            {
                "data": {"name": "others"},
                "mark": {"type": "point", "size": 80, "opacity": 1, "strokeWidth": 2},
                "encoding": {"x": x, "y": y, "color": colour, "tooltip": tip},
            },
            {
                "data": {"name": "front"},
                "mark": {"type": "text", "align": "left", "dx": 8, "dy": -6},
                "encoding": {"x": x, "y": y, "text": {"field": "arm"}},
            },
            {
                "data": {"name": "chosen"},
                "mark": {
                    "type": "point",
                    "shape": "M0,-1L0.23,-0.31L0.95,-0.31L0.36,0.12L0.59,0.81L0,0.38L-0.59,0.81"
                    "L-0.36,0.12L-0.95,-0.31L-0.23,-0.31Z",
                    "filled": True,
                    "size": 260,
                    "opacity": 1,
                    "color": "#d55e00",
                },
                "encoding": {"x": x, "y": y, "tooltip": tip},
            },
        ],
    )
