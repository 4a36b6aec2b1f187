"""What ``ecocompute compare --json`` prints: whether two reports find the same."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ecocompute_cube.model.base import Absent, Record
from ecocompute_cube.model.merged import ArmKind, Differing

Agreeing = Literal["same", "consistent", "different", "undecided"]


class Side(Record):
    """What one of the two found of an arm."""

    runs: tuple[str, ...]  #: or published sessions
    change_pct: float  #: against FP16: geometric mean over the sessions
    sessions: int = Field(ge=1)
    blocks: int = Field(ge=1)  #: of all sessions; of published ones, the same arm again in one


class DifferenceInterval(Record):
    """A two-sided confidence interval of a difference (Student's t on log ratios)."""

    low: float
    high: float
    confidence: float
    degrees: int = Field(ge=1)  #: of freedom of the spread behind it
    unit: Literal["sessions", "blocks"]  #: what that spread is of


class Compared(Record):
    """One arm of both: the ratio to FP16 here, over that there."""

    arm: ArmKind
    here: Side
    there: Side
    points: float  #: change here less change there, in percentage points
    difference_pct: float  #: (ratio here / ratio there − 1) × 100
    interval_pct: DifferenceInterval | Absent
    threshold_pct: float  #: τ, the largest that either stored
    #: `same`: the interval lies within ±τ; `consistent`: it reaches into ±τ; `different`: it lies
    #: beyond; `undecided`: there is none
    finding: Agreeing
    says: str  #: one sentence
    differs: tuple[Differing, ...]  #: between the stacks; a key that one side does not tell counts


class Replication(Record):
    """Two reports, or a report and the published measurements."""

    format: Literal["ecocompute-comparison/1"]
    here: str  #: name of the file or folder
    there: str  #: the same, or `published`
    exit_status: Literal[0, 1]
    compared: tuple[Compared, ...]
    alone: tuple[ArmKind, ...]  #: arms that only the first has
