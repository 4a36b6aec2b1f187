"""The tools that assistants may call: how each is described, and what it answers.

Everything is :mod:`ecocompute_cube.service.answers`, as at the other doors. A mistake is a result
that says so, with its remedy: the assistant reads it and asks again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ecocompute_cube.errors import DocumentInvalid, UsageError
from ecocompute_cube.service import answers
from ecocompute_cube.service.parameters import PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ecocompute_cube.report.estimated import Document

Schema = dict[str, Any]

_QUESTION: Final = "query"  # what the published tool calls ``q``
_REPORT: Final = "report"


class Told(NamedTuple):
    """One answer, for programs and for people."""

    document: Document
    text: str


class Tool(NamedTuple):
    """One tool."""

    name: str
    title: str
    description: str
    takes: Callable[[], Schema]
    gives: Callable[[], Schema]
    answer: Callable[[Mapping[str, Any]], Told]


def call(name: str, given: Mapping[str, Any]) -> Told:
    """The answer of one tool. Raises UsageError."""
    for tool in TOOLS:
        if tool.name == name:
            return tool.answer(given)
    known = ", ".join(tool.name for tool in TOOLS)
    raise UsageError("There is no such tool.", f"There are: {known}.")


# What is asked


def _of(names: Sequence[str]) -> Callable[[], Schema]:
    """An object of these parameters, the question under its published name."""

    def schema() -> Schema:
        known = {**PARAMETERS, _QUESTION: PARAMETERS["q"]}
        listed = [_QUESTION, *(name for name in names if name != "q")]
        return {
            "type": "object",
            "properties": {name: known[name] for name in listed},
            "additionalProperties": False,
        }

    return schema


def _asked(given: Mapping[str, Any]) -> dict[str, Any]:
    told = dict(given)
    if _QUESTION in told:
        told["q"] = told.pop(_QUESTION)
    return told


def _nothing() -> Schema:
    return {"type": "object", "additionalProperties": False}


def _a_report() -> Schema:
    what = "an energy.json, as an object or as its text"
    return {
        "type": "object",
        "properties": {_REPORT: {"type": ["object", "string"], "description": what}},
        "required": [_REPORT],
        "additionalProperties": False,
    }


# What is answered


def _estimate(given: Mapping[str, Any]) -> Told:
    found = answers.estimate(_asked(given))
    return Told(found.document, found.as_text())


def _optimize(given: Mapping[str, Any]) -> Told:
    found = answers.optimize(_asked(given))
    return Told(found.document, found.as_text())


def _architectures(given: Mapping[str, Any]) -> Told:
    _refuse_others(given)
    found = answers.architectures()
    return Told(found, "".join(f"{line}\n" for line in _listed(found)))


def _listed(found: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, each in found.items():
        known = ", ".join(each["precisions"]) or "nothing measured"
        lines.append(f"{name}: {each['label']}, answered by {each['gpu']}; {known}")
    return lines


def _check(given: Mapping[str, Any]) -> Told:
    from ecocompute_cube.analysis.documents import parse_document
    from ecocompute_cube.validate import as_text, check_document

    _refuse_others(given, _REPORT)
    report = given.get(_REPORT)
    if not isinstance(report, str | dict):
        raise UsageError("report: there is none.", "Give an energy.json as an object or as text.")
    text = report if isinstance(report, str) else json.dumps(report)
    try:
        document = parse_document(text.encode(errors="surrogatepass"), _REPORT)
    except DocumentInvalid as error:
        raise UsageError(f"report: {error.cause}", error.fix) from None
    checked = check_document(document, _REPORT)
    return Told(checked.model_dump(mode="json"), as_text([checked]))


def _refuse_others(given: Mapping[str, Any], *known: str) -> None:
    for name in given:
        if name not in known:
            raise UsageError(f"{name[:40]}: there is no such parameter.", "Leave it out.")


# Schemas of answers: read off their types, which takes imports that no answer needs


def _estimate_reply() -> Schema:
    from ecocompute_cube.service.replies import estimate_reply

    return estimate_reply()


def _optimize_reply() -> Schema:
    from ecocompute_cube.service.replies import optimize_reply

    return optimize_reply()


def _architectures_reply() -> Schema:
    from ecocompute_cube.service.replies import architectures_reply

    return architectures_reply()


def _checked_reply() -> Schema:
    from ecocompute_cube.service.replies import checked_reply

    return checked_reply()


TOOLS: Final = (
    Tool(
        "should_i_quantize",
        "Should I quantize?",
        "Whether quantizing a language model saves energy per token on a board that need not be at "
        "hand, by how much, with the range of other sessions. Every answer says what it rests on: "
        "measured, interpolated, estimated, or unavailable with a reason. Give params_b and gpu "
        "(or arch), or the whole question in words as query. Quote basis, range and "
        "recommendation; 'depends' means that the range holds zero.",
        _of(answers.ESTIMATE),
        _estimate_reply,
        _estimate,
    ),
    Tool(
        "recommend_config",
        "Recommend a configuration",
        "Which precision, runtime, batch and context of a model serve an aim best on a board, "
        "within limits on latency, memory, throughput and perplexity. Gives the recommended one, "
        "alternatives, the Pareto front, or what blocks every combination. Each figure is labelled "
        "measured or modelled: say which. Cost needs a price, carbon a factor: ask for it.",
        _of(answers.OPTIMIZE),
        _optimize_reply,
        _optimize,
    ),
    Tool(
        "list_architectures",
        "List architectures",
        "The generations of boards that can be asked about, which board stands for each, and what "
        "was measured of it: precisions, sizes, sessions, and the size where quantizing begins to "
        "save.",
        _nothing,
        _architectures_reply,
        _architectures,
    ),
    Tool(
        "check_report",
        "Check a report",
        "Checks an energy.json of EcoCompute (ours, or the published 1.x format): its schema, the "
        "clauses of the measuring protocol, and whether its figures contradict each other. Figures "
        "are not recomputed: the journal that they come from is not part of the document.",
        _a_report,
        _checked_reply,
        _check,
    ),
)
