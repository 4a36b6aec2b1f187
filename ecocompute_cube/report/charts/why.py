"""Where each arm's energy per token goes, stacked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.base import present
from ecocompute_cube.report.charts.energy import MOST_ARMS, first_of
from ecocompute_cube.report.charts.spec import Chart, Spec, grouped, number, vega_lite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.why import Why
    from ecocompute_cube.report.shown import Shown

_PARTS: Final = {
    "idle, waiting for the host": "idle_waiting_mj",
    "idle, busy": "idle_busy_mj",
    "memory": "memory_mj",
    "compute": "compute_mj",
    "unattributed": "unattributed_mj",
}
_SHADES: Final = ("#999999", "#56b4e9", "#0072b2", "#d55e00", "#cc79a7")


def why_chart(shown: Sequence[Shown]) -> Chart | None:
    """A stack an arm that is explained; None where none is."""
    explained = [(each, each.arm.why) for each in shown if present(each.arm.why)]
    if not explained:
        return None
    return Chart(
        name="why",
        title="Where the energy goes",
        says="Energy per token of each arm in exclusive parts: idle power while the board waits "
        "for the host and while it works, memory, compute, and what neither explains."
        f"{first_of(len(explained))}",
        spec=_stack(explained[:MOST_ARMS]),
        head=("model", "arm", *(f"{part}, mJ" for part in _PARTS), "what it says"),
        rows=tuple(
            (each.group, each.label, *map(number, parts_of(why).values()), why.says)
            for each, why in explained
        ),
    )


def parts_of(why: Why) -> dict[str, float]:
    """The parts by the names that are shown, in millijoules a token."""
    return {part: getattr(why, field) for part, field in _PARTS.items()}


def _stack(explained: Sequence[tuple[Shown, Why]]) -> Spec:
    values = [
        {"group": each.group, "arm": each.label, "part": part, "order": order, "mj": number(value)}
        for each, why in explained
        for order, (part, value) in enumerate(parts_of(why).items())
    ]
    return vega_lite(
        data={"values": values},
        facet={"row": grouped(each.group for each, _ in explained)},
        resolve={"scale": {"y": "independent"}},
        spec={
            "width": 520,
            "height": {"step": 28},
            "mark": {"type": "bar", "height": 18},
            "encoding": {
                "y": {"field": "arm", "type": "nominal", "sort": None, "title": None},
                "x": {"field": "mj", "type": "quantitative", "title": "mJ per token"},
                "color": {
                    "field": "part",
                    "type": "nominal",
                    "title": None,
                    "scale": {"domain": list(_PARTS), "range": list(_SHADES)},
                    "legend": {"orient": "top", "columns": 3},
                },
                "order": {"field": "order", "type": "quantitative"},
                "tooltip": [{"field": name} for name in ("arm", "part", "mj")],
            },
        },
    )
