"""What stands between a socket and the answers: sizes, rates, and the headers of every reply."""

from __future__ import annotations

import hashlib
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException

from ecocompute_cube.service.limits import RateLimit, client_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping
    from typing import TypeAlias

    Scope: TypeAlias = MutableMapping[str, Any]
    Message: TypeAlias = MutableMapping[str, Any]
    Receive: TypeAlias = Callable[[], Awaitable[Message]]
    Send: TypeAlias = Callable[[Message], Awaitable[None]]
    App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
    Headers: TypeAlias = list[tuple[bytes, bytes]]

MOST_BODY: Final = 65_536  # bytes: an energy.json has a tenth of it
_ANYBODY: Final[Headers] = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"etag, retry-after"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"cross-origin"),
]
_NOTHING_RUNS: Final = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_PREFLIGHT: Final[Headers] = [
    (b"access-control-allow-methods", b"GET, HEAD, POST, OPTIONS"),
    (b"access-control-allow-headers", b"content-type"),
    (b"access-control-max-age", b"86400"),
]
_A_WHILE: Final = (b"cache-control", b"public, max-age=300")
_NEVER: Final = (b"cache-control", b"no-store")
_JSON: Final = b"application/json"


class Guard:
    """An application behind it is asked only what it may be asked."""

    def __init__(self, app: App, limit: RateLimit | None, proxies: int = 0) -> None:
        """``proxies``: how many stand in front and are believed about who asks."""
        self._app = app
        self._limit = limit
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI calls it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = _headers(scope)
        wait_s = self._wait_s(scope, asked)
        if wait_s:
            again = (b"retry-after", str(wait_s).encode())
            await _refuse(
                send,
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many requests",
                f"Ask again in {wait_s} s.",
                again,
            )
        elif scope["method"] == "OPTIONS":
            await _send(send, HTTPStatus.NO_CONTENT, [*_ANYBODY, *_PREFLIGHT], b"")
        else:
            await self._app(scope, _counted(receive, asked), _dressed(send, scope, asked))

    def _wait_s(self, scope: Scope, asked: Mapping[bytes, list[bytes]]) -> int:
        if self._limit is None:
            return 0
        peer = scope["client"][0] if scope.get("client") else ""
        return self._limit.wait_s(client_of(peer, asked.get(b"x-forwarded-for", ()), self._proxies))


def _headers(scope: Scope) -> Mapping[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name, []).append(value)
    return found


def _counted(receive: Receive, asked: Mapping[bytes, list[bytes]]) -> Receive:
    """Raises HTTPException at the first byte too many, or before one if that is announced."""
    announced = asked.get(b"content-length", [b"0"])[0]
    seen = MOST_BODY + 1 if announced.isdigit() and int(announced[:12]) > MOST_BODY else 0

    async def counting() -> Message:
        nonlocal seen
        if seen <= MOST_BODY:
            message = await receive()
            seen += len(message.get("body", b""))
        if seen > MOST_BODY:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return message

    return counting


def _dressed(send: Send, scope: Scope, asked: Mapping[bytes, list[bytes]]) -> Send:
    """Adds the headers; an answer that has not changed since is not sent again.

    Answers come in one piece. Whatever does not (a file of the site) has its own tag.
    """
    start: Message = {}

    async def dressing(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
            return
        if start:
            body = message.get("body", b"")
            whole = not message.get("more_body", False)
            first = _start(start, scope["method"], body if whole else None)
            start.clear()
            if whole and first["status"] == HTTPStatus.OK and _tag(first) in _known(asked):
                first = {
                    **first,
                    "status": HTTPStatus.NOT_MODIFIED,
                    "headers": _less(first["headers"]),
                }
                message = {**message, "body": b""}
            await send(first)
        await send(message)

    return dressing


def _start(start: Message, method: str, body: bytes | None) -> Message:
    headers: Headers = [*start["headers"], *_ANYBODY]
    told = dict(start["headers"])
    if told.get(b"content-type", _JSON).startswith(_JSON):
        headers.append(_NOTHING_RUNS)
    cached = start["status"] == HTTPStatus.OK and method in ("GET", "HEAD")
    if b"cache-control" not in told:
        headers.append(_A_WHILE if cached else _NEVER)
    if cached and body and b"etag" not in told:
        digest = hashlib.blake2b(body, digest_size=12).hexdigest()
        headers.append((b"etag", f'"{digest}"'.encode()))
    return {**start, "headers": headers}


def _tag(start: Message) -> bytes:
    headers: Headers = start["headers"]
    return dict(headers).get(b"etag", b"")


def _known(asked: Mapping[bytes, list[bytes]]) -> set[bytes]:
    told = b",".join(asked.get(b"if-none-match", ()))
    return {tag.strip().removeprefix(b"W/") for tag in told.split(b",")} - {b""}


def _less(headers: Headers) -> Headers:
    return [each for each in headers if not each[0].startswith(b"content-")]


async def _refuse(
    send: Send, status: int, error: str, fix: str, *headers: tuple[bytes, bytes]
) -> None:
    body = json.dumps({"error": error, "fix": fix}).encode()
    plain = [(b"content-type", _JSON), (b"content-length", str(len(body)).encode())]
    await _send(send, status, [*plain, *headers, *_ANYBODY, _NOTHING_RUNS, _NEVER], body)


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
