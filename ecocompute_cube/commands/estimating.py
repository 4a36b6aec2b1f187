"""estimate and optimize: what pays on a board that is not here."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ecocompute_cube.commands.terminal import say, write
from ecocompute_cube.commands.words import add
from ecocompute_cube.service.answers import FORMS, LIMITS, LISTS, PRICES, WHOLE_LISTS

if TYPE_CHECKING:
    from ecocompute_cube.commands.words import Commands
    from ecocompute_cube.service.answers import Answered


def add_estimate(commands: Commands) -> None:
    """How ``estimate`` is spelled."""
    parser = add(
        commands,
        "estimate",
        "does quantizing save energy on a board that is not here, from what was measured",
        _estimate,
    )
    _question(parser)
    parser.add_argument("--precision", metavar="P", help="NF4 (if left out), INT8, FP16 and others")
    parser.add_argument("--runtime", metavar="R", help="how it decodes; eager if left out")
    _size(parser)
    parser.add_argument(
        "--form", choices=FORMS, default=FORMS[0], help="ours, or the published parameters"
    )
    parser.add_argument("--json", action="store_true", help="for programs")


def add_optimize(commands: Commands) -> None:
    """How ``optimize`` is spelled."""
    parser = add(
        commands,
        "optimize",
        "which precision, runtime and batch serve an aim best, within limits",
        _optimize,
    )
    _question(parser)
    parser.add_argument(
        "--objective",
        default="min_energy",
        metavar="AIM",
        help="energy, latency, throughput, vram, cost or carbon (default min_energy)",
    )
    for name, what in {**LIMITS, **PRICES}.items():
        parser.add_argument(f"--{name}", type=_number, metavar="X", help=what)
    for name in LISTS:
        parser.add_argument(
            f"--{name}",
            type=_whole if name in WHOLE_LISTS else str,
            nargs="+",
            metavar=name[0].upper(),
            help=f"the {name} to look at",
        )
    _size(parser)
    parser.add_argument("--json", action="store_true", help="for programs")


def _question(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "question", nargs="*", metavar="QUESTION", help="in words: 13B on A100, int8, batch 32"
    )
    parser.add_argument("--params_b", type=_number, metavar="B", help="billions of parameters")
    parser.add_argument("--gpu", metavar="NAME", help="a board: 'RTX 4090', A100, H200")
    parser.add_argument("--arch", metavar="NAME", help="or its generation: ada, hopper")


def _size(parser: argparse.ArgumentParser) -> None:
    what = "tokens of prompt and output together; 266 if left out"
    parser.add_argument("--batch", type=_whole, metavar="N", help="rows at a time")
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
    from ecocompute_cube.service.answers import ESTIMATE, estimate

    return _told(estimate(_given(options, ESTIMATE)), options.json)


def _optimize(options: argparse.Namespace) -> int:
    from ecocompute_cube.service.answers import OPTIMIZE, optimize

    return _told(optimize(_given(options, OPTIMIZE)), options.json)


def _given(options: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    given = {name: getattr(options, name, None) for name in names}
    return given | {"q": " ".join(options.question) or None}


def _told(found: Answered, as_json: bool) -> int:
    if found.unread:
        say(f"not understood: {' '.join(map(ascii, found.unread))}")
    write(_json(found.document) if as_json else found.as_text())
    return 0


def _json(document: dict[str, object]) -> str:
    import json

    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
