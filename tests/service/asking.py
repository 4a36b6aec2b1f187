"""A client of the application, without a socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx

from ecocompute_cube.service.guard import Guard
from ecocompute_cube.service.rest import application

if TYPE_CHECKING:
    from ecocompute_cube.service.limits import RateLimit

_APPLICATION = application()


def ask(
    method: str,
    path: str,
    *,
    limit: RateLimit | None = None,
    proxies: int = 0,
    app: Any = _APPLICATION,  # noqa: ANN401 (any ASGI application)
    **more: Any,  # noqa: ANN401 (as httpx takes it)
) -> httpx.Response:
    """One request through the guard."""

    async def asked() -> httpx.Response:
        guarded = Guard(app, limit, proxies)
        transport = httpx.ASGITransport(app=guarded, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://eco.test") as client:
            return await client.request(method, path, **more)

    return asyncio.run(asked())


def get(path: str, **query: Any) -> httpx.Response:  # noqa: ANN401
    """GET with a query."""
    return ask("GET", path, params=query)


def post(path: str, document: object) -> httpx.Response:
    """POST with a document."""
    return ask("POST", path, json=document)
