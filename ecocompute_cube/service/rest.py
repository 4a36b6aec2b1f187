"""The estimator over HTTP: the published API's paths, parameter and field names.

::

    GET|POST /v1/estimate        does quantizing save energy
    GET|POST /v1/optimize        which configuration serves an aim best
    GET      /v1/architectures   what there is to ask about
    GET      /v1/datasets        what the answers rest on
    POST     /v1/validate        an energy.json, checked
    GET      /health, /openapi.json, /

Every answer comes from :mod:`ecocompute_cube.service.answers`; here values are read off a request
and a document is written. Nothing is kept of who asked what.
"""

from __future__ import annotations

import difflib
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from ecocompute_cube import __version__
from ecocompute_cube.analysis.documents import parse_document
from ecocompute_cube.errors import DocumentInvalid, EcoError, UsageError
from ecocompute_cube.service import answers
from ecocompute_cube.service.guard import MOST_BODY
from ecocompute_cube.service.mistakes import mistake
from ecocompute_cube.service.openapi import PATHS, openapi
from ecocompute_cube.service.parameters import from_query

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

    from ecocompute_cube.service.answers import Given

SITE: Final = "/site"
_JSON: Final = "application/json"
#: Whatever the environment says of collectors: nobody is told who asks what.
_NO_TELEMETRY: Final[TelemetryConfig] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "auto_configure": False,
}
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def application(site: Path | None = None) -> FastAPI:
    """All doors, and below /site/ the files of a folder; without the guard that limits them."""
    app = FastAPI(
        openapi_url=None,  # the document is ours: its parameters are the table's
        docs_url=None,  # would fetch its scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
        exception_handlers={
            EcoError: _mistaken,
            HTTPException: _refused,
            Exception: _failed,
        },
    )
    for path, methods, door in (
        ("/v1/estimate", ["GET", "POST"], _estimate),
        ("/v1/optimize", ["GET", "POST"], _optimize),
        ("/v1/architectures", ["GET"], _architectures),
        ("/v1/datasets", ["GET"], _datasets),
        ("/v1/validate", ["POST"], _validate),
        ("/health", ["GET"], _health),
        ("/openapi.json", ["GET"], _openapi),
        ("/", ["GET"], _index),
    ):
        app.router.routes.append(Route(path, door, methods=methods))
    if site is not None:
        app.mount(SITE, StaticFiles(directory=site, html=True))
    return app


# Doors


async def _estimate(request: Request) -> Response:
    return _answer(answers.estimate(await _given(request)).document)


async def _optimize(request: Request) -> Response:
    given = await _given(request)
    found = await run_in_threadpool(answers.optimize, given)  # thousands of combinations, perhaps
    return _answer(found.document)


async def _architectures(request: Request) -> Response:
    return _answer(answers.architectures())


async def _datasets(request: Request) -> Response:
    return _answer(answers.datasets())


async def _validate(request: Request) -> Response:
    from ecocompute_cube.validate import check_document

    document = await _document(request)
    checked = await run_in_threadpool(check_document, document, "body")
    return _answer(checked.model_dump(mode="json"))


async def _health(request: Request) -> Response:
    return _answer({"status": "ok", "version": __version__}, {"cache-control": "no-store"})


async def _openapi(request: Request) -> Response:
    return _answer(openapi(str(request.base_url).rstrip("/")))


async def _index(request: Request) -> Response:
    return _answer({"name": "EcoCompute", "version": __version__, "endpoints": PATHS})


# Requests


async def _given(request: Request) -> Given:
    """Parameters. Raises UsageError."""
    if request.method == "POST":
        if request.url.query:
            raise UsageError("query: a POST has its parameters in its body.", "Put them there.")
        return await _document(request)
    return from_query(request.scope["query_string"].decode("latin-1"))


async def _document(request: Request) -> dict[str, Any]:
    """The body, which must be one JSON object. Raises UsageError."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON:
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    try:
        return parse_document(await request.body(), "body")
    except ClientDisconnect:
        raise UsageError("body: it ended too soon.", "Send all of it.") from None  # to nobody
    except DocumentInvalid as error:
        raise UsageError(f"body: {error.cause}", error.fix) from None


# Replies


def _answer(document: object, headers: dict[str, str] | None = None) -> Response:
    return Response(_written(document), media_type=_JSON, headers=headers)


def _written(document: object) -> bytes:
    return _ENCODER.encode(document).encode(errors="backslashreplace")  # halves of surrogates


async def _mistaken(request: Request, error: Exception) -> Response:
    assert isinstance(error, EcoError)  # noqa: S101 (as registered)
    return Response(_written(mistake(error)), HTTPStatus.BAD_REQUEST, media_type=_JSON)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 (as registered)
    told = {"error": HTTPStatus(error.status_code).phrase, "fix": "See /openapi.json."}
    if error.status_code == HTTPStatus.NOT_FOUND:
        told = {"error": "There is no such path.", "fix": _meant(request.url.path)}
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = dict(error.headers or {}).get("Allow", "")
        told = {"error": f"{request.method} is not for this path.", "fix": f"Use {allowed}."}
    elif error.status_code == HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
        told = {
            "error": "body: it is not called JSON.",
            "fix": f"Send it with content-type: {_JSON}.",
            "parameter": "body",
        }
    elif error.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        told = {
            "error": "body: it is too large.",
            "fix": f"Send {MOST_BODY} bytes at most.",
            "parameter": "body",
        }
    return Response(_written(told), error.status_code, dict(error.headers or {}), _JSON)


def _meant(path: str) -> str:
    close = difflib.get_close_matches(path[:60], PATHS, n=1)
    return f"Did you mean {close[0]}?" if close else f"There are: {', '.join(PATHS)}."


async def _failed(request: Request, error: Exception) -> Response:
    told = {"error": "This is a fault of ours.", "fix": "Report it, with what was asked."}
    return Response(_written(told), HTTPStatus.INTERNAL_SERVER_ERROR, media_type=_JSON)
