"""Does quantizing save energy, before anything is measured here: an answer, or why there is none.

::

    the board was measured at this size ........ measured       mean of the sessions
    between sizes it was measured at ........... interpolated   the curve of its sessions
    neither, and the mechanism's error is known  estimated      analysis.mechanism
    none of them ............................... unavailable    a reason, and what was measured

The range is that of another session: another host, another release. It is given only where data
say how wide it is, and an answer is given only with a range. What the mechanism says stands beside
every answer, as modelled. The standard library is all that this needs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ecocompute_cube.analysis.cards import TWINS
from ecocompute_cube.analysis.curves import Anchor, Curve, Knot, Scatter, library
from ecocompute_cube.analysis.mechanism import MEASURED_CONTEXT, BoundBy, model, models, step
from ecocompute_cube.analysis.query import BASELINE, Query, query
from ecocompute_cube.analysis.shapes import GB, PLAIN_BITS, shape, weight_bytes
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from ecocompute_cube.analysis.mechanism import Board, Error, Model
    from ecocompute_cube.analysis.shapes import Shape

Basis = Literal["measured", "interpolated", "estimated", "unavailable"]
Confidence = Literal["high", "medium", "low", "none"]
Recommendation = Literal["quantize", "do_not_quantize", "depends"]

LEAST_HELD: Final = 0.8  # of sessions left out: below it a range of 95 % is none
WELL_HELD: Final = 0.9
MANY_SESSIONS: Final = 3
SAME_POINTS: Final = 1.0  # a context that moves the modelled change by less is none
CONTEXT_GB: Final = 0.8  # CUDA context and buffers; the published tool's figure
_BYTES_OF_A_BIT: Final = 1 / 8


class Modelled(NamedTuple):
    """What the mechanism says. No measurement, and no range."""

    delta_pct: float
    mj_per_token: float
    fp16_mj_per_token: float
    tokens_per_s: float
    fp16_tokens_per_s: float
    bound_by: BoundBy
    fp16_bound_by: BoundBy
    board_fitted: bool  #: else its figures follow from the data sheet


class Estimate(NamedTuple):
    """An answer in the field names of the published tool, where that has them."""

    params_b: float
    gpu: str
    arch_used: str
    precision: str
    runtime: str
    batch: int
    context: int
    delta_pct: float | None  #: change of energy against FP16; None: see reason
    ci: tuple[float, float] | None  #: percent
    ci_confidence: float
    basis: Basis
    confidence: Confidence
    recommendation: Recommendation
    verdict: str
    reason: str | None  #: why there is no answer
    mj_per_token: float | None
    mj_ci: tuple[float, float] | None
    mj_basis: Basis
    crossover_b: float | None  #: size at which the curve changes its sign
    crossover_range_b: tuple[float | None, float | None]
    anchors: tuple[Anchor, ...]
    stack: tuple[str, ...]
    modelled: bool  #: whether the answer itself is the mechanism's
    mechanism: Modelled | None
    weight_gb: float
    weight_gb_fp16: float
    vram_gb: float  #: weights as loaded, cache and context
    fits: bool
    notes: tuple[str, ...]


class _Found(NamedTuple):
    """What is known of the logarithm of a ratio, or of an energy."""

    basis: Basis
    log: float
    half: float
    sessions: int = 0


def estimate(
    params_b: float,
    *,
    gpu: str | None = None,
    arch: str | None = None,
    precision: str = "NF4",
    runtime: str = "eager",
    batch: int = 1,
    context: int = MEASURED_CONTEXT,
) -> Estimate:
    """Answer one question. Raises UsageError."""
    return answer(
        query(
            params_b,
            gpu=gpu,
            arch=arch,
            precision=precision,
            runtime=runtime,
            batch=batch,
            context=context,
        )
    )


def answer(asked: Query) -> Estimate:
    """Answer a question that was checked."""
    known, by = library(), model()
    measured_as = TWINS.get(asked.card.name, asked.card.name)
    like, board = shape(asked.params_b), by.board(asked.card, measured_as)
    said = _modelled(by, board, like, asked)
    plain = asked.precision == BASELINE
    curve = None if plain else known.ratios.get((measured_as, asked.precision, asked.runtime))
    unlike = _unlike(by, board, like, asked, said)
    ratio = _ratio(asked, curve, by, said, unlike)
    found, reason = (None, ratio) if isinstance(ratio, str) else (ratio, None)
    level = _level(asked, measured_as, unlike) if found else None
    energy = _energy(found, level, by, asked, said)
    vram = _vram(like, asked)
    ci = (_pct(found.log - found.half), _pct(found.log + found.half)) if found else None
    basis: Basis = found.basis if found else "unavailable"
    if plain:  # against itself there is nothing to measure: what counts is its energy
        basis = energy.basis if energy else "unavailable"
    return Estimate(
        params_b=asked.params_b,
        gpu=asked.card.name,
        arch_used=asked.card.arch,
        precision=asked.precision,
        runtime=asked.runtime,
        batch=asked.batch,
        context=asked.context,
        delta_pct=_pct(found.log) if found else None,
        ci=ci,
        ci_confidence=known.confidence,
        basis=basis,
        confidence=_confidence(
            basis,
            energy if plain else found,
            known.levels.get((measured_as, asked.runtime)) if plain else curve,
            known.scatter.get((asked.precision, asked.runtime)),
        ),
        recommendation=_advice(ci),
        verdict=_verdict(found, ci, reason),
        reason=reason,
        mj_per_token=math.exp(energy.log) if energy else None,
        mj_ci=_around(energy),
        mj_basis=energy.basis if energy else "unavailable",
        crossover_b=curve.crossing[0] if curve else None,
        crossover_range_b=curve.crossing[1:] if curve else (None, None),
        anchors=curve.anchors if curve else (),
        stack=curve.stacks if curve else (),
        modelled=found is not None and found.sessions == 0 and not plain,
        mechanism=said,
        weight_gb=asked.params_b * PLAIN_BITS[asked.precision] * _BYTES_OF_A_BIT,
        weight_gb_fp16=asked.params_b * PLAIN_BITS[BASELINE] * _BYTES_OF_A_BIT,
        vram_gb=vram,
        fits=vram <= asked.card.memory_gb,
        notes=_notes(asked, like, curve, measured_as, unlike),
    )


def _pct(log: float) -> float:
    return 100 * math.expm1(log)


def _around(energy: _Found | None) -> tuple[float, float] | None:
    if energy is None:
        return None
    return math.exp(energy.log - energy.half), math.exp(energy.log + energy.half)


# The mechanism


def _modelled(by: Model, board: Board, like: Shape, asked: Query) -> Modelled | None:
    if not models(by, asked.precision, asked.runtime):
        return None
    on, rows, context = asked.card, asked.batch, asked.context
    arm = step(by, board, on, like, asked.precision, asked.runtime, batch=rows, context=context)
    plain = arm
    if asked.precision != BASELINE:
        plain = step(by, board, on, like, BASELINE, asked.runtime, batch=rows, context=context)
    return Modelled(
        100 * (arm.mj_per_token / plain.mj_per_token - 1),
        arm.mj_per_token,
        plain.mj_per_token,
        arm.tokens_per_s,
        plain.tokens_per_s,
        arm.bound_by,
        plain.bound_by,
        board.fitted,
    )


def _unlike(
    by: Model, board: Board, like: Shape, asked: Query, said: Modelled | None
) -> str | None:
    """Why measurements at batch 1 and a short context do not speak of this question."""
    if asked.batch > 1:
        return f"nothing was measured beside FP16 at batch {asked.batch}"
    if asked.context <= MEASURED_CONTEXT:
        return None
    if said is None:
        return f"nothing was measured beyond a context of {MEASURED_CONTEXT}"
    if _moves(by, board, like, asked, said) <= SAME_POINTS:
        return None
    return (
        f"nothing was measured beyond a context of {MEASURED_CONTEXT}, and one of "
        f"{asked.context} matters for a model of this size"
    )


def _moves(by: Model, board: Board, like: Shape, asked: Query, said: Modelled) -> float:
    """How many points the context moves the modelled change."""
    more_mj = 1e3 * board.joule_per_byte * like.cache_bytes * (asked.context - MEASURED_CONTEXT)
    share = 100 * more_mj / said.mj_per_token
    if share <= SAME_POINTS and said.bound_by == said.fp16_bound_by == "host":
        return share  # no step takes longer, and the same is added to both
    short = _modelled(by, board, like, asked._replace(context=MEASURED_CONTEXT))
    return 0.0 if short is None else abs(short.delta_pct - said.delta_pct)


# The answer


def _ratio(
    asked: Query, curve: Curve | None, by: Model, said: Modelled | None, unlike: str | None
) -> _Found | str:
    """What is known, or why nothing is."""
    if asked.precision == BASELINE:
        return _Found("measured", 0.0, 0.0)  # by definition
    if unlike is not None:
        return unlike
    known = _on_curve(asked, curve) if curve else None
    if known is not None:
        basis, knot = known
        scatter = library().scatter[asked.precision, asked.runtime]
        if knot.half is not None and scatter.held >= LEAST_HELD * scatter.tried:
            return _Found(basis, knot.fit, knot.half, knot.n)
    error = _error(asked, by, said, by.seen, by.unseen)
    if said is not None and isinstance(error, tuple):
        return _Found("estimated", math.log1p(said.delta_pct / 100), error.half)
    if known is not None:
        return (
            f"{asked.precision} was measured in one session of this board alone, and nothing tells "
            "how far another would be"
        )
    return str(error)


def _on_curve(asked: Query, curve: Curve) -> tuple[Basis, Knot] | None:
    twin = asked.card.name in TWINS
    knot = curve.measured(asked.params_b)
    if knot is not None:
        return ("estimated" if twin else "measured"), knot
    knot = curve.between(asked.params_b)
    return None if knot is None else (("estimated" if twin else "interpolated"), knot)


def _error(
    asked: Query,
    by: Model,
    said: Modelled | None,
    seen: dict[str, Error],
    unseen: dict[str, Error],
) -> Error | str:
    """The mechanism's, where it was measured on what is like the question; else why it is not."""
    if asked.runtime != "eager" or said is None:
        return f"{asked.precision}/{asked.runtime} was not measured on this board at this size"
    low, high = by.sizes_b
    if not low <= asked.params_b <= high:
        return (
            f"no model below {low:.2g} or above {high:.2g} billion parameters was measured, and "
            "nothing is extrapolated"
        )
    found = (seen if said.board_fitted else unseen).get(asked.precision)
    if found is None:
        return f"too few boards measured {asked.precision} to tell how far the model is off"
    return found


