"""The fitted curves of ``published/curves.json``, and what they say of a size.

``scripts/fit_curves.py`` writes the file. Nothing here needs more than the standard library.
"""

from __future__ import annotations

import functools
import json
import math
from bisect import bisect_left
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE: Final = Path(__file__).parents[1] / "published" / "curves.json"
FORMAT: Final = "ecocompute-curves/1"
#: A size is that of an anchor within this share: Qwen2-0.5B has 0.494 billion parameters.
SAME_SIZE: Final = 0.02


class Knot(NamedTuple):
    """One size: logarithm of the fit and half the range."""

    params_b: float
    fit: float
    half: float | None  #: None where no spread is known
    n: int  #: sessions at this size; between sizes, at the one that has fewer


class Anchor(NamedTuple):
    """What one session found at one size, in the field names of the published tool."""

    N: float  #: billions of parameters
    dE: float  #: change of energy against FP16, percent
    model: str
    gpu: str
    n: int  #: sessions it stands for
    session: str
    mj_per_token: float
    fp16_mj_per_token: float
    tokens_per_s: float | None
    stack: str
    source: str
    remarks: tuple[str, ...]


class Curve(NamedTuple):
    """One board, precision and runtime."""

    sizes: tuple[Knot, ...]  #: measured, by size
    knots: tuple[Knot, ...]  #: of the curve between them; empty where it is refused
    refused: str | None  #: why there is no curve
    sessions: tuple[str, ...]
    doubtful: bool  #: all of its sessions have a remark that puts their figures in doubt
    crossing: tuple[float | None, float | None, float | None]  #: fit, low and high end
    anchors: tuple[Anchor, ...]
    stacks: tuple[str, ...] = ()  #: software of the anchors
    notes: tuple[str, ...] = ()  #: what its data have against them

    def measured(self, params_b: float) -> Knot | None:
        """What sessions found at this very size."""
        for knot in self.sizes:
            if abs(params_b - knot.params_b) <= SAME_SIZE * knot.params_b:
                return knot
        return None

    def between(self, params_b: float) -> Knot | None:
        """What the curve says; None beyond the sizes measured, and where it is refused."""
        knots = self.knots
        if not knots or not knots[0].params_b <= params_b <= knots[-1].params_b:
            return None
        n = max(1, bisect_left(knots, (params_b,)))
        low, high = knots[n - 1], knots[n]
        part = math.log(params_b / low.params_b) / math.log(high.params_b / low.params_b)
        half = None
        if low.half is not None and high.half is not None:
            half = low.half + part * (high.half - low.half)
        return Knot(params_b, low.fit + part * (high.fit - low.fit), half, min(low.n, high.n))


class Quality(NamedTuple):
    """What a precision cost one model in perplexity."""

    params_b: float
    delta_pct: float
    model: str


class Scatter(NamedTuple):
    """How sessions of one precision and runtime differ, and how well their range held."""

    log_sd: float | None
    degrees: int
    held: int  #: values of sessions that were left out, within the range of the others
    tried: int


_REMARKS: Final = {
    "unverified": "its figures could not be traced to runs",
    "lengths_differ": "the arms generated different numbers of tokens",
    "idle_subtracted": "idle power was subtracted, which no other measurement does",
}


class Library(NamedTuple):
    """Everything that was fitted."""

    confidence: float
    ratios: dict[tuple[str, str, str], Curve]  #: by board, precision and runtime
    levels: dict[tuple[str, str], Curve]  #: log mJ/token of FP16, by board and runtime
    scatter: dict[tuple[str, str], Scatter]  #: by precision and runtime
    quality: dict[str, tuple[Quality, ...]]  #: by precision
    mechanism: dict[str, Any]  #: parameters of analysis.mechanism


@functools.cache
def library() -> Library:
    """The packaged curves."""
    document = json.loads(FILE.read_text(encoding="utf-8"))
    if document["format"] != FORMAT:
        raise ValueError(f"{FILE.name} is not in format {FORMAT}")
    return Library(
        confidence=document["confidence"],
        ratios={(c["gpu"], c["precision"], c["runtime"]): _curve(c) for c in document["ratios"]},
        levels={(c["gpu"], c["runtime"]): _curve(c) for c in document["levels"]},
        scatter={
            (s["precision"], s["runtime"]): Scatter(
                s["log_sd"], s["degrees"], *s["left_out_sessions"]
            )
            for s in document["scatter"]
        },
        quality={
            precision: tuple(Quality(*each) for each in found)
            for precision, found in document["quality"].items()
        },
        mechanism=document["mechanism"],
    )


def _curve(found: dict[str, Any]) -> Curve:
    crossing = found["crossover_b"]
    anchors = tuple(
        Anchor(**{**each, "remarks": tuple(each["remarks"])}) for each in found["anchors"]
    )
    return Curve(
        sizes=tuple(Knot(*each) for each in found["sizes"]),
        knots=tuple(Knot(*each) for each in found["knots"]),
        refused=found["refused"],
        sessions=tuple(found["sessions"]),
        doubtful=found["doubtful"],
        crossing=(crossing[0], crossing[1], crossing[2]),
        anchors=anchors,
        stacks=tuple(dict.fromkeys(anchor.stack for anchor in anchors)),
        notes=_notes(anchors, found["refused"]),
    )


def _notes(anchors: tuple[Anchor, ...], refused: str | None) -> tuple[str, ...]:
    remarks = sorted({remark for anchor in anchors for remark in anchor.remarks})
    found = [f"Of some sessions: {_REMARKS[remark]}." for remark in remarks]
    if refused is not None:
        found.append(f"No curve between the measured sizes: {refused}.")
    return tuple(found)
