"""The tools over the Model Context Protocol: on standard input and output, or over HTTP."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from ecocompute_cube import __version__
from ecocompute_cube.errors import EcoError, Interrupted
from ecocompute_cube.model.base import printable
from ecocompute_cube.service.tools import TOOLS, call

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Sequence

    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.types import Receive, Scope, Send

NAME: Final = "ecocompute"
PATH: Final = "/mcp"
_MOST_BODY: Final = 262_144  # bytes: a report within a call, its quotes escaped
_INSTRUCTIONS: Final = (
    "Answers about the energy of quantized language models, from packaged measurements; no board "
    "and no network is needed. Nothing is extrapolated: where the data support no range there is a "
    "reason in place of a number, and it should be passed on."
)


def tool_server() -> Server[Any, Any]:
    """A server of all tools."""
    server: Server[Any, Any] = Server(NAME, version=__version__, instructions=_INSTRUCTIONS)
    server.list_tools()(_listed)  # type: ignore[no-untyped-call]
    server.call_tool(validate_input=False)(_called)  # mistakes are told by the answers themselves
    return server


async def _listed() -> list[types.Tool]:
    only_reads = types.ToolAnnotations(
        readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=False
    )
    return [
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            inputSchema=tool.takes(),
            outputSchema=tool.gives(),
            annotations=only_reads,
        )
        for tool in TOOLS
    ]


async def _called(name: str, given: dict[str, Any]) -> types.CallToolResult:
    try:
        told = await anyio.to_thread.run_sync(call, name, given)
    except EcoError as error:
        said = types.TextContent(type="text", text=printable(str(error)))
        return types.CallToolResult(content=[said], isError=True)
    said = types.TextContent(type="text", text=told.text)
    return types.CallToolResult(content=[said], structuredContent=told.document)


def serve_stdio() -> None:
    """Answer until standard input ends. Nothing but the protocol goes to standard output.

    A signal ends it at once: the thread that waits for a line of input cannot be woken, so that
    whoever waited for it would wait for ever. There is nothing to lose.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, lambda *_: os._exit(Interrupted.exit_status))
    anyio.run(_over_stdio)


async def _over_stdio() -> None:
    server = tool_server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def http_application(hosts: Sequence[str]) -> Starlette:
    """The tools below /mcp, each request by itself; for these names in its Host header alone.

    A page that has its own name point at this machine could ask otherwise (DNS rebinding).
    """
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.applications import Starlette
    from starlette.routing import Route

    allowed = [pattern for host in hosts for pattern in (host, f"{host}:*")]
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in allowed]
    manager = StreamableHTTPSessionManager(
        tool_server(),
        json_response=True,
        stateless=True,
        security_settings=TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=origins),
        max_request_body_size=_MOST_BODY,
    )

    @contextlib.asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(routes=[Route(PATH, _Door(manager))], lifespan=running)


class _Door:
    """An application of its own kind: a function would be called with a request."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)


def serve_http(listening: socket.socket, hosts: Sequence[str], say: Callable[[str], None]) -> None:
    """Answer over HTTP until a signal comes."""
    from ecocompute_cube.service.serving import run

    logging.getLogger("mcp").setLevel(logging.ERROR)  # each refused request would be a line
    run(http_application(hosts), listening, PATH, say, lifespan="on")
