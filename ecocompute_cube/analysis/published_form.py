"""The published three-parameter form and its rules, as a named alternative; never our answer.

    ΔE%(N) = A − S·x / (1 + x),  x = N / N*

with its range of ± 1.96 standard deviations, its borrowing of Ampere for Hopper and its assumed
effect of batch and context, as published (EcoCompute, H. Zhang, CC BY 4.0;
``published/form.json``). A form that is assumed is narrow, and wrong where the form is; three
parameters on three anchors leave nothing to judge it by.
"""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ecocompute_cube.errors import UsageError

if TYPE_CHECKING:
    from ecocompute_cube.analysis.query import Query

FILE: Final = Path(__file__).parents[1] / "published" / "form.json"

_Z: Final = 1.96  # normal quantile of 95 %
_LEAST_SD: Final = 2.0  # points
_EXTRAPOLATED: Final = 1.2
_BORROWED_SD: Final = 10.0  # points
_BATCH_HALVES: Final = 8  # more rows than one that halve a saving
_CONTEXT_LOSS: Final = 0.12  # of a saving, for each doubling of the context
_SAME: Final = 1e-9
_FAR_APART: Final = 10.0  # points between cards at one size
_NARROW: Final = 12.0  # points of range
_MODERATE: Final = 22.0
_MODERATE_BEYOND: Final = 25.0
_NEAR: Final = 0.5  # logarithm of the distance beyond the anchors
_CONTEXT: Final = 2048  # what the published tool takes as its usual context


class PublishedEstimate(NamedTuple):
    """An answer of the published tool, in its field names."""

    delta_pct: float
    ci: tuple[float, float]
    basis: str
    confidence: str
    recommendation: str
    crossover_b: float | None
    arch_used: str
    modelled: bool
    notes: tuple[str, ...]


@functools.cache
def form() -> dict[str, Any]:
    """The published file."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


class _Said(NamedTuple):
    delta: float
    variance: float
    basis: str


def published_estimate(asked: Query) -> PublishedEstimate:
    """What the published tool says. Raises UsageError where it says nothing."""
    borrowed_from = form()["borrow"].get(asked.card.arch)
    arch = borrowed_from or asked.card.arch
    curve = form()["curves"].get(arch, {}).get(asked.precision)
    if curve is None:
        known = ", ".join(f"{name} {'/'.join(curves)}" for name, curves in form()["curves"].items())
        raise UsageError(
            f"precision: the published form has no {asked.precision} on {asked.card.arch}.",
            f"It has: {known}. Or leave form out.",
        )
    said = _of_curve(asked, curve, borrowed_from is not None)
    factor = _factor(asked)
    delta, variance = said.delta, said.variance
    if factor < 1 and delta < 0:
        variance += (abs(delta) * (1 - factor) / 2) ** 2
        delta *= factor
    deviation = math.sqrt(variance)
    cap = form()["s_cap"][asked.precision]
    low, high = max(-cap, delta - _Z * deviation), delta + _Z * deviation
    return PublishedEstimate(
        delta_pct=delta,
        ci=(low, high),
        basis=said.basis,
        confidence=_confidence(asked, curve, said, high - low, borrowed_from is not None, factor),
        recommendation="quantize" if high < 0 else "do_not_quantize" if low > 0 else "depends",
        crossover_b=curve["crossover_b"],
        arch_used=arch,
        modelled=factor < 1,
        notes=(
            "The published three-parameter form: its range assumes that the form holds, and was "
            "not checked on sessions left out.",
        ),
    )


def _of_curve(asked: Query, curve: dict[str, Any], borrowed: bool) -> _Said:
    base = max(curve["resid_std"], _LEAST_SD)
    exact = [each["dE"] for each in _exact(asked, curve)]
    if exact and not borrowed:
        spread = max(exact) - min(exact)
        return _Said(fmean(exact), max(base / 2, spread / 2) ** 2, "measured")
    x = asked.params_b / curve["Nstar"]
    delta = curve["A"] - curve["S"] * x / (1 + x)
    distance = _distance(asked.params_b, curve)
    beyond = (base + 4) * distance * _EXTRAPOLATED
    variance = base**2 + beyond**2 + (_BORROWED_SD**2 if borrowed else 0.0)
    inside = not borrowed and distance == 0
    return _Said(delta, variance, "interpolated" if inside else "estimated")


def _exact(asked: Query, curve: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in curve["anchors"] if abs(each["N"] - asked.params_b) < _SAME]


def _distance(params_b: float, curve: dict[str, Any]) -> float:
    """Beyond the anchors, in logarithms."""
    nearest = min(max(params_b, curve["n_min"]), curve["n_max"])
    return abs(math.log(params_b / nearest))


def _factor(asked: Query) -> float:
    """How much of a saving is left, by assumption."""
    batch = 1 / (1 + (asked.batch - 1) / _BATCH_HALVES)
    return batch / (1 + _CONTEXT_LOSS * max(0.0, math.log2(asked.context / _CONTEXT)))


def _confidence(
    asked: Query,
    curve: dict[str, Any],
    said: _Said,
    width: float,
    borrowed: bool,
    factor: float,
) -> str:
    if said.basis == "measured":
        exact = _exact(asked, curve)
        spread = max(each["dE"] for each in exact) - min(each["dE"] for each in exact)
        level = 1 if spread > _FAR_APART or all(each["n"] == 1 for each in exact) else 2
    elif borrowed:
        level = 0
    elif said.basis == "interpolated":
        level = 2 if width < _NARROW else 1 if width < _MODERATE else 0
    else:
        level = 1 if _distance(asked.params_b, curve) < _NEAR and width < _MODERATE_BEYOND else 0
    return ("low", "medium", "high")[max(0, level - (1 if factor < 1 else 0))]
