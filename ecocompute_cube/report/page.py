"""What pages of ours are made of: templates, charts drawn beforehand, JSON blocks, scripts."""

from __future__ import annotations

import csv
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ecocompute_cube.model.base import printable
from ecocompute_cube.report.charts.spec import as_svg

if TYPE_CHECKING:
    from ecocompute_cube.report.charts.spec import Chart


class Figure(NamedTuple):
    """A chart as a page shows it."""

    chart: Chart
    svg: Markup
    spec: Markup


def environment(*packages: str) -> Environment:
    """Our templates, and before them those of ``packages``. All text is escaped."""
    return Environment(
        loader=ChoiceLoader(
            [PackageLoader(name) for name in (*packages, "ecocompute_cube.report")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_seen,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _seen(value: object) -> object:
    return printable(value) if type(value) is str else value


def figure(chart: Chart) -> Figure:
    """Drawn here, and its specification for the page's own copy of Vega."""
    # Vega escapes the text it draws; everything else in the SVG is its own.
    return Figure(chart, Markup(as_svg(chart.spec)), json_block(chart.spec))  # noqa: S704


def factors() -> list[dict[str, str]]:
    """Carbon intensities to choose from, each with its source."""
    return list(csv.DictReader(asset("carbon.csv").splitlines(), delimiter=";"))


def json_block(value: object) -> Markup:
    """JSON that nothing inside a script element can end early."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    escaped = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return Markup(escaped)  # noqa: S704 (no "<" is left in it)


def asset(name: str, package: str = "ecocompute_cube.report") -> str:
    """A file beside the templates."""
    return (files(package) / "templates" / name).read_text(encoding="utf-8")


@cache
def vega_script() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, as vl-convert carries them."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle
