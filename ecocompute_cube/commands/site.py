"""site: pages that answer without a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.commands.terminal import say
from ecocompute_cube.commands.words import add, folder

if TYPE_CHECKING:
    import argparse

    from ecocompute_cube.commands.words import Commands

_SITE: Final = Path("workspace/site")


def add_site(commands: Commands) -> None:
    """How ``site`` is spelled."""
    parser = add(
        commands,
        "site",
        "write a static site: what was measured, and the estimator in the browser",
        _site,
    )
    folder(parser, "--out", _SITE, "an empty folder, a new one, or an older site")


def _site(options: argparse.Namespace) -> int:
    from ecocompute_cube.site.write import write_site

    for name in write_site(options.out):
        say(f"wrote {name}")
    return 0
