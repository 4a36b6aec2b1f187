"""report.html: one file that works from a disk, offline, under a strict content policy.

Every chart is there twice: as an SVG drawn here, for print, archives and browsers without scripts,
and as the Vega-Lite specification that the page's own copy of Vega draws over it. Scripts are named
in the policy by their hashes, so that nothing else can run; data lie in JSON blocks.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from ecocompute_cube import __version__
from ecocompute_cube.model.base import present, printable
from ecocompute_cube.report.charts.crossover import curve_data, labels
from ecocompute_cube.report.charts.every import charts_of
from ecocompute_cube.report.charts.power import MOST_VISITS, power_columns
from ecocompute_cube.report.measured import MEASURED, measured_rows
from ecocompute_cube.report.merged import published_curves
from ecocompute_cube.report.merged_text import merged_text, pooled_words
from ecocompute_cube.report.page import asset, environment, factors, figure, json_block, vega_script
from ecocompute_cube.report.page_schemas import page_schemas
from ecocompute_cube.report.proof import BLOCKS, LOADED, block_rows, loaded_rows
from ecocompute_cube.report.shown import shown_arms
from ecocompute_cube.report.text import (
    comparison_lines,
    experiment_lines,
    finding_lines,
    output_lines,
)
from ecocompute_cube.report.together import TOGETHER, together_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ecocompute_cube.model.report import Report
    from ecocompute_cube.report.merged import Merged
    from ecocompute_cube.report.power import PowerShown
    from ecocompute_cube.report.shown import Shown

_SCRIPTS: Final = ("page.js", "factors.js", "schema.js", "drop.js", "report.js")
_FIRST_RUNS: Final = 5  # whose answers are open; of more runs the others are folded


def as_html(
    reports: Sequence[Report], visits: Sequence[PowerShown] = (), together: Merged | None = None
) -> str:
    """Every run on one page. Whatever comes from a journal is escaped."""
    shown = shown_arms(reports, together.pooled if together else ())
    curves = together.crossovers if together else ()
    script = _own_script()
    return (
        environment()
        .get_template("report.html")
        .render(
            runs=[_run(report) for report in reports],
            figures={chart.name: figure(chart) for chart in charts_of(shown, curves, visits)},
            measured=measured_rows(shown),
            columns=MEASURED,
            loaded_columns=LOADED,
            block_columns=BLOCKS,
            first_runs=_FIRST_RUNS,
            power=json_block(_visits(shown, visits)),
            curves=json_block(curve_data(curves)),
            published=json_block(curve_data(published_curves())),
            turning=[
                (name, curve.runs, curve.crossover.says)
                for name, curve in zip(labels(curves), curves, strict=True)
            ],
            pooled=pooled_words(together.pooled) if together else (),
            together=together_rows(together.pooled) if together else (),
            together_columns=TOGETHER,
            merged=merged_text(together).splitlines() if together else (),
            confidences=_confidences(reports),
            factors=factors(),
            schemas=json_block(page_schemas()),
            style=Markup(asset("report.css")),  # noqa: S704 (our own file)
            vega=Markup(vega_script()),  # noqa: S704 (the bundle of vl-convert)
            script=Markup(script),  # noqa: S704 (our own file)
            hashes=" ".join(f"'{_hash(each)}'" for each in (vega_script(), script)),
            version=__version__,
        )
    )


def _run(report: Report) -> dict[str, object]:
    return {
        "report": report,
        "comparisons": comparison_lines(report),
        "experiment": [*output_lines(report), *experiment_lines(report)],
        "findings": finding_lines(report),
        "loaded": loaded_rows(report),
        "blocks": block_rows(report),
        "lowered": sorted({code for arm in report.arms for code in arm.lowered_by}),
        "rests_on": _rests_on(report),
    }


def _rests_on(report: Report) -> str:
    """Board, basis and size of a run, for who reads its answer and no further."""
    boards = dict.fromkeys(each.board.name for each in report.sessions if present(each.board))
    bases = dict.fromkeys(each.basis for each in shown_arms([report]))
    return printable("; ".join([", ".join(boards) or "no board", *bases]))


def _confidences(reports: Iterable[Report]) -> str:
    """Each that a plan asks for."""
    asked = sorted({report.plan.protocol.confidence for report in reports})
    return ", ".join(f"{100 * each:g}%" for each in asked)


def _visits(shown: Sequence[Shown], visits: Sequence[PowerShown]) -> list[Mapping[str, object]]:
    names = {(each.report.run_id, each.arm.arm): each.name for each in shown}
    return [
        {"name": names[visit.run_id, visit.arm], **power_columns(visit)}
        for visit in visits[:MOST_VISITS]
    ]


def _own_script() -> str:
    return "".join(map(asset, _SCRIPTS))


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
