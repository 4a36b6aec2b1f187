"""What there is to ask about: generations of boards, and what was measured of each."""

from __future__ import annotations

from typing import NamedTuple

from ecocompute_cube.analysis.cards import ARCHES
from ecocompute_cube.analysis.curves import library


class Known(NamedTuple):
    """One precision on the board that stands for a generation, decoded eagerly."""

    measured_range_b: tuple[float, float] | None  #: None where nothing could be fitted
    crossover_b: float | None
    sessions: int
    curve: bool  #: whether sizes between are answered by a curve


class Generation(NamedTuple):
    """In the field names of the published API."""

    label: str
    gpu: str
    precisions: dict[str, Known]


def architectures() -> dict[str, Generation]:
    """Every generation, also those of which nothing was measured."""
    return {
        name: Generation(each.label, each.card.name, _precisions(each.card.name))
        for name, each in ARCHES.items()
    }


def _precisions(gpu: str) -> dict[str, Known]:
    return {
        precision: Known(
            (curve.sizes[0].params_b, curve.sizes[-1].params_b) if curve.sizes else None,
            curve.crossing[0],
            len(curve.sessions),
            bool(curve.knots),
        )
        for (board, precision, runtime), curve in library().ratios.items()
        if (board, runtime) == (gpu, "eager")
    }
