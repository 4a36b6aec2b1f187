"""Energy against batch, and against context, where one arm was measured at several."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import present, printable
from ecocompute_cube.report.charts.spec import Cell, Chart, Spec, number, spanned, vega_lite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ecocompute_cube.model.plan import Workload
    from ecocompute_cube.model.report import ArmReport
    from ecocompute_cube.report.shown import Shown

_LEAST: Final = 2  # points that a line needs
_MOST_LINES: Final = 12  # that anybody tells apart


class Point(NamedTuple):
    """One size of a line."""

    at: int
    kj: float
    low: float | None
    high: float | None


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
    lines: dict[tuple[str, str], dict[int, Point]] = defaultdict(dict)
    for each in shown:
        energy, arm = each.arm.energy, each.arm
        if present(energy):
            kj, at = number(energy.mj_per_token), size(arm.workload)
            what = f"{_arm(arm)}, {arm.model}, {rest(arm.workload)}"
            ends = spanned(energy.interval_mj)
            lines[what, each.report.run_id][at] = Point(at, kj, *ends)
    swept = {line: points for line, points in lines.items() if len(points) >= _LEAST}
    if not swept:
        return None
    times = Counter(what for what, _ in swept)
    rows = [
        (printable(f"{what}, run {run}" if times[what] > 1 else what), *points[at])
        for (what, run), points in swept.items()
        for at in sorted(points)
    ]
    names = list(dict.fromkeys(row[0] for row in rows))
    drawn = [row for row in rows if row[0] in names[:_MOST_LINES]]
    left = "" if drawn == rows else f" Drawn are the first {_MOST_LINES} of {len(names)}."
    return Chart(
        name=name,
        title=f"Energy against {name}",
        says=f"Energy per million tokens against {axis}, a line an arm of one run, "
        f"with intervals.{left}",
        spec=_lines(drawn, axis),
        head=("arm", axis, "kJ per 1M tokens", "low", "high"),
        rows=tuple(rows),
    )


def _arm(arm: ArmReport) -> str:
    again = f" #{arm.replica}" if arm.replica > 1 else ""
    return f"{arm.precision} {arm.runtime}{again}"


def _lines(rows: Sequence[tuple[Cell, ...]], axis: str) -> Spec:
    kj = {"type": "quantitative", "title": "kJ per million tokens (board)"}
    log = {"scale": {"type": "log"}}
    return vega_lite(
        width=520,
        height=300,
        data={"values": [dict(zip(("arm", *Point._fields), row, strict=True)) for row in rows]},
        encoding={
            "x": {"field": "at", "type": "quantitative", "title": axis, **log},
            "color": {"field": "arm", "title": None, "legend": {"orient": "top", "columns": 1}},
            "tooltip": [{"field": name} for name in ("arm", *Point._fields)],
        },
        layer=[
            {
                "mark": {"type": "line", "point": True},
                "encoding": {"y": {"field": "kj", **kj, **log}},
            },
            {
                "transform": [{"filter": "datum.low !== null"}],
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {"y": {"field": "low", **kj}, "y2": {"field": "high"}},
            },
        ],
    )
