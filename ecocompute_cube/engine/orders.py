"""What the runner asks of an arm's process, and what it gets back: one JSON line each way."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ecocompute_cube.model.base import Absent, Count, Record
from ecocompute_cube.model.cost import Calibrated, Profiled
from ecocompute_cube.model.journal import (
    ArmReady,
    QualityScored,
    QualitySkipped,
    Warmed,
    WindowMeasured,
)
from ecocompute_cube.model.manifest import Manifest
from ecocompute_cube.model.plan import Arm, Protocol
from ecocompute_cube.model.readings import IdleReading, Tick


class Place(Record):
    """Where in the run a visit is."""

    session: Count
    group: Count
    block: Count
    position: Count


class Load(Record):
    """Load the arm and prove what it is."""

    step: Literal["load"] = "load"
    session: Count
    arm: Arm
    manifest: Manifest
    folder: str
    protocol: Protocol
    prompt_text: str  #: path of the text that prompts are cut from


class Warm(Record):
    """Run unmeasured passes until settled."""

    step: Literal["warm"] = "warm"
    place: Place
    tick_s: float | None  #: of the energy counter; None without one
    own_processes: tuple[int, ...]


class Measure(Record):
    """Do the work of one window."""

    step: Literal["measure"] = "measure"
    place: Place
    delay_s: float = Field(ge=0)
    least_s: float | None  #: generations until so long; None: a count of them
    own_processes: tuple[int, ...]


class Score(Record):
    """Score the quality text."""

    step: Literal["score"] = "score"
    text: str  #: path
    name: str
    window_tokens: int
    max_windows: int | None


class Profile(Record):
    """Generate once more under a profiler. The arm measures nothing after it."""

    step: Literal["profile"] = "profile"


class Calibrate(Record):
    """Measure what a byte and an operation cost the board. The process has no arm."""

    step: Literal["calibrate"] = "calibrate"
    session: Count
    tick: Tick | Absent  #: of the energy counter
    bare: IdleReading | Absent  #: read before this process was there
    own_processes: tuple[int, ...]


Order = Annotated[Load | Warm | Measure | Score | Profile | Calibrate, Field(discriminator="step")]
Answer = ArmReady | Warmed | WindowMeasured | QualityScored | QualitySkipped | Profiled | Calibrated


class OrderLine(Record):
    """One line towards the arm's process."""

    order: Order


class Failure(Record):
    """Why an order could not be carried out."""

    reason: str
    cause: str
    fix: str


class AnswerLine(Record):
    """One line back: a fact for the journal, or a failure."""

    fact: Annotated[Answer, Field(discriminator="kind")] | None
    failure: Failure | None
