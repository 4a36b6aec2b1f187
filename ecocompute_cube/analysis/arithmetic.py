"""Whether the figures of one measured document agree with each other; no journal needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from ecocompute_cube.analysis.clauses import is_measured
from ecocompute_cube.analysis.documents import Document, at, number_at
from ecocompute_cube.model.base import Record
from ecocompute_cube.units import percent, signed

_REL: Final = 1e-3  # three figures: the coarsest printing seen in the published documents
_POINTS: Final = 0.1  # vs_fp16_energy_pct is published with one decimal
_BLOCKS_REL: Final = 1e-2  # over blocks the mean of the ratios is not quite the ratio of the sums
_POWER_REL: Final = 0.15  # counter and samples differed by up to 11 % on one board


class Disagreement(Record):
    """Figures that do not fit each other, or do not follow from the evidence."""

    code: str
    cause: str
    fix: str


def disagreements(document: Document) -> Iterator[Disagreement]:
    """What the figures of a measured document contradict; nothing for estimates."""
    if is_measured(document):
        for code, (check, fix) in _CHECKS.items():
            cause = check(document)
            if cause is not None:
                yield Disagreement(code=f"arithmetic.{code}", cause=cause, fix=fix)


def _energy_per_token(document: Document) -> str | None:
    joules, tokens, stated = _results(
        document, "total_energy_joules", "tokens_generated", "energy_per_token_mj"
    )
    if joules is None or not tokens or stated is None:
        return None
    derived = joules / tokens * 1000
    if math.isclose(derived, stated, rel_tol=_REL):
        return None
    return f"{joules:g} J over {tokens:g} tokens is {derived:.6g} mJ a token, not {stated:g}."


def _vs_fp16(document: Document) -> str | None:
    mj, baseline, stated = _results(
        document, "energy_per_token_mj", "fp16_energy_per_token_mj", "vs_fp16_energy_pct"
    )
    if mj is None or not baseline or stated is None:
        return None
    derived = percent(mj / baseline)
    points = _POINTS if _blocks(document) == 1 else _BLOCKS_REL * 100 * mj / baseline
    # A hair more, so that 0.1 itself passes in binary.
    if math.isclose(derived, stated, rel_tol=_REL, abs_tol=points * 1.001):
        return None
    return f"{mj:g} mJ against {baseline:g} mJ is {signed(derived, 2)} %, not {stated:+g} %."


def _tokens_generated(document: Document) -> str | None:
    """Blocks are known to 2.x alone; a document without them holds one."""
    (stated,) = _results(document, "tokens_generated")
    per_run = number_at(document, "measurement.tokens_per_run")
    iterations = number_at(document, "measurement.iterations")
    batch = number_at(document, "workload.batch_size")
    if stated is None or per_run is None or iterations is None or batch is None:
        return None
    blocks = _blocks(document)
    derived = per_run * iterations * batch * blocks
    fewest = at(document, "measurement.mode") == "precise"  # then windows may hold more iterations
    if derived == stated or (fewest and derived < stated):
        return None
    return (
        f"{per_run:g} tokens × {iterations:g} iterations × batch {batch:g} × {blocks:g} blocks "
        f"is {derived:.15g}, not {stated:.15g}."
    )


def _blocks(document: Document) -> float:
    for place in ("results.blocks", "measurement.blocks"):
        blocks = number_at(document, place)
        if blocks is not None:
            return blocks
    return 1.0


def _power(document: Document) -> str | None:
    """Plausible, not equal: the mean of samples is not the counter's energy over time."""
    joules, watts, tokens, rate = _results(
        document,
        "total_energy_joules",
        "avg_power_watts",
        "tokens_generated",
        "throughput_tokens_per_s",
    )
    if joules is None or watts is None or not tokens or not rate:
        return None
    wall_s = tokens / rate
    if math.isclose(watts * wall_s, joules, rel_tol=_POWER_REL):
        return None
    return f"{watts:g} W for {wall_s:.4g} s is {watts * wall_s:.4g} J, far from {joules:g} J."


def _results(document: Document, *keys: str) -> tuple[float | None, ...]:
    return tuple(number_at(document, f"results.{key}") for key in keys)


_REMEASURE: Final = "Recompute it from the evidence beside the document, or measure again."
_CHECKS: Final[dict[str, tuple[Callable[[Document], str | None], str]]] = {
    "energy_per_token": (_energy_per_token, _REMEASURE),
    "vs_fp16": (_vs_fp16, _REMEASURE),
    "tokens_generated": (
        _tokens_generated,
        "Count what was generated: an early end of sequence makes fewer tokens than asked for.",
    ),
    "power": (_power, "Check that energy, power and throughput are of the same window."),
}
