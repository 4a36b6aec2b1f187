"""Parameters of the doors: what each may be, and how it is read from a query or a body.

What a value may be stands here for those who ask (``/openapi.json``, a tool's input schema);
whether it is, :mod:`ecocompute_cube.analysis` decides.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from ecocompute_cube.analysis.cards import ARCHES
from ecocompute_cube.analysis.query import (
    LEAST_B,
    MOST_B,
    MOST_BATCH,
    MOST_CONTEXT,
    RUNTIMES,
    shown,
)
from ecocompute_cube.analysis.shapes import BITS
from ecocompute_cube.errors import UsageError
from ecocompute_cube.service.answers import (
    ESTIMATE,
    FORMS,
    LIMITS,
    LISTS,
    OPTIMIZE,
    PRICES,
    WHOLE_LISTS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Schema = dict[str, Any]

MOST_QUESTION: Final = 400  # characters
_MOST_FIELDS: Final = 64  # of a query
_MOST_LISTED: Final = 64
_WHOLE: Final = frozenset({"batch", "context", "ctx"})
_NUMBERS: Final = frozenset({"params_b", *LIMITS, *PRICES})


def _number(what: str) -> Schema:
    return {"type": "number", "exclusiveMinimum": 0, "description": what}


def _whole(most: int, what: str) -> Schema:
    return {"type": "integer", "minimum": 1, "maximum": most, "description": what}


def _list(items: Schema, what: str) -> Schema:
    most = {"minItems": 1, "maxItems": _MOST_LISTED}
    return {"type": "array", "items": items, **most, "description": what}


#: JSON schemas by name.
PARAMETERS: Final[Mapping[str, Schema]] = MappingProxyType(
    {
        "q": {
            "type": "string",
            "maxLength": MOST_QUESTION,
            "description": "the question in words: 13B on A100, int8, batch 32, 8k context",
        },
        "params_b": {
            "type": "number",
            "minimum": LEAST_B,
            "maximum": MOST_B,
            "description": "billions of parameters: 7 for a 7B",
        },
        "gpu": {"type": "string", "description": "a board: RTX 4090, A100, H200"},
        "arch": {
            "type": "string",
            "description": f"or its generation: {', '.join(ARCHES)}",
        },
        "precision": {"type": "string", "description": f"{', '.join(BITS)}; NF4 if left out"},
        "runtime": {"type": "string", "description": f"{', '.join(RUNTIMES)}; eager if left out"},
        "batch": _whole(MOST_BATCH, "rows at a time"),
        "context": _whole(MOST_CONTEXT, "tokens of prompt and output together"),
        "ctx": _whole(MOST_CONTEXT, "the same as context"),
        "form": {
            "type": "string",
            "enum": list(FORMS),
            "description": "ours, or the published three-parameter form",
        },
        "objective": {
            "type": "string",
            "description": "min_energy (if left out), min_latency, max_throughput, min_vram, "
            "min_cost or min_carbon",
        },
        **{name: _number(what) for name, what in {**LIMITS, **PRICES}.items()},
        "precisions": _list({"type": "string"}, "the precisions to look at"),
        "runtimes": _list({"type": "string"}, "the runtimes to look at"),
        "batches": _list(_whole(MOST_BATCH, "rows at a time"), "the batches to look at"),
        "contexts": _list(_whole(MOST_CONTEXT, "tokens"), "the contexts to look at"),
    }
)
assert set(PARAMETERS) == {*ESTIMATE, *OPTIMIZE}  # noqa: S101 (two tables, one set of names)


def from_query(text: str) -> dict[str, Any]:
    """Values of a URL's query as JSON has them; lists are repeated names or commas.

    Raises UsageError.
    """
    try:
        pairs = parse_qsl(
            text,
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except UnicodeDecodeError:
        raise UsageError("query: it is not in UTF-8.", "Encode it as UTF-8, then %XX.") from None
    except ValueError:
        raise UsageError(
            f"query: it has more than {_MOST_FIELDS} fields.", "Send a body by POST."
        ) from None
    given: dict[str, Any] = {}
    for name, value in pairs:
        if name in LISTS:
            read = _read(name)
            given.setdefault(name, []).extend(read(name, each) for each in value.split(","))
        elif name in given:
            raise UsageError(f"{shown(name)[1:-1]}: it is given twice.", "Give it once.")
        else:
            given[name] = _read(name)(name, value)
    return given


def _read(name: str) -> Callable[[str, str], object]:
    if name in _WHOLE or name in WHOLE_LISTS:
        return _as_whole
    return _as_number if name in _NUMBERS else lambda _, value: value


def _as_number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"{name}: {shown(text)} is not a number.", f"Give {name} as a number: 7 or 0.5."
        ) from None


def _as_whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"{name}: {shown(text)} is not a whole number.", f"Give {name} as a whole number: 32."
        ) from None
