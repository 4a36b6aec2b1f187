"""Where a change of energy turns its sign over model size."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ecocompute_cube.model.base import Absent, Count, MaybeFloat, Record
from ecocompute_cube.model.claims import Interval, Unit
from ecocompute_cube.model.readings import EARLY

Size = Annotated[float, Field(gt=0)]
CrossoverStatus = Literal["crosses", "not in this range", "undecided", "refused"]


class SizeRange(Record):
    """Sizes at which the change may be zero; an absent end lies beyond the sizes measured."""

    low_b: Size | Absent
    high_b: Size | Absent
    confidence: float


class SizePoint(Record):
    """What was measured at one size."""

    params_b: Size
    models: tuple[str, ...]
    change_pct: float  #: geometric mean over the replicates
    n: int = Field(ge=1)  #: replicates
    interval_pct: Interval | Absent = EARLY  #: by their own spread, not the pooled one


class CurvePoint(Record):
    """The fit and its band at one size."""

    params_b: Size
    change_pct: float
    low_pct: MaybeFloat  #: absent where the replicates have no spread to pool
    high_pct: MaybeFloat


class Crossover(Record):
    """Change of energy over model size: a monotone fit, and where it is zero."""

    status: CrossoverStatus
    size_b: Size | Absent  #: where the fit changes its sign
    size_range_b: SizeRange | Absent
    direction: Literal["falls", "rises"] | Absent  #: the change, with size
    spread_pct: MaybeFloat  #: of one replicate, pooled over the sizes
    degrees: Count  #: of freedom of that spread
    unit: Unit  #: what the replicates are
    says: str  #: one sentence
    points: tuple[SizePoint, ...]  #: by size
    curve: tuple[CurvePoint, ...]  #: evenly on a logarithmic axis, the measured sizes among them
