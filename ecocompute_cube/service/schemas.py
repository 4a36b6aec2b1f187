"""JSON schemas of what the doors answer, read off the annotations of the answers themselves."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Union, get_args, get_origin

Schema = dict[str, Any]

_PLAIN: Final[Mapping[object, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
}


@functools.cache
def schema_of(annotation: Any) -> Schema:  # noqa: ANN401 (whatever stands behind a colon)
    """The schema of values of this type. Raises TypeError for types that no answer has."""
    plain = _PLAIN.get(annotation)
    found = {"type": plain} if plain else _composed(annotation)
    if found is None:
        raise TypeError(f"no schema for {annotation!r}")
    return found


def _composed(annotation: Any) -> Schema | None:  # noqa: ANN401
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return {"type": "string", "enum": list(inner)}
    if origin in (Union, types.UnionType):
        return _either(inner)
    if origin in (tuple, list):
        return _array(inner)
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(inner[1])}
    if isinstance(annotation, type) and hasattr(annotation, "_fields"):
        return record(fields_of(annotation))
    return None


def fields_of(kind: type) -> dict[str, Schema]:
    """Of a named tuple, by name."""
    return {name: schema_of(each) for name, each in typing.get_type_hints(kind).items()}


def record(fields: Mapping[str, Schema], optional: Sequence[str] = ()) -> Schema:
    """An object of these fields and no others."""
    return {
        "type": "object",
        "properties": dict(fields),
        "required": [name for name in fields if name not in optional],
        "additionalProperties": False,
    }


def _either(inner: Sequence[Any]) -> Schema:
    """Of one type or null, where that can be said in one word."""
    found = [schema_of(each) for each in inner]
    if all(each.keys() == {"type"} for each in found):
        return {"type": [each["type"] for each in found]}
    return {"anyOf": found}


def _array(inner: Sequence[Any]) -> Schema:
    if len(inner) == 1 or inner[-1] is ...:
        return {"type": "array", "items": schema_of(inner[0])}
    kinds = {str(each): schema_of(each) for each in inner}
    items = next(iter(kinds.values())) if len(kinds) == 1 else {"anyOf": list(kinds.values())}
    return {"type": "array", "items": items, "minItems": len(inner), "maxItems": len(inner)}
