"""gate: does a change cost energy, on a runner that has a board."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Final

from ecocompute_cube.commands.terminal import say, write
from ecocompute_cube.commands.words import add, path

if TYPE_CHECKING:
    from ecocompute_cube.commands.words import Commands

_SIDE: Final = "a report.json, a folder that holds one, or a folder of runs"
_TOLERANCE_PCT: Final = 3.0  # what boards of one kind, and restarts, have been seen to differ by


def add_gate(commands: Commands) -> None:
    """How ``gate`` is spelled."""
    parser = add(
        commands,
        "gate",
        "does a change cost energy? Ratios within runs, against at least three other sessions",
        _gate,
    )
    parser.add_argument("head", type=path, metavar="HEAD", help=_SIDE)
    parser.add_argument(
        "--baseline",
        type=path,
        nargs="+",
        metavar="BASE",
        help="the sessions to compare with, likewise; without: contrasts between models of HEAD",
    )
    parser.add_argument(
        "--tolerance",
        type=_percent,
        default=_TOLERANCE_PCT,
        metavar="PERCENT",
        help=f"changes that do not matter (default {_TOLERANCE_PCT:g})",
    )
    parser.add_argument(
        "--format",
        choices=("text", "json", "markdown"),
        default="text",
        help="how the answer is written",
    )
    parser.add_argument(
        "--json",
        action="store_const",
        const="json",
        dest="format",
        help="the same as --format json",
    )


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of percent above zero")
    return value


def _gate(options: argparse.Namespace) -> int:
    from ecocompute_cube.model.files import called
    from ecocompute_cube.report.gate import as_markdown, as_text, gate_models, gate_sessions
    from ecocompute_cube.report.replicate import read_reports
    from ecocompute_cube.report.write import document_text

    head, name = read_reports(options.head, say), called(options.head)
    if options.baseline is None:
        found = gate_models(head, name, options.tolerance)
    else:
        base = [report for each in options.baseline for report in read_reports(each, say)]
        names = (name, ", ".join(map(called, options.baseline)))
        found = gate_sessions(head, base, names, options.tolerance)
    written = {"text": as_text, "markdown": as_markdown, "json": document_text}
    write(written[options.format](found))
    return found.exit_status
