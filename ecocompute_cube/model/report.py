"""report.json: what a whole run claims."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from ecocompute_cube.model.base import Absent, Count, MaybeFloat, Record, Sha256, UtcTime
from ecocompute_cube.model.claims import ChangePct, Comparison, Effect, Finding, Idle, Interval
from ecocompute_cube.model.journal import Certificate, Host, OtherBoard
from ecocompute_cube.model.manifest import Weights
from ecocompute_cube.model.merged import KeptApart, Pooled, SizeCurve
from ecocompute_cube.model.plan import Plan, Precision, Runtime, Workload
from ecocompute_cube.model.readings import (
    EARLY,
    EARLY_FIELD,
    Board,
    PowerKind,
    Tick,
)
from ecocompute_cube.model.stop import Stopping
from ecocompute_cube.model.why import Why

FORMAT: Final = "ecocompute-report/1"


class Energy(Record):
    """An arm's energy over its counted windows."""

    source: PowerKind
    total_j: float = Field(gt=0)
    mj_per_token: float = Field(gt=0)
    interval_mj: Interval | Absent
    bound_mj: tuple[float, float]
    mean_power_w: float = Field(gt=0)
    idle: Idle | Absent  #: power of the board at rest
    net_mj_per_token: MaybeFloat  #: above idle; absent unless beyond three times idle's drift
    blocks_mj: tuple[float, ...]  #: mJ per token of each block


class Perplexity(Record):
    """An arm's quality on the run's text."""

    value: float = Field(gt=0)
    delta_pct: MaybeFloat  #: against the baseline's in the same run
    delta_interval_pct: Interval | Absent  #: over the windows of the text
    scored_tokens: int = Field(ge=1)


class SessionChange(Record):
    """What one session says of an arm."""

    session: Count
    mj_per_token: float = Field(gt=0)  #: geometric mean over its blocks
    pairs_pct: tuple[
        ChangePct, ...
    ]  #: change of each block that both arms have; empty of a baseline


class ArmReport(Record):
    """One arm: what it is and what was found."""

    arm: str
    model: str
    weights: Weights
    model_sha256: Sha256 | Absent = EARLY  #: of all files of the model
    params_b: float
    precision: Precision
    runtime: Runtime
    replica: int = Field(ge=1)  #: beyond 1: the same arm again, in a process of its own
    workload: Workload
    windows: Count  #: that count
    blocks: Count
    sessions: Count
    output_tokens: Count
    tokens_per_s: MaybeFloat
    time_to_first_token_s: MaybeFloat  #: of phase prefill: median over generations
    energy: Energy | Absent
    is_baseline: bool  #: whether others are compared with this arm
    vs_baseline: Comparison | Absent
    by_session: tuple[SessionChange, ...] | Absent = EARLY  #: where energy was measured
    perplexity: Perplexity | Absent
    why: Why | Absent  #: where its energy goes
    certificate: Certificate | Absent = EARLY  #: what was loaded under its name, the first time
    load_s: MaybeFloat = EARLY  #: to load, certify, compile and capture, the first time
    lowered_by: tuple[str, ...]  #: codes of findings that lower the tier


class SessionReport(Record):
    """One board, or several that models are split over, driver, boot and host."""

    session: Count
    opened_utc: UtcTime
    board: Board | Absent
    tick: Tick | Absent
    #: the boards after the first; left out if there are none
    others: tuple[OtherBoard, ...] | Absent = EARLY_FIELD
    host: Host
    python: str
    packages: dict[str, str]
    resident: bool


class Trends(Record):
    """Whether energy depends on when an arm was measured, within one session and group."""

    session: Count
    group: Count
    position: Effect | Absent  #: from the first place of a block to the last
    drift: Effect | Absent  #: from the first block to the last


class ArmRefused(Record):
    """An arm that could not be measured at a visit."""

    arm: str
    stage: str  #: load, certify, warm or window
    reason: str  #: a code
    cause: str  #: one sentence
    fix: str  #: what to do


class BlockReport(Record):
    """One block as it went: who came when, and whether it counts."""

    session: Count
    group: Count
    block: Count
    order: tuple[str, ...]  #: the arms, as drawn
    measured: tuple[str, ...]  #: those that were, in that order
    refused: tuple[ArmRefused, ...]  #: those that could not be
    counts: bool  #: only whole blocks do
    why: str  #: that it does not, or "all arms visited"


class Evidence(Record):
    """What the claim rests on."""

    journal_sha256: Sha256
    lines: int
    torn_bytes: Count
    traces: Count
    visits: int  #: times the program worked on this journal


class Report(Record):
    """One run."""

    format: Literal["ecocompute-report/1"]
    tool_version: str
    run_id: str
    started_utc: UtcTime
    rehearsal: bool
    question: str
    answer: str
    plan: Plan
    plan_sha256: Sha256
    arms: tuple[ArmReport, ...]
    comparisons: tuple[Comparison, ...]
    stopping: tuple[Stopping, ...]
    trends: tuple[Trends, ...]
    schedule: tuple[BlockReport, ...] | Absent = EARLY  #: every block that began
    sessions: tuple[SessionReport, ...]
    findings: tuple[Finding, ...]
    evidence: Evidence


class ReportFile(Record):
    """report.json: every run of a results folder, by run id, and what they say together."""

    format: Literal["ecocompute-report-file/1"]
    runs: tuple[Report, ...]
    unreadable: tuple[str, ...]  #: journals that could not be read or counted, and why
    pooled: tuple[Pooled, ...] | Absent = EARLY  #: arms of several runs, taken together
    kept_apart: tuple[KeptApart, ...] | Absent = EARLY  #: arms of several runs, not taken together
    crossovers: tuple[SizeCurve, ...] | Absent = EARLY  #: one a precision, runtime, board and stack
