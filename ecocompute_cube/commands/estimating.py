"""estimate: does quantizing save energy on a board that is not here."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ecocompute_cube.commands.terminal import write
from ecocompute_cube.commands.words import add
from ecocompute_cube.errors import UsageError

if TYPE_CHECKING:
    from ecocompute_cube.analysis.query import Query
    from ecocompute_cube.commands.words import Commands

_FORMS: Final = ("curves", "published")
_ASKED: Final = ("params_b", "gpu", "arch", "precision", "runtime", "batch", "context")


def add_estimate(commands: Commands) -> None:
    """How ``estimate`` is spelled."""
    parser = add(
        commands,
        "estimate",
        "does quantizing save energy on a board that is not here, from what was measured",
        _estimate,
    )
    _board(parser)
    parser.add_argument("--precision", metavar="P", help="NF4, INT8, FP16 and others (default NF4)")
    parser.add_argument("--runtime", metavar="R", help="how it decodes (default eager)")
    parser.add_argument("--batch", type=_whole, metavar="N", help="rows at a time (default 1)")
    _context(parser)
    parser.add_argument(
        "--form", choices=_FORMS, default=_FORMS[0], help="ours, or the published parameters"
    )
    parser.add_argument("--json", action="store_true", help="for programs")


def _board(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--params_b", type=_number, metavar="B", help="billions of parameters")
    parser.add_argument("--gpu", metavar="NAME", help="a board: 'RTX 4090', A100, H200")
    parser.add_argument("--arch", metavar="NAME", help="or its generation: ada, hopper")


def _context(parser: argparse.ArgumentParser) -> None:
    what = "tokens of prompt and output together (default 266)"
    parser.add_argument("--context", type=_whole, metavar="N", help=what)
    parser.add_argument(
        "--ctx", type=_whole, metavar="N", dest="context", help="the same, as in the published API"
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number") from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number") from None


def _estimate(options: argparse.Namespace) -> int:
    from ecocompute_cube.analysis.estimator import answer
    from ecocompute_cube.analysis.published_form import published_estimate
    from ecocompute_cube.report import estimated

    asked = _query(options)
    if options.form == "published":
        by_form = published_estimate(asked)
        document, text = (
            estimated.form_document(asked, by_form),
            estimated.form_text(asked, by_form),
        )
    else:
        found = answer(asked)
        document = estimated.estimate_document(asked, found)
        text = estimated.estimate_text(asked, found)
    write(_json(document) if options.json else text)
    return 0


def _query(options: argparse.Namespace) -> Query:
    from ecocompute_cube.analysis.query import query

    given = {name: getattr(options, name) for name in _ASKED}
    known = {name: value for name, value in given.items() if value is not None}
    if "params_b" not in known:
        raise UsageError(
            "params_b: nothing says how large the model is.",
            "Give --params_b 7 and --gpu or --arch.",
        )
    return query(known.pop("params_b"), **known)


def _json(document: dict[str, object]) -> str:
    import json

    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
