"""The description of the API, made from the tables that the answers and the parameters are."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from ecocompute_cube import __version__
from ecocompute_cube.service.answers import ESTIMATE, LISTS, OPTIMIZE
from ecocompute_cube.service.parameters import PARAMETERS
from ecocompute_cube.service.replies import (
    architectures_reply,
    checked_reply,
    datasets_reply,
    estimate_reply,
    mistake_reply,
    optimize_reply,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

Document = dict[str, Any]

#: What there is, and one line of purpose each.
PATHS: Final[dict[str, str]] = {
    "/v1/estimate": "does quantizing save energy on a board that is not here",
    "/v1/optimize": "which precision, runtime and batch serve an aim best, within limits",
    "/v1/architectures": "what there is to ask about, by generation of boards",
    "/v1/datasets": "the sessions of measurements that the answers rest on",
    "/v1/validate": "an energy.json, checked against its schema and its own arithmetic",
    "/health": "whether this service is up",
    "/openapi.json": "this description",
    "/": "this list",
}
_OBJECT: Final[Document] = {"type": "object"}


@functools.lru_cache(maxsize=16)
def openapi(server: str) -> Document:
    """OpenAPI 3.1 of every path, as served from this address."""
    asked = {"/v1/estimate": ESTIMATE, "/v1/optimize": OPTIMIZE}
    checked = checked_reply("#/components/schemas/{model}")
    parts = checked.pop("$defs")
    replies = {
        "/v1/estimate": estimate_reply(),
        "/v1/optimize": optimize_reply(),
        "/v1/architectures": architectures_reply(),
        "/v1/datasets": datasets_reply(),
        "/v1/validate": checked,
    }
    paths: Document = {}
    for path, what in PATHS.items():
        reply, names = replies.get(path, _OBJECT), asked.get(path, ())
        name = path.strip("/").replace("/", "_").replace(".", "_") or "index"
        refusals = ["400", "429"] if names else ["429"]
        get = _operation(f"get_{name}", what, reply, refusals) | {"parameters": _parameters(names)}
        posted = _operation(f"post_{name}", what, reply, ["400", "413", "415", "429"])
        if path == "/v1/validate":
            paths[path] = {"post": posted | _body(_OBJECT)}
        elif names:
            paths[path] = {"get": get, "post": posted | _body(_given(names))}
        else:
            paths[path] = {"get": get}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "EcoCompute",
            "version": __version__,
            "description": "Does quantizing a language model save energy? From what was measured.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": server}],
        "paths": paths,
        "components": {"schemas": {"Mistake": mistake_reply(), **parts}},
    }


def _operation(name: str, what: str, reply: Document, refusals: Iterable[str]) -> Document:
    refused = _json({"$ref": "#/components/schemas/Mistake"})
    return {
        "operationId": name,
        "summary": what[0].upper() + what[1:],
        "responses": {
            "200": {"description": "the answer", **_json(reply)},
            **{status: {"description": "why not", **refused} for status in refusals},
        },
    }


def _json(schema: Document) -> Document:
    return {"content": {"application/json": {"schema": schema}}}


def _parameters(names: Iterable[str]) -> list[Document]:
    return [
        {
            "name": name,
            "in": "query",
            "schema": {k: v for k, v in PARAMETERS[name].items() if k != "description"},
            "description": PARAMETERS[name]["description"],
            **({"style": "form", "explode": False} if name in LISTS else {}),
        }
        for name in names
    ]


def _given(names: Iterable[str]) -> Document:
    return {
        "type": "object",
        "properties": {name: PARAMETERS[name] for name in names},
        "additionalProperties": False,
    }


def _body(schema: Document) -> Document:
    return {"requestBody": {"required": True, **_json(schema)}}
