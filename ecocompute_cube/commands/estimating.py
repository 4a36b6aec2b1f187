"""estimate and optimize: what pays on a board that is not here."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from ecocompute_cube.commands.terminal import say, write
from ecocompute_cube.commands.words import add
from ecocompute_cube.errors import UsageError

if TYPE_CHECKING:
    from ecocompute_cube.commands.words import Commands

_FORMS: Final = ("curves", "published")
_ASKED: Final = ("params_b", "gpu", "arch", "precision", "runtime", "batch", "context")
_LIMITS: Final = {
    "max_latency_ms": "milliseconds a token at most",
    "max_vram_gb": "gigabytes at most, besides the board's own",
    "min_throughput": "tokens a second at least, of all rows",
    "max_perplexity_pct": "perplexity above FP16 at most, in percent",
}
_PRICES: Final = {
    "price_per_kwh": "what a kWh costs",
    "price_per_hour": "what an hour of the machine costs",
    "grams_per_kwh": "CO2 of a kWh, in grams",
}
_LISTS: Final = ("precisions", "runtimes", "batches")


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
        "--form", choices=_FORMS, default=_FORMS[0], help="ours, or the published parameters"
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
    for name, what in {**_LIMITS, **_PRICES}.items():
        parser.add_argument(f"--{name}", type=_number, metavar="X", help=what)
    for name in _LISTS:
        parser.add_argument(
            f"--{name}",
            type=_whole if name == "batches" else str,
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
    from ecocompute_cube.analysis.estimator import answer
    from ecocompute_cube.analysis.published_form import published_estimate
    from ecocompute_cube.analysis.query import query
    from ecocompute_cube.report import estimated

    asked = query(**_given(options))
    if options.form == "published":
        form = published_estimate(asked)
        document, text = estimated.form_document(asked, form), estimated.form_text(asked, form)
    else:
        found = answer(asked)
        document = estimated.estimate_document(asked, found)
        text = estimated.estimate_text(asked, found)
    write(_json(document) if options.json else text)
    return 0


def _optimize(options: argparse.Namespace) -> int:
    from ecocompute_cube.analysis.optimizer import Limits, Prices, optimize
    from ecocompute_cube.analysis.query import query
    from ecocompute_cube.report.optimized import optimum_document, optimum_text

    given = _given(options)
    for name in ("precision", "runtime"):  # of a question: the only one to look at
        if name in given:
            given[f"{name}s"] = [given.pop(name)]
    given |= {name: getattr(options, name) for name in _LISTS if getattr(options, name)}
    found = optimize(
        **given,
        objective=options.objective,
        limits=Limits(*(getattr(options, name) for name in _LIMITS)),
        prices=Prices(*(getattr(options, name) for name in _PRICES)),
    )
    asked = query(**{name: value for name, value in given.items() if name in _ASKED})
    if options.json:
        searched: dict[str, object] = {name: given[name] for name in _LISTS if name in given}
        write(_json(optimum_document(asked, searched, found)))
    else:
        write(optimum_text(asked, found))
    return 0


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """What the question says, and what options say in its place."""
    values: dict[str, Any] = {}
    if options.question:
        from ecocompute_cube.analysis.question import understand

        understood = understand(" ".join(options.question))
        values |= understood.values
        if understood.unread:
            say(f"not understood: {' '.join(map(ascii, understood.unread))}")
    given = {name: getattr(options, name, None) for name in _ASKED}
    values |= {name: value for name, value in given.items() if value is not None}
    if "params_b" not in values:
        raise UsageError(
            "params_b: nothing says how large the model is.",
            'Say so in the question, "7B on RTX 4090", or give --params_b 7.',
        )
    return values


def _json(document: dict[str, object]) -> str:
    import json

    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
