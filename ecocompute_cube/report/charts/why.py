"""Where each arm's energy per token goes, stacked."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import present
from ecocompute_cube.report.charts.many import MOST_ARMS, MOST_MEANS, alike, meant
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


class _Stack(NamedTuple):
    """One arm, or the mean over several."""

    group: str
    name: str
    parts: dict[str, float]  #: mJ per token


def why_chart(shown: Sequence[Shown]) -> Chart | None:
    """A stack an arm that is explained; None where none is."""
    explained = [(each, each.arm.why) for each in shown if present(each.arm.why)]
    if not explained:
        return None
    stacks = [_Stack(each.group, each.label, parts_of(why)) for each, why in explained]
    means = _means(explained)
    few = len(stacks) <= MOST_ARMS
    return Chart(
        name="why",
        title="Where the energy goes",
        says="Energy per token of each arm in exclusive parts: idle power while the board waits "
        "for the host and while it works, memory, compute, and what neither explains."
        f"{meant(len(stacks), len(means), 'model and runtime')}",
        spec=_stack(stacks if few else means[:MOST_MEANS]),
        head=("model", "arm", *(f"{part}, mJ" for part in _PARTS), "what it says"),
        rows=tuple(
            (each.group, each.label, *map(number, parts_of(why).values()), why.says)
            for each, why in explained
        ),
    )


def parts_of(why: Why) -> dict[str, float]:
    """The parts by the names that are shown, in millijoules a token."""
    return {part: getattr(why, field) for part, field in _PARTS.items()}


def _means(explained: Sequence[tuple[Shown, Why]]) -> list[_Stack]:
    """A stack a model and runtime."""
    found = []
    for those in alike(explained, lambda one: (one[0].group, one[0].arm.runtime)):
        shown, _ = those[0]
        each = [parts_of(why) for _, why in those]
        parts = {part: fmean(one[part] for one in each) for part in _PARTS}
        found.append(_Stack(shown.group, f"{shown.arm.runtime}, {len(those)} arms", parts))
    return found


def _stack(stacks: Sequence[_Stack]) -> Spec:
    values = [
        {"group": each.group, "arm": each.name, "part": part, "order": order, "mj": number(value)}
        for each in stacks
        for order, (part, value) in enumerate(each.parts.items())
    ]
    return vega_lite(
        data={"values": values},
        facet={"row": grouped(each.group for each in stacks)},
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
