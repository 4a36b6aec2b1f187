"""The words of a claim: interval, verdict, comparison, finding."""

from __future__ import annotations

import enum
from typing import Annotated, Literal

from pydantic import Field

from ecocompute_cube.model.base import Absent, Count, Record
from ecocompute_cube.model.readings import EARLY

Unit = Literal["blocks", "sessions", "windows"]  #: windows are of a text


#: A change of an energy: nothing takes none.
ChangePct = Annotated[float, Field(gt=-100)]


class Interval(Record):
    """A two-sided confidence interval of a mean over replicates (Student's t)."""

    low: float
    high: float
    confidence: float
    n: int = Field(ge=2)
    unit: Unit  #: what the replicates are


class Idle(Record):
    """Power of the board at rest with the models loaded, around the windows; their means."""

    before_w: float = Field(gt=0)  #: before the warm-up
    after_w: float = Field(gt=0)  #: after the window
    drift_w: float = Field(ge=0)  #: from one to the other, or what the readings leave open
    windows: int = Field(ge=1)  #: that it was read around


class Effect(Record):
    """By how much something moves the energy, tested against not at all."""

    change_pct: float  #: from the first to the last
    interval_pct: Interval
    p: float = Field(ge=0, le=1)  #: of a change at least so large, were there none


class Verdict(enum.StrEnum):
    """What an interval says about a threshold ±τ that was stored before the run."""

    LOWER = "lower"  #: all of it below −τ
    HIGHER = "higher"  #: all of it above +τ
    SAME = "same"  #: all of it within ±τ
    INCONCLUSIVE = "inconclusive"  #: anything else, also a single replicate
    INVALID = "invalid"  #: the two sides may not be compared


class Agreement(Record):
    """How far two arms' greedy output is the same, of one row after one prompt."""

    tokens: int = Field(ge=1)  #: of each
    before_first_difference: Count  #: tokens until they part; all of them, where they do not
    alike: Count  #: at the same place


class Comparison(Record):
    """Energy per token of an arm relative to another, paired within blocks."""

    arm: str
    against: str
    change_pct: float | Absent  #: (geometric mean of the paired ratios − 1) × 100
    interval_pct: Interval | Absent
    threshold_pct: float
    verdict: Verdict
    pairs_pct: tuple[ChangePct, ...]  #: each replicate's change
    unit: Unit
    n: Count
    blocks: Count
    sessions: Count
    reason: str  #: one sentence
    output: Agreement | Absent = EARLY  #: whether both say the same


class Finding(Record):
    """Something a reader must know before believing a number."""

    code: str
    subject: str  #: an arm, or "run"
    cause: str
    fix: str
    effect: Literal["invalid", "lowers the tier", "note"]
