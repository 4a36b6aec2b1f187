"""What shipped measurements say for a rule: figures are read from them, none is written here."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Final

from ecocompute_cube.analysis.cards import ARCHES, TWINS, card
from ecocompute_cube.analysis.curves import library
from ecocompute_cube.analysis.estimator import answer
from ecocompute_cube.analysis.query import query
from ecocompute_cube.errors import EcoError
from ecocompute_cube.lint.found import Evidence
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ecocompute_cube.analysis.curves import Curve

_BASELINE: Final = "FP16"
_SAME: Final = 0.02  # sizes within it are one, as in analysis.curves


def board(name: str) -> str:
    """The full name of a board or of a generation's. Raises UsageError."""
    generation = ARCHES.get(name.casefold().strip())
    return generation.card.name if generation is not None else card(name).name


def short(gpu: str) -> str:
    """A board's name without its maker."""
    return gpu.removeprefix("NVIDIA ").removeprefix("GeForce ").removeprefix("Tesla ")


@functools.cache
def measured_boards(precision: str, runtime: str = "eager") -> tuple[str, ...]:
    """Boards with measurements of an arm that are not all in doubt; else those there are."""
    found = {
        gpu: curve
        for (gpu, arm, how), curve in library().ratios.items()
        if (arm, how) == (precision, runtime) and curve.anchors and curve.sizes
    }
    sound = tuple(gpu for gpu, curve in found.items() if not curve.doubtful)
    return sound or tuple(found)


@functools.cache
def of_arm(
    precision: str, params_b: float | None, gpu: str | None, runtime: str = "eager"
) -> tuple[Evidence, ...]:
    """Of an arm against FP16 of the same runtime: on this board, else wherever it was measured."""
    boards = (gpu,) if gpu is not None else measured_boards(precision, runtime)
    found = [
        each
        for name in boards
        for each in _on_board(precision, params_b, name, runtime, conditional=gpu is None)
    ]
    if not found and gpu is not None:
        return of_arm(precision, params_b, None, runtime)
    return tuple(found)


def _on_board(
    precision: str, params_b: float | None, gpu: str, runtime: str, *, conditional: bool
) -> Iterator[Evidence]:
    curve = library().ratios.get((TWINS.get(gpu, gpu), precision, runtime))
    if params_b is not None:
        known = _estimated(precision, params_b, gpu, runtime, curve)
        if known is not None:
            yield known._replace(conditional=conditional)
            return
    if curve is None:
        return
    sizes = sorted({anchor.N for anchor in curve.anchors})
    for size in dict.fromkeys((sizes[0], sizes[-1])):
        known = _estimated(precision, size, gpu, runtime, curve)
        found = known or _as_found(precision, size, gpu, runtime, curve)
        yield found._replace(conditional=conditional)


def _estimated(
    precision: str, params_b: float, gpu: str, runtime: str, curve: Curve | None
) -> Evidence | None:
    try:
        said = answer(query(params_b, gpu=gpu, precision=precision, runtime=runtime))
    except EcoError:
        return None  # a size or an arm that the estimator refuses
    if said.delta_pct is None or said.ci is None:
        return None
    near = [a for a in curve.anchors if _alike(a.N, params_b)] if curve is not None else []
    used = near or (list(curve.anchors) if curve is not None and not said.modelled else [])
    knot = curve.measured(params_b) or curve.between(params_b) if curve is not None else None
    return Evidence(
        gpu=gpu,
        arm=f"{precision}/{runtime}",
        against=f"{_BASELINE}/{runtime}",
        params_b=params_b,
        delta_pct=said.delta_pct,
        interval=said.ci,
        basis=said.basis,
        n=knot.n if knot is not None and not said.modelled else 0,
        sources=tuple(sorted({anchor.source for anchor in used})) or ("curves.json: mechanism",),
    )


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME * other


def _as_found(precision: str, size: float, gpu: str, runtime: str, curve: Curve) -> Evidence:
    """What sessions found where nothing tells how far another would be."""
    anchors = [anchor for anchor in curve.anchors if _alike(anchor.N, size)]
    logs = [math.log1p(anchor.dE / 100) for anchor in anchors]
    return Evidence(
        gpu=gpu,
        arm=f"{precision}/{runtime}",
        against=f"{_BASELINE}/{runtime}",
        params_b=size,
        delta_pct=100 * math.expm1(sum(logs) / len(logs)),
        interval=None,
        basis="measured",
        n=len({anchor.session for anchor in anchors}),
        sources=tuple(sorted({anchor.source for anchor in anchors})),
    )


@functools.cache
def of_capture(gpu: str | None) -> tuple[Evidence, ...]:
    """FP16 decoded as a captured graph against eagerly, at the sizes that have both."""
    found = []
    for (name, runtime), curve in library().levels.items():
        plain = library().levels.get((name, "eager"))
        if runtime == "eager" or plain is None:
            continue
        for knot in curve.sizes:
            beside = plain.measured(knot.params_b)
            if beside is None or knot.half is None or beside.half is None:
                continue
            log, half = knot.fit - beside.fit, math.hypot(knot.half, beside.half)
            found.append(
                Evidence(
                    gpu=name,
                    arm=f"{_BASELINE}/{runtime}",
                    against=f"{_BASELINE}/eager",
                    params_b=knot.params_b,
                    delta_pct=100 * math.expm1(log),
                    interval=(100 * math.expm1(log - half), 100 * math.expm1(log + half)),
                    basis="measured",
                    n=min(knot.n, beside.n),
                    sources=tuple(sorted({*curve.sessions, *plain.sessions}))[-2:],
                    conditional=name != gpu,
                )
            )
    return tuple(found)


def crossover(gpu: str, runtime: str = "eager") -> float | None:
    """Size in billions from which NF4 saves energy on a board; None where that was not seen."""
    curve = library().ratios.get((TWINS.get(gpu, gpu), "NF4", runtime))
    return None if curve is None else curve.crossing[0]


def perplexity(precision: str) -> str:
    """What a precision cost the published models in perplexity."""
    costs = [each.delta_pct for each in library().quality.get(precision, ())]
    if not costs:
        return "what it costs in perplexity was not measured"
    low, high = signed(min(costs), 1), signed(max(costs), 1)
    return f"perplexity {low} to {high} % on {len(costs)} published models"


def told(evidence: Evidence) -> str:
    """One line."""
    size = "" if evidence.params_b is None else f" at {evidence.params_b:.2g}B"
    change = "" if evidence.delta_pct is None else f"{signed(evidence.delta_pct, 0)} %"
    if evidence.interval is None:
        span = "one session, no interval" if evidence.n == 1 else "no interval"
    else:
        low, high = evidence.interval
        span = f"95 % of other sessions: {signed(low, 0)} to {signed(high, 0)} %"
    n = f"n = {evidence.n} session{'s' if evidence.n != 1 else ''}" if evidence.n else "modelled"
    return (
        f"{short(evidence.gpu)}{size}: {evidence.arm} against {evidence.against} {change} energy "
        f"a token ({span}; {evidence.basis}, {n}; {_sources(evidence.sources)})"
    )


def _sources(sources: Sequence[str]) -> str:
    return ", ".join(sources[:2]) + (" and others" if len(sources) > 2 else "")  # noqa: PLR2004  # as many as shown
