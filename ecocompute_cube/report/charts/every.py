"""All charts that a set of arms has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.report.charts.crossover import crossover_chart
from ecocompute_cube.report.charts.energy import energy_chart
from ecocompute_cube.report.charts.power import power_chart
from ecocompute_cube.report.charts.quality import quality_chart
from ecocompute_cube.report.charts.sweeps import sweep_charts
from ecocompute_cube.report.charts.why import why_chart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.merged import SizeCurve
    from ecocompute_cube.report.charts.spec import Chart
    from ecocompute_cube.report.power import PowerShown
    from ecocompute_cube.report.shown import Shown


def charts_of(
    shown: Sequence[Shown], curves: Sequence[SizeCurve], visits: Sequence[PowerShown]
) -> tuple[Chart, ...]:
    """In the order of the page; a chart with nothing to show is left out."""
    names = {(each.report.run_id, each.arm.arm): each.name for each in shown}
    found = (
        energy_chart(shown),
        crossover_chart(curves),
        why_chart(shown),
        quality_chart(shown),
        *sweep_charts(shown),
        power_chart(visits, names),
    )
    return tuple(chart for chart in found if chart is not None)
