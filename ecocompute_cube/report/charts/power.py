"""Power over the time of one visit, with its parts marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.report.charts.many import MOST_ARMS, first_of
from ecocompute_cube.report.charts.spec import INK, Chart, Spec, vega_lite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ecocompute_cube.report.power import PowerShown

MOST_VISITS: Final = MOST_ARMS  #: that a page carries
#: Parts in the order they come, so that one has the same colour in every visit.
_PARTS: Final = ("load", "idle", "warm-up", "window", "quality")


def power_chart(visits: Sequence[PowerShown], names: Mapping[tuple[str, str], str]) -> Chart | None:
    """The first visit drawn, and the others beside it for the page to choose from."""
    if not visits:
        return None
    shown = visits[:MOST_VISITS]
    return Chart(
        name="power",
        title="Power over time",
        says="Board power during the last counted visit of an arm, with its parts marked."
        f"{first_of(len(visits))}",
        spec=_line(shown[0], _parts(shown)),
        head=("arm", "block", "part", "from, s", "to, s"),
        rows=tuple(
            (names[visit.run_id, visit.arm], visit.block + 1, part.what, part.start_s, part.end_s)
            for visit in visits
            for part in visit.stretches
        ),
    )


def power_columns(visit: PowerShown) -> dict[str, object]:
    """What the page puts in the place of the first visit's; a column takes half of what rows do."""
    return {
        "s": [s for s, _ in visit.points],
        "w": [w for _, w in visit.points],
        "parts": [part._asdict() for part in visit.stretches],
    }


def _parts(visits: Sequence[PowerShown]) -> list[str]:
    """Every part that a visit has."""
    found = {part.what for visit in visits for part in visit.stretches}
    return sorted(found, key=lambda what: (_PARTS.index(what.partition(":")[0]), what))


def _line(visit: PowerShown, parts: Sequence[str]) -> Spec:
    seconds = {"field": "s", "type": "quantitative", "title": "seconds"}
    watts = {"field": "w", "type": "quantitative", "title": "board power, W"}
    start = {"field": "start_s", "type": "quantitative"}
    points = [{"s": s, "w": w} for s, w in visit.points]
    return vega_lite(
        width=600,
        height=260,
        datasets={"points": points, "parts": [part._asdict() for part in visit.stretches]},
        layer=[
            {
                "data": {"name": "parts"},
                "mark": {"type": "rect", "opacity": 0.25},
                "encoding": {
                    "x": start,
                    "x2": {"field": "end_s"},
                    "color": {
                        "field": "what",
                        "title": None,
                        "scale": {"domain": list(parts)},
                        "legend": {"orient": "top", "symbolOpacity": 0.6},
                    },
                },
            },
            {
                "data": {"name": "points"},
                "mark": {"type": "line", "strokeWidth": 1, "color": INK},
                "encoding": {"x": seconds, "y": {**watts, "scale": {"zero": True}}},
            },
        ],
    )
