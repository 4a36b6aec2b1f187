"""What there is to ask about, and what the answers rest on."""

from __future__ import annotations

from typing import Final, NamedTuple

from ecocompute_cube.analysis.cards import ARCHES
from ecocompute_cube.analysis.curves import library


class Known(NamedTuple):
    """One precision on the board that stands for a generation, decoded eagerly."""

    measured_range_b: tuple[float, float] | None  #: None where nothing could be fitted
    crossover_b: float | None
    sessions: int
    curve: bool  #: whether sizes between are answered by a curve


class Dataset(NamedTuple):
    """One session of measurements, as the shipped curves hold it."""

    session: str
    source: str  #: a DOI, a file of a repository, or a folder of ours
    license: str
    gpu: str
    arms: tuple[str, ...]
    params_b: tuple[float, ...]
    rows: int


#: Of the published files as of ours (published/SOURCES.md, data/h200/README.md).
_LICENSE: Final = "CC-BY-4.0"


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


def datasets() -> tuple[Dataset, ...]:
    """Every session that answers rest on, by source."""
    seen: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for (_, precision, runtime), curve in library().ratios.items():
        for anchor in curve.anchors:
            of = (anchor.source, anchor.session, anchor.gpu)
            seen.setdefault(of, []).append((f"{precision}/{runtime}", anchor.N))
    return tuple(
        Dataset(
            session,
            source,
            _LICENSE,
            gpu,
            tuple(sorted({arm for arm, _ in rows})),
            tuple(sorted({size for _, size in rows})),
            len(rows),
        )
        for (source, session, gpu), rows in sorted(seen.items())
    )


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
