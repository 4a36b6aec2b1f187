"""Energy against batch, and against context, where one arm was measured at several."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.base import present
from ecocompute_cube.report.charts.spec import Chart, Spec, number, vega_lite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ecocompute_cube.model.plan import Workload
    from ecocompute_cube.report.shown import Shown

_LEAST: Final = 2  # points that a line needs
Sized = dict[str, dict[int, float]]


def sweep_charts(shown: Sequence[Shown]) -> tuple[Chart, ...]:
    """A chart of each that was swept."""
    found = (
        _sweep(shown, "batch", "rows of the batch", lambda w: w.batch, _but_batch),
        _sweep(shown, "context", "tokens of the prompt", lambda w: w.prompt_tokens, _but_prompt),
    )
    return tuple(chart for chart in found if chart is not None)


def _but_batch(workload: Workload) -> str:
    return f"{workload.phase}, {workload.prompt_tokens} + {workload.output_tokens} tokens"


def _but_prompt(workload: Workload) -> str:
    return f"{workload.phase}, {workload.output_tokens} output tokens, batch {workload.batch}"


def _sweep(
    shown: Sequence[Shown],
    name: str,
    axis: str,
    size: Callable[[Workload], int],
    rest: Callable[[Workload], str],
) -> Chart | None:
    lines: Sized = defaultdict(dict)
    for each in shown:
        energy, arm = each.arm.energy, each.arm
        if present(energy):
            what = f"{arm.precision} {arm.runtime}, {arm.model}, {rest(arm.workload)}"
            lines[what][size(arm.workload)] = number(energy.mj_per_token)
    swept = {what: points for what, points in lines.items() if len(points) >= _LEAST}
    if not swept:
        return None
    rows = [(what, at, kj) for what, points in swept.items() for at, kj in sorted(points.items())]
    return Chart(
        name=name,
        title=f"Energy against {name}",
        says=f"Energy per million tokens against {axis}, a line an arm.",
        spec=_lines(rows, axis),
        head=("arm", axis, "kJ per 1M tokens"),
        rows=tuple(rows),
    )


def _lines(rows: Sequence[tuple[str, int, float]], axis: str) -> Spec:
    return vega_lite(
        width=520,
        height=300,
        data={"values": [{"arm": arm, "at": at, "kj": kj} for arm, at, kj in rows]},
        mark={"type": "line", "point": True},
        encoding={
            "x": {"field": "at", "type": "quantitative", "title": axis, "scale": {"type": "log"}},
            "y": {
                "field": "kj",
                "type": "quantitative",
                "title": "kJ per million tokens (board)",
                "scale": {"type": "log"},
            },
            "color": {"field": "arm", "title": None, "legend": {"orient": "top", "columns": 1}},
            "tooltip": [{"field": name} for name in ("arm", "at", "kj")],
        },
    )
