"""What the pages compute from: the shipped curves, boards, shapes and rules, as one document.

``templates/estimator.js`` and its neighbours hold the arithmetic of ``analysis`` a second time, in
the browser; every figure of it is here, so that none can be changed in one place alone. Tests hold
both to the same answers.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from ecocompute_cube.analysis import estimator, optimizer, query, question
from ecocompute_cube.analysis.cards import ARCHES, BY_NAME, CARDS, TWINS
from ecocompute_cube.analysis.curves import SAME_SIZE, library
from ecocompute_cube.analysis.mechanism import MEASURED_CONTEXT, PRODUCT_SHARE
from ecocompute_cube.analysis.shapes import BITS, KNOWN, PLAIN_BITS

if TYPE_CHECKING:
    from ecocompute_cube.analysis.curves import Curve

Document = dict[str, object]
FORMAT: Final = "ecocompute-estimator/1"


@cache
def tables() -> Document:
    """Everything an answer needs."""
    return {"format": FORMAT, **_measured(), **_boards(), **_questions()}


def _measured() -> Document:
    known = library()
    return {
        "confidence": known.confidence,
        "ratios": [
            {"gpu": gpu, "precision": precision, "runtime": runtime, **_curve(curve)}
            for (gpu, precision, runtime), curve in known.ratios.items()
        ],
        "levels": [
            {"gpu": gpu, "runtime": runtime, **_curve(curve)}
            for (gpu, runtime), curve in known.levels.items()
        ],
        "scatter": [
            {"precision": precision, "runtime": runtime, **each._asdict()}
            for (precision, runtime), each in known.scatter.items()
        ],
        "quality": {
            name: [each._asdict() for each in all_] for name, all_ in known.quality.items()
        },
        "mechanism": known.mechanism,
    }


def _curve(curve: Curve) -> Document:
    """Knots are lists of size, logarithm, half the range, and sessions."""
    return {**curve._asdict(), "anchors": [anchor._asdict() for anchor in curve.anchors]}


def _boards() -> Document:
    return {
        "cards": {card.name: card._asdict() for card in CARDS},
        "card_keys": {key: card.name for key, card in BY_NAME.items()},
        "arches": {
            name: {"label": each.label, "card": each.card.name} for name, each in ARCHES.items()
        },
        "twins": dict(TWINS),
        "shapes": [each._asdict() for each in KNOWN],
        "bits": BITS,
        "plain_bits": PLAIN_BITS,
        "constants": {
            "measured_context": MEASURED_CONTEXT,
            "product_share": PRODUCT_SHARE,
            "same_size": SAME_SIZE,
            "least_held": estimator.LEAST_HELD,
            "well_held": estimator.WELL_HELD,
            "many_sessions": estimator.MANY_SESSIONS,
            "same_points": estimator.SAME_POINTS,
            "context_gb": estimator.CONTEXT_GB,
        },
    }


def _questions() -> Document:
    return {
        "limits": {
            "least_b": query.LEAST_B,
            "most_b": query.MOST_B,
            "most_batch": query.MOST_BATCH,
            "most_context": query.MOST_CONTEXT,
            "most_characters": question.MOST_CHARACTERS,
        },
        "baseline": query.BASELINE,
        "runtimes": query.RUNTIMES,
        "precision_keys": dict(query.PRECISION_KEYS),
        "searched": {
            "precisions": optimizer.PRECISIONS,
            "runtimes": optimizer.RUNTIMES,
            "batches": optimizer.BATCHES,
        },
        "rules": [{**rule._asdict(), "pattern": rule.pattern.pattern} for rule in question.RULES],
        "unknown_board": question.UNKNOWN_BOARD.pattern,
    }
