"""A socket, and uvicorn on it."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time
from typing import TYPE_CHECKING, Final, Literal

from ecocompute_cube.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ecocompute_cube.service.guard import App

_BACKLOG: Final = 1024
_IDLE_S: Final = 30  # a connection that asks nothing is closed
_LAST_ANSWERS_S: Final = 5


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any free one. Raises UsageError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"Nothing can listen at port {port} of '{host}' ({reason}).",
            "Give another --port (0 takes any that is free) or another --host.",
        ) from None


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can ask there."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def address_of(listening: socket.socket) -> str:
    """As one types it into a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    listening: socket.socket,
    per_minute: int,
    proxies: int,
    say: Callable[[str], None],
    site: Path | None = None,
) -> None:
    """The estimator, and a site of files beside it, until a signal comes."""
    from ecocompute_cube.service.guard import Guard
    from ecocompute_cube.service.limits import RateLimit
    from ecocompute_cube.service.rest import SITE, application

    limit = RateLimit(per_minute, time.monotonic) if per_minute else None
    if site is not None:
        say(f"the site is at {address_of(listening)}{SITE}/")
    run(Guard(application(site), limit, proxies), listening, "", say)


def run(
    app: App,
    listening: socket.socket,
    path: str,
    say: Callable[[str], None],
    lifespan: Literal["on", "off"] = "off",
) -> None:
    """Answer until a signal comes; what was asked before it is still answered."""
    import uvicorn

    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan=lifespan,
        loop="uvloop",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_LAST_ANSWERS_S,
    )
    say(f"answering at {address_of(listening)}{path} (Ctrl-C ends it)")
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn sends on the signal that ended it
        uvicorn.Server(config).run(sockets=[listening])
