"""serve: the estimator over HTTP."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ecocompute_cube.commands.terminal import say
from ecocompute_cube.commands.words import add, path

if TYPE_CHECKING:
    from pathlib import Path

    from ecocompute_cube.commands.words import Commands

HOST: Final = "127.0.0.1"
PORT: Final = 8737
_PER_MINUTE: Final = 120  # as the published API has it
_MOST_PORT: Final = 65_535


def add_serve(commands: Commands) -> None:
    """How ``serve`` is spelled."""
    parser = add(commands, "serve", "answer estimate and optimize over HTTP", _serve)
    parser.add_argument(
        "--host", default=HOST, metavar="NAME", help=f"where to listen (default {HOST})"
    )
    parser.add_argument(
        "--port", type=port, default=PORT, metavar="N", help=f"0 for any (default {PORT})"
    )
    parser.add_argument(
        "--rate_limit",
        type=_count,
        metavar="N",
        help=f"requests a minute of one client, 0 for no limit (default {_PER_MINUTE}, and none "
        "on loopback)",
    )
    parser.add_argument(
        "--proxies",
        type=_count,
        default=0,
        metavar="N",
        help="how many proxies in front add to X-Forwarded-For (default 0: it is not believed)",
    )
    parser.add_argument(
        "--site", type=path, metavar="DIR", help="write the site there, and show it below /site/"
    )


def _written(folder: Path | None) -> Path | None:
    """The site, written anew with the paths of this server on its API page."""
    if folder is not None:
        from ecocompute_cube.service.openapi import PATHS
        from ecocompute_cube.site.write import write_site

        write_site(folder, PATHS)
    return folder


def port(text: str) -> int:
    """A port, or 0 for any."""
    number = _count(text)
    if number > _MOST_PORT:
        raise argparse.ArgumentTypeError(f"{text[:20]} is above {_MOST_PORT}")
    return number


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= len("1000000"):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a whole number from 0")


def _serve(options: argparse.Namespace) -> int:
    from ecocompute_cube.service.libraries import REST, require
    from ecocompute_cube.service.serving import is_loopback, listen, serve

    require(*REST)
    alone = is_loopback(options.host) and not options.proxies
    limit = options.rate_limit
    if limit is None:
        limit = 0 if alone else _PER_MINUTE
    listening = listen(options.host, options.port)
    if not is_loopback(options.host):
        say("others can ask here: there is no password and no encryption; put a proxy in front")
    serve(listening, limit, options.proxies, say, _written(options.site))
    return 0
