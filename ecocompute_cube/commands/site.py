"""site: pages that answer without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.commands.terminal import say
from ecocompute_cube.commands.words import add, path

if TYPE_CHECKING:
    import argparse

    from ecocompute_cube.commands.words import Commands


def add_site(commands: Commands) -> None:
    """How ``site`` is spelled."""
    parser = add(
        commands,
        "site",
        "write a static site: what was measured, and the estimator in the browser",
        _site,
    )
    parser.add_argument(
        "--out", type=path, required=True, metavar="DIR", help="an empty folder, or an older site"
    )


def _site(options: argparse.Namespace) -> int:
    from ecocompute_cube.site.write import write_site

    for name in write_site(options.out):
        say(f"wrote {name}")
    return 0
