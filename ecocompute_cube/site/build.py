"""The pages: what each is called, which scripts it runs, and what it is filled with."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube import __version__
from ecocompute_cube.analysis.cards import ARCHES, CARDS
from ecocompute_cube.analysis.curves import library
from ecocompute_cube.analysis.estimator import answer
from ecocompute_cube.analysis.mechanism import MEASURED_CONTEXT, model
from ecocompute_cube.analysis.query import query
from ecocompute_cube.analysis.shapes import BITS
from ecocompute_cube.report.estimated import estimate_document
from ecocompute_cube.report.page import (
    asset,
    environment,
    factors,
    figure,
    json_block,
    vega_script,
)
from ecocompute_cube.report.page_schemas import page_schemas
from ecocompute_cube.site import curves, datasets, options, tested, tradeoff
from ecocompute_cube.site.parameters import PARAMETERS
from ecocompute_cube.site.tables import tables
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Context = dict[str, object]

_PACKAGE: Final = "ecocompute_cube.site"
#: Nothing but what lies beside the page is loaded, no text is run, nothing is sent.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_CHARTS: Final = ("vega.js", "page.js")
_COMPUTES: Final = (*_CHARTS, "estimator.js", "question.js", "optimizer.js", "site.js")
_OURS: Final = (
    "estimator.js",
    "question.js",
    "optimizer.js",
    "site.js",
    "index.js",
    "crossover.js",
    "model.js",
    "optimize.js",
    "run.js",
    "plain.js",
)
_REPORTS: Final = ("page.js", "factors.js", "schema.js", "drop.js")
#: The two values of a document that the page draws, in their places.
_EXAMPLE: Final = {
    "schema_version": "ecocompute-energy/2.0",
    "system_under_test": {"gpu": "NVIDIA GeForce RTX 4090"},
    "workload": {"params_b": 1.1, "precision": "NF4"},
    "results": {"vs_fp16_energy_pct": 5.5, "basis": "measured"},
}


class Page(NamedTuple):
    """One page."""

    file: str
    title: str
    about: str
    scripts: tuple[str, ...]
    filled: Callable[[], Context]


def site_files(paths: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """Every file of the site. ``paths``: what the server that shows it answers, and of what."""
    templates = environment(_PACKAGE)
    shared: Context = {"pages": PAGES, "policy": POLICY, "version": __version__}
    found = {
        page.file: templates.get_template(page.file).render(
            **shared, page=page, paths=dict(paths or {}), **page.filled()
        )
        for page in PAGES
    }
    found |= {name: asset(name, _PACKAGE) for name in _OURS}
    found |= {name: asset(name) for name in _REPORTS}
    found["vega.js"] = vega_script()
    found["style.css"] = asset("report.css") + asset("site.css", _PACKAGE)
    data = datasets.files()
    return {
        **{name: text.encode() for name, text in sorted(found.items())},
        **{each.name: each.content for each in (*data, datasets.index(data))},
    }


def _tested() -> Context:
    all_ = tested.tested()
    first = next(each for each in all_ if (each.gpu, each.model) == tested.FIRST)
    shown = [
        {
            "gpu": each.gpu,
            "model": each.model,
            "says": each.says,
            "brief": each.brief,
            "datasets": tested.datasets(each),
        }
        for each in all_
    ]
    return {
        "figures": {"tested": figure(tested.tested_chart(first))},
        "first": first,
        "tested": json_block(shown),
        "head": tested.HEAD,
        "rows": tested.tested_rows(),
    }


def _crossover() -> Context:
    return {
        **_curves(curves.FIRST),
        "turning_head": curves.TURNING_HEAD,
        "turning": curves.turning_rows(),
    }


def _curves(arm: tuple[str, str], board: str | None = None) -> Context:
    drawn = curves.drawn()
    first = [
        each
        for each in drawn
        if (each.precision, each.runtime) == arm and board in {None, each.board}
    ]
    return {
        "figures": {"curves": figure(curves.curves_chart(first))},
        "drawn": json_block([curves.data(each) for each in drawn]),
    }


def _asked() -> Context:
    """What the forms offer."""
    exported = tables()
    return {
        "tables": json_block(exported),
        "cards": CARDS,
        "arches": ARCHES,
        "precisions": tuple(BITS),
        "runtimes": exported["runtimes"],
        "limits": exported["limits"],
        "searched": exported["searched"],
        "context": MEASURED_CONTEXT,
    }


def _model() -> Context:
    return {**_asked(), **_curves(curves.FIRST, options.GPU)}


def _optimize() -> Context:
    chart = figure(options.options_chart())
    return {**_asked(), "figures": {"options": chart}, "factors": factors()}


def _run() -> Context:
    example = json.dumps(_EXAMPLE, indent=1).splitlines()
    return {**_curves(curves.FIRST), "schemas": json_block(page_schemas()), "example": example}


def _tradeoff() -> Context:
    found = tradeoff.points()
    return {
        "figures": {"tradeoff": figure(tradeoff.tradeoff_chart(found))},
        "factors": factors(),
        "head": tradeoff.HEAD,
        "rows": tradeoff.tradeoff_rows(found),
    }


def _method() -> Context:
    return {"scatter": tuple(_scatter()), "errors": tuple(_errors())}


def _scatter() -> Iterable[tuple[str, str, str]]:
    for (precision, runtime), each in library().scatter.items():
        spread = "–"
        if each.log_sd is not None:
            spread = f"{100 * math.expm1(each.log_sd):.1f} % ({each.degrees})"
        held = f"{each.held} of {each.tried}" if each.tried else "–"
        yield f"{precision} {runtime}", spread, held


def _errors() -> Iterable[tuple[str, str, str, str]]:
    by = model()
    for board, found in (("measured", by.seen), ("not measured", by.unseen)):
        for precision, error in found.items():
            low, high = (100 * math.expm1(sign * error.half) for sign in (-1, 1))
            rms = f"{100 * math.expm1(error.log_rms):.0f} %"
            yield board, precision, rms, f"{signed(low, 0)} to {signed(high, 0)} %"


def _datasets() -> Context:
    data = datasets.files()
    return {
        "files": (*data, datasets.index(data)),
        "license": datasets.LICENSE,
        "head": datasets.HEAD,
        "rows": datasets.session_rows(),
    }


def _api() -> Context:
    asked = query(7.0, arch="ada")
    told = {**estimate_document(asked, answer(asked))}
    del told["anchors"]
    lines = json.dumps(told, indent=1, ensure_ascii=False).splitlines()
    return {"parameters": PARAMETERS, "answer": lines}


PAGES: Final = (
    Page(
        "index.html",
        "Tested models",
        "What each precision took on a real board, session by session.",
        (*_COMPUTES, "index.js"),
        _tested,
    ),
    Page(
        "crossover.html",
        "Crossover",
        "From which size on does quantizing save energy? One curve a board.",
        (*_COMPUTES, "crossover.js"),
        _crossover,
    ),
    Page(
        "model.html",
        "Your model",
        "Does quantizing your model save energy on your board? Ask in words or by parts.",
        (*_COMPUTES, "model.js"),
        _model,
    ),
    Page(
        "optimize.html",
        "Optimize",
        "Which precision and batch serve an aim best, within your limits?",
        (*_COMPUTES, "optimize.js"),
        _optimize,
    ),
    Page(
        "run.html",
        "Run it yourself",
        "Measure on your own board, and lay the result over what was measured.",
        (*_COMPUTES, "schema.js", "drop.js", "run.js"),
        _run,
    ),
    Page(
        "tradeoff.html",
        "Accuracy × cost × carbon",
        "What a saving costs in perplexity, and what energy costs in money and carbon.",
        (*_CHARTS, "factors.js", "plain.js"),
        _tradeoff,
    ),
    Page(
        "method.html",
        "Method",
        "What was measured, what an answer rests on, and how far it is off.",
        ("page.js", "plain.js"),
        _method,
    ),
    Page(
        "datasets.html",
        "Datasets",
        "Every session that an answer rests on, with its source, and the files.",
        ("page.js", "plain.js"),
        _datasets,
    ),
    Page(
        "api.html",
        "API",
        "The same answers for programs.",
        ("page.js", "plain.js"),
        _api,
    ),
)
