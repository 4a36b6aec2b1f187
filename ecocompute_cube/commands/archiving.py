"""bundle, upload and submit: from results to what others can cite."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.commands.terminal import say, write
from ecocompute_cube.commands.words import (
    REPORT,
    RESULTS,
    add,
    folder,
    path,
    signers,
)
from ecocompute_cube.errors import UsageError

if TYPE_CHECKING:
    from ecocompute_cube.commands.words import Commands

_SUBMISSION: Final = Path("workspace/submission")
_LAYOUTS: Final = ("standard", "mlcommons")


def add_bundle(commands: Commands) -> None:
    """How ``bundle`` is spelled."""
    parser = add(
        commands, "bundle", "put results and what cites and checks them in one place", _bundle
    )
    parser.add_argument(
        "results", type=path, nargs="?", metavar="RESULTS", help=f"default {RESULTS}"
    )
    parser.add_argument(
        "--out", type=path, metavar="DIR", help="where to; a zip file if it ends in .zip"
    )
    folder(parser, "--report_dir", REPORT, "pages to take if they are of these runs")
    parser.add_argument("--layout", choices=_LAYOUTS, default=_LAYOUTS[0])
    parser.add_argument(
        "--about", type=path, metavar="FILE", help="title, creators, licence and more, in TOML"
    )
    parser.add_argument("--title", metavar="TEXT", help="in place of one made from the runs")
    parser.add_argument(
        "--creator",
        action="append",
        metavar="NAME",
        help="'Family, Given; ORCID; affiliation'; once for each creator",
    )
    parser.add_argument("--license", metavar="ID", help="of the data, by SPDX (CC-BY-4.0)")
    parser.add_argument("--force", action="store_true", help="replace another bundle")
    parser.add_argument(
        "--check", type=path, metavar="BUNDLE", help="check a bundle, folder or zip; write nothing"
    )
    signers(parser)


def add_upload(commands: Commands) -> None:
    """How ``upload`` is spelled."""
    parser = add(commands, "upload", "bring a bundle to Zenodo: a draft in its sandbox", _upload)
    parser.add_argument("bundle", type=path, metavar="BUNDLE", help="a folder or a zip file")
    parser.add_argument(
        "--production", action="store_true", help="Zenodo itself, in place of its sandbox"
    )
    parser.add_argument(
        "--publish", action="store_true", help="make it public, which cannot be undone"
    )
    parser.add_argument(
        "--new_version", metavar="RECORD", help="as the next version of a record of yours"
    )


def add_submit(commands: Commands) -> None:
    """How ``submit`` is spelled."""
    parser = add(
        commands, "submit", "make a contribution to the published dataset; send nothing", _submit
    )
    parser.add_argument(
        "place", type=path, nargs="?", default=RESULTS, metavar="PATH", help=f"default {RESULTS}"
    )
    folder(parser, "--out", _SUBMISSION, "where it goes")
    parser.add_argument("--name", metavar="NAME", help="who contributes")
    parser.add_argument("--contact", metavar="TEXT", help="how they are reached")
    parser.add_argument("--archive", metavar="URL", help="where the bundle can be had: a DOI")
    parser.add_argument("--force", action="store_true", help="replace what is there")


def _bundle(options: argparse.Namespace) -> int:
    if options.check is not None:
        return _check_bundle(options)
    from ecocompute_cube.archive.about import Wishes, parse_creator, read_wishes
    from ecocompute_cube.archive.bundle import Request, as_text, bundle
    from ecocompute_cube.model.bundle import Layout

    if options.out is None:
        raise UsageError("Where the bundle goes is not said.", "Add --out DIR, or --out FILE.zip.")
    wishes = read_wishes(options.about) if options.about else Wishes()
    people = tuple(map(parse_creator, options.creator or ()))
    wishes = wishes._replace(
        title=options.title or wishes.title,
        creators=people or wishes.creators,
        license=options.license or wishes.license,
    )
    request = Request(
        results=options.results or RESULTS,
        out=options.out,
        report_dir=options.report_dir,
        layout=Layout(options.layout),
        wishes=wishes,
        force=options.force,
    )
    done = bundle(request, say)
    write(as_text(done, options.out))
    return 0


def _check_bundle(options: argparse.Namespace) -> int:
    from ecocompute_cube.archive.check import as_text, check

    if options.out is not None or options.results is not None:
        raise UsageError(
            "--check looks at one bundle and makes none.", "Type: ecocompute bundle --check BUNDLE"
        )
    checked = check(options.check, options.signers, say)
    write(as_text(checked))
    return checked.exit_status


def _upload(options: argparse.Namespace) -> int:
    from ecocompute_cube.archive.bar import bar
    from ecocompute_cube.archive.service import SANDBOX, ZENODO, Client, token_of
    from ecocompute_cube.archive.upload import Wanted, as_text, upload

    service = ZENODO if options.production else SANDBOX
    client = Client(service, token_of(service, os.environ), say)
    wanted = Wanted(options.bundle, options.publish, options.new_version)
    with contextlib.closing(client):
        done = upload(wanted, client, say, bar(sys.stderr, say))
    write(as_text(done))
    return 0


def _submit(options: argparse.Namespace) -> int:
    from ecocompute_cube.archive.community import Person
    from ecocompute_cube.archive.submit import as_text, submit

    given = {key: getattr(options, key) for key in Person._fields}
    person = Person(**{key: text for key, text in given.items() if text})
    done = submit(options.place, options.out, person, say, force=options.force)
    write(as_text(done, options.out))
    return 0
