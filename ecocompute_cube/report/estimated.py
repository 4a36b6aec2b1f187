"""Answers of the estimator, for programs and for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from ecocompute_cube.report.table import table
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ecocompute_cube.analysis.curves import Anchor
    from ecocompute_cube.analysis.estimator import Estimate, Modelled
    from ecocompute_cube.analysis.published_form import PublishedEstimate
    from ecocompute_cube.analysis.query import Query

Document = dict[str, object]

_DIGITS: Final = 4  # more than any range here supports
#: What an answer repeats of its question: that stands in ``input``.
UNTOLD: Final = frozenset({"params_b", "gpu", "precision", "runtime", "batch", "context"})
_ANCHORS: Final = ("N", "change", "session", "mJ/token", "FP16", "model", "remarks")


def rounded(value: object) -> object:
    """Numbers within any value, to the digits that are shown."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if not isinstance(value, (tuple, dict)):
        return value
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        if fields is None:
            return [rounded(each) for each in value]
        return {name: rounded(each) for name, each in zip(fields, value, strict=True)}
    return {name: rounded(each) for name, each in value.items()}


def question(asked: Query) -> Document:
    """What was understood, in the parameter names of the published API."""
    return {
        "params_b": asked.params_b,
        "gpu": asked.card.name,
        "arch": asked.card.arch,
        "precision": asked.precision,
        "runtime": asked.runtime,
        "batch": asked.batch,
        "ctx": asked.context,
    }


def estimate_document(asked: Query, found: Estimate) -> Document:
    """For programs: ``input``, and the answer."""
    answer = {
        name: rounded(value)
        for name, value in zip(found._fields, found, strict=True)
        if name not in UNTOLD and name != "anchors"
    }
    anchors = [anchor._asdict() for anchor in found.anchors]  # as they stand in the packaged file
    return {"input": question(asked), "form": "curves", **answer, "anchors": anchors}


def form_document(asked: Query, found: PublishedEstimate) -> Document:
    """The same of the published form."""
    answer = {name: rounded(value) for name, value in zip(found._fields, found, strict=True)}
    return {"input": question(asked), "form": "published", **answer}


# For people


def understood(asked: Query) -> str:
    """What was understood, in a line."""
    board = asked.card.name if asked.arch is None else f"{asked.card.name} (for {asked.arch})"
    return (
        f"{asked.params_b:g}B, {asked.precision}/{asked.runtime}, {board}, batch {asked.batch}, "
        f"context {asked.context}"
    )


def estimate_text(asked: Query, found: Estimate) -> str:
    """The answer, what it rests on, and what the model says."""
    lines = [understood(asked), "", found.verdict]
    lines += [f"  {name:15} {value}" for name, value in _facts(found)]
    if found.mechanism is not None:
        lines += ["", *_mechanism(found.mechanism)]
    if found.anchors:
        lines += ["", "Measured sessions of this board", ""]
        lines += table([_ANCHORS, *map(_anchor, found.anchors)])
    lines += ["", *found.notes] if found.notes else []
    return "".join(f"{line}\n" for line in lines)


def _facts(found: Estimate) -> Iterable[tuple[str, str]]:
    if found.delta_pct is not None and found.ci is not None:
        low, high = found.ci
        confidence = f"{100 * found.ci_confidence:g} %"
        yield (
            "change",
            f"{signed(found.delta_pct)} %, {confidence} of other sessions "
            f"{signed(low, 0)} to {signed(high, 0)} %",
        )
    if found.mj_per_token is not None and found.mj_ci is not None:
        least, most = (short(value) for value in found.mj_ci)
        yield "energy", f"{short(found.mj_per_token)} mJ/token ({least} to {most})"
    yield "basis", f"{found.basis}, confidence {found.confidence}"
    yield "recommendation", found.recommendation.replace("_", " ")
    if found.crossover_b is not None:
        yield "crossover", _crossover(found)
    yield "memory", f"{found.vram_gb:.1f} GB{'' if found.fits else ': more than the board has'}"
    for stack in found.stack:
        yield "measured with", stack


def _crossover(found: Estimate) -> str:
    low, high = (
        "beyond the sizes measured" if size is None else f"{size:.2g}B"
        for size in found.crossover_range_b
    )
    return f"{found.crossover_b:.2g}B ({low} to {high})"


def _mechanism(said: Modelled) -> list[str]:
    by = "fitted to measurements" if said.board_fitted else "from its data sheet"
    return [
        f"Modelled from idle power, bandwidth, launches and host speed, the board {by}:",
        f"  change {signed(said.delta_pct)} %, {short(said.mj_per_token)} mJ/token; FP16 "
        f"{short(said.fp16_mj_per_token)}",
        f"  {short(said.tokens_per_s)} tokens/s, bound by {said.bound_by}; FP16 "
        f"{short(said.fp16_tokens_per_s)}, bound by {said.fp16_bound_by}",
    ]


def _anchor(each: Anchor) -> tuple[str, ...]:
    return (
        f"{each.N:.3g}B",
        f"{signed(each.dE)} %",
        each.session,
        short(each.mj_per_token),
        short(each.fp16_mj_per_token),
        each.model,
        " ".join(each.remarks),
    )


def form_text(asked: Query, found: PublishedEstimate) -> str:
    """The published form's answer."""
    low, high = found.ci
    lines = [
        understood(asked),
        "",
        f"By the published three-parameter form of {found.arch_used}: {signed(found.delta_pct)} % "
        f"({signed(low)} to {signed(high)} %), {found.basis}, confidence {found.confidence}, "
        f"{found.recommendation.replace('_', ' ')}.",
        *found.notes,
    ]
    return "".join(f"{line}\n" for line in lines)


def short(value: float) -> str:
    """Three digits, without an exponent."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    whole = round(value, 2 - math.floor(math.log10(abs(value))))
    return f"{whole:,.{decimals}f}".replace(",", " ")
