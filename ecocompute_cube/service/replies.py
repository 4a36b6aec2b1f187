"""Schemas of the replies: what :mod:`ecocompute_cube.service.answers` makes, field by field."""

from __future__ import annotations

from typing import Any, Final

from ecocompute_cube.analysis.curves import Anchor
from ecocompute_cube.analysis.estimator import Estimate
from ecocompute_cube.analysis.known import Dataset, Generation
from ecocompute_cube.analysis.optimizer import Config, Optimum
from ecocompute_cube.analysis.published_form import PublishedEstimate
from ecocompute_cube.report.estimated import UNTOLD
from ecocompute_cube.service.parameters import PARAMETERS
from ecocompute_cube.service.schemas import Schema, fields_of, record, schema_of
from ecocompute_cube.validate import Checked

_STRING: Final[Schema] = {"type": "string"}
_UNREAD: Final[Schema] = {
    "type": "array",
    "items": _STRING,
    "description": "words of the question that were not understood",
}
_ASKED: Final[dict[str, Schema]] = {
    "params_b": {"type": "number"},
    "gpu": _STRING,
    "arch": _STRING,
}


def estimate_reply() -> Schema:
    """Of ``estimate``: by our curves, or by the published form."""
    told = {name: each for name, each in fields_of(Estimate).items() if name not in UNTOLD}
    ours = {**_head("curves"), **told, "anchors": _list(record(fields_of(Anchor)))}
    theirs = {**_head("published"), **fields_of(PublishedEstimate)}
    either = [record({**each, "unread": _UNREAD}) for each in (ours, theirs)]
    return {"type": "object", "oneOf": either}


def _head(form: str) -> dict[str, Schema]:
    asked = {
        **_ASKED,
        "precision": _STRING,
        "runtime": _STRING,
        "batch": {"type": "integer"},
        "ctx": {"type": "integer"},
    }
    return {"input": record(asked), "form": {"type": "string", "enum": [form]}}


def optimize_reply() -> Schema:
    """Of ``optimize``."""
    config = fields_of(Config)
    compared = ("energy_mj_per_token", "latency_ms", "throughput_tps", "vram_gb")
    against = record({name: {"type": "number"} for name in compared})
    searched = {
        name: {key: value for key, value in PARAMETERS[name].items() if key != "description"}
        for name in ("precisions", "runtimes", "batches", "contexts", "batch", "ctx")
    }
    fields = {
        "input": record({**_ASKED, **searched}, optional=tuple(searched)),
        **fields_of(Optimum),
        "alternatives": _list(
            record({**config, "vs_recommended": against}, optional=("vs_recommended",))
        ),
        "unread": _UNREAD,
    }
    return record(fields)


def architectures_reply() -> Schema:
    """Of ``architectures``: generations by name."""
    return {"type": "object", "additionalProperties": schema_of(Generation)}


def datasets_reply() -> Schema:
    """Of ``datasets``."""
    return record({"datasets": _list(schema_of(Dataset))})


def checked_reply(definitions: str = "#/$defs/{model}") -> Schema:
    """Of a document that was checked; with ``$defs``, referred to as ``definitions`` says."""
    return Checked.model_json_schema(mode="serialization", ref_template=definitions)


def mistake_reply() -> Schema:
    """Of every refusal."""
    fields: dict[str, Schema] = {
        "error": {**_STRING, "description": "what is wrong, in a sentence"},
        "fix": {**_STRING, "description": "what to do about it"},
        "parameter": {**_STRING, "description": "which parameter is meant"},
        "supported": {**_list(_STRING), "description": "what it may be"},
    }
    return record(fields, optional=("fix", "parameter", "supported"))


def _list(items: Schema) -> dict[str, Any]:
    return {"type": "array", "items": items}