def _level(asked: Query, measured_as: str, unlike: str | None) -> _Found | None:
    """Of FP16's energy."""
    curve = library().levels.get((measured_as, asked.runtime))
    if curve is None or unlike is not None:
        return None
    known = _on_curve(asked, curve)
    if known is None or known[1].half is None:
        return None
    return _Found(known[0], known[1].fit, known[1].half, known[1].n)


def _energy(
    found: _Found | None, level: _Found | None, by: Model, asked: Query, said: Modelled | None
) -> _Found | None:
    """Of the arm: FP16's times the ratio; or the mechanism's."""
    if found is None:
        return None
    if level is not None:
        basis = found.basis if found.basis == "estimated" else level.basis
        half = math.hypot(level.half, found.half)
        return _Found(basis, level.log + found.log, half, level.sessions)
    error = _error(asked, by, said, by.seen_level, by.unseen_level)
    if said is None or isinstance(error, str):
        return None
    return _Found("estimated", math.log(said.mj_per_token), error.half)


def _vram(like: Shape, asked: Query) -> float:
    cache = like.cache_bytes * asked.context * asked.batch
    return (weight_bytes(like, asked.precision) + cache) / GB + CONTEXT_GB


# Words


def _confidence(
    basis: Basis, found: _Found | None, curve: Curve | None, scatter: Scatter | None
) -> Confidence:
    """How well founded the range is; how wide it is, it says itself."""
    if found is None or basis == "unavailable":
        return "none"
    if basis == "estimated" or curve is None or curve.doubtful or scatter is None:
        return "low"
    if found.sessions == 1 or scatter.held < WELL_HELD * max(1, scatter.tried):
        return "low"
    return "high" if found.sessions >= MANY_SESSIONS else "medium"


