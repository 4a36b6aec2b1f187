"""What every door answers, from parameters by their published names.

A door brings the values as JSON has them: numbers, text and lists of them. What they are is checked
here and below, once; every mistake is a UsageError whose cause begins with the parameter's name.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ecocompute_cube.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecocompute_cube.report.estimated import Document

#: Parameters by their names here and in the published API.
Given = Mapping[str, Any]

FORMS: Final = ("curves", "published")
LIMITS: Final = MappingProxyType(
    {
        "max_latency_ms": "milliseconds a token at most",
        "max_vram_gb": "gigabytes at most, besides the board's own",
        "min_throughput": "tokens a second at least, of all rows",
        "max_perplexity_pct": "perplexity above FP16 at most, in percent",
    }
)
PRICES: Final = MappingProxyType(
    {
        "price_per_kwh": "what a kWh costs",
        "price_per_hour": "what an hour of the machine costs",
        "grams_per_kwh": "CO2 of a kWh, in grams",
    }
)
LISTS: Final = ("precisions", "runtimes", "batches", "contexts")
WHOLE_LISTS: Final = ("batches", "contexts")

_QUESTION: Final = "q"
_ASKED: Final = ("params_b", "gpu", "arch", "precision", "runtime", "batch", "context")
ESTIMATE: Final = (_QUESTION, *_ASKED, "ctx", "form")
OPTIMIZE: Final = (_QUESTION, *_ASKED, "ctx", "objective", *LIMITS, *PRICES, *LISTS)


class Answered(NamedTuple):
    """One answer, for programs and for people."""

    document: Document
    as_text: Callable[[], str]
    unread: tuple[str, ...]  #: words of the question that were not understood


def estimate(given: Given) -> Answered:
    """Does quantizing save energy. Raises UsageError."""
    from ecocompute_cube.analysis.estimator import answer
    from ecocompute_cube.analysis.published_form import published_estimate
    from ecocompute_cube.analysis.query import query
    from ecocompute_cube.report import estimated

    _refuse_unknown(given, ESTIMATE)
    values, unread = _understood(given)
    asked = query(**{name: value for name, value in values.items() if name in _ASKED})
    if _form(values.get("form", FORMS[0])) == "published":
        form = published_estimate(asked)
        document = estimated.form_document(asked, form)
        return _answered(document, partial(estimated.form_text, asked, form), unread)
    found = answer(asked)
    document = estimated.estimate_document(asked, found)
    return _answered(document, partial(estimated.estimate_text, asked, found), unread)


def optimize(given: Given) -> Answered:
    """Which configuration serves an aim best. Raises UsageError."""
    from ecocompute_cube.analysis.optimizer import Limits, Prices
    from ecocompute_cube.analysis.optimizer import optimize as best
    from ecocompute_cube.analysis.query import query
    from ecocompute_cube.report.optimized import optimum_document, optimum_text

    _refuse_unknown(given, OPTIMIZE)
    values, unread = _understood(given)
    for name in ("precision", "runtime"):  # of a question: the only one to look at
        if name in values:
            values.setdefault(f"{name}s", [values.pop(name)])
    limits = Limits(*(values.pop(name, None) for name in LIMITS))
    prices = Prices(*(values.pop(name, None) for name in PRICES))
    found = best(**values, limits=limits, prices=prices)
    asked = query(**{name: value for name, value in values.items() if name in _ASKED})
    searched: dict[str, object] = {
        shown: values[name]
        for name, shown in ((*((each, each) for each in (*LISTS, "batch")), ("context", "ctx")))
        if name in values
    }
    document = optimum_document(asked, searched, found)
    return _answered(document, partial(optimum_text, asked, found), unread)


def architectures() -> Document:
    """What there is to ask about, by generation."""
    from ecocompute_cube.analysis.known import architectures as known
    from ecocompute_cube.report.estimated import rounded

    return {name: rounded(generation) for name, generation in known().items()}


def datasets() -> Document:
    """What the answers rest on, session by session."""
    from ecocompute_cube.analysis.known import datasets as known

    return {"datasets": [each._asdict() for each in known()]}


def _understood(given: Given) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What the question says, and what parameters say in its place."""
    values: dict[str, Any] = {}
    unread: tuple[str, ...] = ()
    told = {name: value for name, value in given.items() if value is not None}
    if (text := told.pop(_QUESTION, None)) is not None:
        from ecocompute_cube.analysis.question import understand

        values, unread = understand(_words(text))
    if (length := told.pop("ctx", None)) is not None:
        told.setdefault("context", length)
    values = values | told
    if "params_b" not in values:
        raise UsageError(
            "params_b: nothing says how large the model is.",
            'Say so in the question, "7B on RTX 4090", or give params_b 7.',
        )
    return values, unread


def _words(text: object) -> str:
    if isinstance(text, str):
        return text
    raise UsageError("q: the question is no text.", 'Ask in words: "13B on A100, int8".')


def _form(name: object) -> str:
    if name in FORMS:
        return str(name)
    from ecocompute_cube.analysis.query import shown

    raise UsageError(f"form: {shown(name)} is none.", f"Known: {', '.join(FORMS)}.")


def _refuse_unknown(given: Given, known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            from ecocompute_cube.analysis.query import shown

            close = difflib.get_close_matches(name[:40], known, n=1)
            raise UsageError(
                f"{shown(name)}: there is no such parameter.",
                f"Did you mean {close[0]}?" if close else f"Known: {', '.join(known)}.",
            )


def _answered(document: Document, as_text: Callable[[], str], unread: tuple[str, ...]) -> Answered:
    return Answered({**document, "unread": list(unread)}, as_text, unread)
