"""mcp: the estimator as tools of an assistant."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ecocompute_cube.commands.serving import HOST, port
from ecocompute_cube.commands.terminal import say
from ecocompute_cube.commands.words import add

if TYPE_CHECKING:
    from ecocompute_cube.commands.words import Commands

PORT: Final = 8738
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


def add_mcp(commands: Commands) -> None:
    """How ``mcp`` is spelled."""
    what = "tools for an assistant (Model Context Protocol): on standard input and output"
    parser = add(commands, "mcp", what, _mcp)
    parser.add_argument("--http", action="store_true", help="over HTTP instead, below /mcp")
    parser.add_argument(
        "--host", default=HOST, metavar="NAME", help=f"where to listen (default {HOST})"
    )
    parser.add_argument(
        "--port", type=port, default=PORT, metavar="N", help=f"0 for any (default {PORT})"
    )
    parser.add_argument(
        "--allowed_host",
        action="append",
        metavar="NAME",
        help="a name under which this is reached, besides those of this machine's loopback",
    )


def _mcp(options: argparse.Namespace) -> int:
    from ecocompute_cube.service.libraries import REST, TOOLS, require

    require(*TOOLS, *(REST if options.http else ()))
    from ecocompute_cube.service.assistant import serve_http, serve_stdio

    if not options.http:
        serve_stdio()
        return 0
    from ecocompute_cube.service.serving import is_loopback, listen

    listening = listen(options.host, options.port)
    if not is_loopback(options.host):
        say("others can ask here: there is no password and no encryption; put a proxy in front")
    serve_http(listening, (*_LOOPBACK, *(options.allowed_host or ())), say)
    return 0