def _advice(ci: tuple[float, float] | None) -> Recommendation:
    if ci is None or ci[0] <= 0 <= ci[1]:
        return "depends"
    return "quantize" if ci[1] < 0 else "do_not_quantize"


def _verdict(found: _Found | None, ci: tuple[float, float] | None, reason: str | None) -> str:
    if found is None or ci is None:
        return f"No answer: {reason}."
    if found.half == 0:
        return "FP16 is what the others are compared with."
    what = "saves" if ci[1] < 0 else "costs" if ci[0] > 0 else "may save or cost"
    span = f"{signed(ci[0], 0)} to {signed(ci[1], 0)} %"
    return f"Quantizing {what} energy: {span} against FP16, {found.basis}."


def _notes(
    asked: Query, like: Shape, curve: Curve | None, measured_as: str, unlike: str | None
) -> tuple[str, ...]:
    notes = []
    if asked.arch is not None:
        notes.append(
            f"{asked.arch} is answered for {asked.card.name}: other boards of it may differ."
        )
    if measured_as != asked.card.name:
        notes.append(f"Measured on {measured_as}, which is alike but for NVLink.")
    if curve is not None:
        notes += curve.notes
    if _vram(like, asked._replace(precision=BASELINE)) > asked.card.memory_gb:
        notes.append("FP16 of this size does not fit the board: there is nothing to compare with.")
    if asked.context > MEASURED_CONTEXT and unlike is None:
        notes.append(f"Measured at a context of {MEASURED_CONTEXT}; more changes little here.")
    return tuple(notes)
