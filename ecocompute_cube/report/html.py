"""report.html: one file that works from a disk, offline, under a strict content policy.

Every chart is there twice: as an SVG drawn here, for print, archives and browsers without scripts,
and as the Vega-Lite specification that the page's own copy of Vega draws over it. Scripts are named
in the policy by their hashes, so that nothing else can run; data lie in JSON blocks.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ecocompute_cube import __version__
from ecocompute_cube.model.base import present, printable
from ecocompute_cube.report.charts.crossover import curve_data, labels
from ecocompute_cube.report.charts.every import charts_of
from ecocompute_cube.report.charts.power import MOST_VISITS, power_data
from ecocompute_cube.report.charts.spec import as_svg
from ecocompute_cube.report.measured import MEASURED, measured_rows
from ecocompute_cube.report.merged import published_curves
from ecocompute_cube.report.merged_text import merged_text, pooled_words
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
    from ecocompute_cube.report.charts.spec import Chart
    from ecocompute_cube.report.merged import Merged
    from ecocompute_cube.report.power import PowerShown
    from ecocompute_cube.report.shown import Shown

_FIRST_RUNS: Final = 5  # whose answers are open; of more runs the others are folded


class Figure(NamedTuple):
    """A chart as the page shows it."""

    chart: Chart
    svg: Markup
    spec: Markup


def as_html(
    reports: Sequence[Report], visits: Sequence[PowerShown] = (), together: Merged | None = None
) -> str:
    """Every run on one page. Whatever comes from a journal is escaped."""
    shown = shown_arms(reports, together.pooled if together else ())
    curves = together.crossovers if together else ()
    script = _own_script()
    return (
        _environment()
        .get_template("report.html")
        .render(
            runs=[_run(report) for report in reports],
            figures={chart.name: _figure(chart) for chart in charts_of(shown, curves, visits)},
            measured=measured_rows(shown),
            columns=MEASURED,
            loaded_columns=LOADED,
            block_columns=BLOCKS,
            first_runs=_FIRST_RUNS,
            power=_json(_visits(shown, visits)),
            curves=_json(curve_data(curves)),
            published=_json(curve_data(published_curves())),
            turning=[
                (name, curve.runs, curve.crossover.says)
                for name, curve in zip(labels(curves), curves, strict=True)
            ],
            pooled=pooled_words(together.pooled) if together else (),
            together=together_rows(together.pooled) if together else (),
            together_columns=TOGETHER,
            merged=merged_text(together).splitlines() if together else (),
            confidences=_confidences(reports),
            factors=_factors(),
            schemas=_json(page_schemas()),
            style=Markup(_read("report.css")),  # noqa: S704 (our own file)
            vega=Markup(vega_script()),  # noqa: S704 (the bundle of vl-convert)
            script=Markup(script),  # noqa: S704 (our own file)
            hashes=" ".join(f"'{_hash(each)}'" for each in (vega_script(), script)),
            version=__version__,
        )
    )


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("ecocompute_cube.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_seen,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _seen(value: object) -> object:
    return printable(value) if type(value) is str else value


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


def _figure(chart: Chart) -> Figure:
    # Vega escapes the text it draws; everything else in the SVG is its own.
    return Figure(chart, Markup(as_svg(chart.spec)), _json(chart.spec))  # noqa: S704


def _visits(shown: Sequence[Shown], visits: Sequence[PowerShown]) -> list[Mapping[str, object]]:
    names = {(each.report.run_id, each.arm.arm): each.name for each in shown}
    return [
        {"name": names[visit.run_id, visit.arm], **power_data(visit)}
        for visit in visits[:MOST_VISITS]
    ]


def _factors() -> list[dict[str, str]]:
    """Carbon intensities to choose from, each with its source."""
    return list(csv.DictReader(_read("carbon.csv").splitlines(), delimiter=";"))


def _json(value: object) -> Markup:
    """JSON that nothing inside a script element can end early."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    escaped = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return Markup(escaped)  # noqa: S704 (no "<" is left in it)


def _read(name: str) -> str:
    return (files("ecocompute_cube.report") / "templates" / name).read_text(encoding="utf-8")


def _own_script() -> str:
    return "".join(map(_read, ("page.js", "factors.js", "schema.js", "drop.js", "report.js")))


@cache
def vega_script() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, as vl-convert carries them."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
