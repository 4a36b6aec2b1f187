"""What ``ecocompute gate --json`` prints: whether a change costs energy, as far as can be told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ecocompute_cube.model.base import Absent, Count, Record
from ecocompute_cube.model.claims import Unit

Grade = Literal["unchanged", "improved", "regressed", "undecided", "not gradable"]


class ChangeInterval(Record):
    """A two-sided confidence interval of a change (Student's t on log ratios)."""

    low: float
    high: float
    confidence: float
    unit: Unit  #: what scatters: sessions of the baseline, or blocks of the run


class Graded(Record):
    """One arm of the head: against its baseline sessions, or against the base's in the same run."""

    arm: str  #: model, precision, runtime, workload
    against: str  #: what it is held against
    change_pct: float | Absent  #: of its ratio to FP16, or to the base's arm, in percent
    interval_pct: ChangeInterval | Absent
    head_sessions: Count
    base_sessions: Count
    #: `unchanged`: the interval lies within ± the tolerance; `improved`, `regressed`: beyond it;
    #: `undecided`: across an end of it; `not gradable`: there is nothing to grade by
    grade: Grade
    says: str  #: one sentence


class Gate(Record):
    """Every arm of one head."""

    format: Literal["ecocompute-gate/1"]
    head: str  #: name of the file or folder
    base: str  #: the same, or `the same run`
    tolerance_pct: float = Field(gt=0)
    exit_status: Literal[0, 1, 5]  #: 1: one is worse; 5: none is, and one cannot be graded
    graded: tuple[Graded, ...]
