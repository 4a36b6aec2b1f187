"""The schemas of energy.json as the page carries them: without words, and in keywords it knows."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Final

#: What templates/schema.js carries out.
RULES: Final = frozenset(
    {
        "$ref",
        "additionalProperties",
        "anyOf",
        "const",
        "enum",
        "exclusiveMinimum",
        "if",
        "items",
        "maxItems",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "oneOf",
        "pattern",
        "prefixItems",
        "required",
        "then",
        "type",
    }
)
_NAMED: Final = frozenset({"$defs", "properties"})  # their keys are names, not keywords
_WORDS: Final = frozenset({"$schema", "default", "description", "discriminator", "title"})
_VALUES: Final = frozenset({"const", "enum", "required", "type"})  # what they hold is no schema
_FILES: Final = {"1": "energy-1.x.schema.json", "2": "energy.schema.json"}


@cache
def page_schemas() -> dict[str, object]:
    """Each major version's schema. Raises ValueError for a keyword that is unknown to it."""
    folder = files("ecocompute_cube") / "schemas"
    return {
        version: compact(json.loads((folder / name).read_text(encoding="utf-8")))
        for version, name in _FILES.items()
    }


def compact(schema: object) -> object:
    """A schema without its words. Raises ValueError for an unknown keyword."""
    if isinstance(schema, list):
        return [compact(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    unknown = schema.keys() - RULES - _NAMED - _WORDS
    if unknown:
        raise ValueError(f"the page cannot check the schema keywords {', '.join(sorted(unknown))}")
    return {
        keyword: _part(keyword, value) for keyword, value in schema.items() if keyword not in _WORDS
    }


def _part(keyword: str, value: object) -> object:
    if keyword in _VALUES:
        return value
    if keyword in _NAMED and isinstance(value, dict):
        return {name: compact(part) for name, part in value.items()}
    return compact(value)
