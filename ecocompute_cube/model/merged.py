"""What several runs say together, and what keeps them apart."""

from __future__ import annotations

from pydantic import Field

from ecocompute_cube.model.base import Absent, Count, MaybeFloat, MaybeStr, Record
from ecocompute_cube.model.claims import Interval, Unit, Verdict
from ecocompute_cube.model.crossover import Crossover
from ecocompute_cube.model.plan import Workload
from ecocompute_cube.model.readings import EARLY


class ArmKind(Record):
    """What an arm is, whichever run measured it."""

    model: str
    params_b: float = Field(gt=0)
    precision: str  #: ours, or a publisher's own
    runtime: str
    workload: Workload


class Member(Record):
    """One session of one run."""

    run_id: str
    session: Count
    board_sha256: MaybeStr  #: of the board's UUID
    change_pct: float  #: geometric mean over its blocks
    blocks: Count


class Pooled(Record):
    """One arm of several runs whose keys agree, against FP16 of the same session each."""

    arm: ArmKind
    keys: dict[str, str]  #: what had to agree, and does
    members: tuple[Member, ...]
    boards: Count  #: different ones, of those that are known
    change_pct: float
    interval_pct: Interval | Absent
    unit: Unit
    n: Count
    mj_per_token: MaybeFloat = EARLY  #: geometric mean over the sessions
    interval_mj: Interval | Absent = EARLY  #: of it, over the sessions
    threshold_pct: float | Absent  #: τ; absent where the runs stored different ones
    verdict: Verdict
    lowered_by: tuple[str, ...]  #: codes of findings that lower the tier of a member


class Differing(Record):
    """A key that two groups of runs do not share."""

    key: str
    here: MaybeStr
    there: MaybeStr


class KeptApart(Record):
    """An arm that several runs measured, not pooled because a key differs."""

    arm: ArmKind
    runs: tuple[str, ...]
    others: tuple[str, ...]  #: the runs that it was kept apart from: those that differ least
    differs: tuple[Differing, ...]


class SizeCurve(Record):
    """Change of energy over model size, of arms whose keys agree."""

    precision: str
    runtime: str
    workload: Workload
    keys: dict[str, str]  #: those that do not name a model
    runs: tuple[str, ...]
    weights: tuple[str, ...]  #: where the models' weights come from
    crossover: Crossover
