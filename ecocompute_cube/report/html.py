"""report.html: one self-contained page, no script, nothing fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ecocompute_cube import __version__
from ecocompute_cube.model.base import printable
from ecocompute_cube.report.charts import as_svg, energy_bars
from ecocompute_cube.report.text import (
    comparison_lines,
    experiment_lines,
    finding_lines,
    headings,
    output_lines,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.report import Report


def as_html(reports: Sequence[Report]) -> str:
    """Every run on one page. Whatever comes from a journal is escaped."""
    environment = Environment(
        loader=PackageLoader("ecocompute_cube.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_seen,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    runs = [
        {
            "report": report,
            "headings": headings(report),
            "rows": rows(report),
            "comparisons": comparison_lines(report),
            "experiment": [*output_lines(report), *experiment_lines(report)],
            "findings": finding_lines(report),
            "svg": _figure(report),
        }
        for report in reports
    ]
    return environment.get_template("report.html").render(runs=runs, version=__version__)


def _seen(value: object) -> object:
    return printable(value) if type(value) is str else value


def _figure(report: Report) -> Markup | None:
    spec = energy_bars(report)
    # Vega escapes the text it draws; everything else in the SVG is its own.
    return Markup(as_svg(spec)) if spec else None  # noqa: S704
