"""energy.json, version ecocompute-energy/2.0: what one arm of one run claims.

Format history
    1.0–1.3  published by the EcoCompute dataset (H. Zhang); read for ever, never written
    1.4      published draft with the environment block
    2.0      the same names, stricter, all of it required; blocks for interval, verdict, runtime,
             phases, certificate, why, findings. One file sums its blocks; ``iterations`` counts
             per window.

Where a published field may be null, a sentence beside it says why. No field is computed and only
``environment.isolation`` has a default (it came later): what is read is what was written.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ecocompute_cube.model.base import (
    Absent,
    Count,
    MaybeFloat,
    MaybeInt,
    MaybeStr,
    Record,
    Sha256,
    UtcTime,
)
from ecocompute_cube.model.claims import Comparison, Finding, Idle, Interval
from ecocompute_cube.model.journal import Certificate, Isolation
from ecocompute_cube.model.manifest import Weights
from ecocompute_cube.model.plan import Mode, Phase, Precision, Runtime
from ecocompute_cube.model.readings import EARLY, EARLY_FIELD, PowerKind
from ecocompute_cube.model.stop import Stopping
from ecocompute_cube.model.why import Why

Positive = Annotated[float, Field(gt=0)]


class SystemUnderTest(Record):
    """The board and its host. In a rehearsal there is no board: names say ``none``."""

    gpu: str
    gpu_arch: str
    accelerator_count: Count
    host: str
    compute_capability: MaybeStr
    memory_mib: MaybeInt
    power_limit_w: MaybeFloat
    virtualization: MaybeStr
    boards_sha256: tuple[Sha256, ...]  #: one hash a board the blocks ran on
    cpu: MaybeStr
    cpu_cores: int


class Workload(Record):
    """What was decoded. ``context_length`` is prompt plus output, really applied."""

    model_name: str
    params_b: Positive
    precision: Precision
    runtime: Runtime
    batch_size: int = Field(ge=1)
    prompt_tokens: int = Field(ge=1)
    output_tokens: int = Field(ge=1)
    context_length: int = Field(ge=1)
    phase: Phase | Absent = EARLY  #: the part of a generation that windows repeat
    decoding: Literal["greedy"]
    model_reference: str
    model_sha256: Sha256
    weights: Weights
    prompt_sha256: Sha256 | Absent


class CrossCheck(Record):
    """The trace's integral over the same windows. Beside the counter, never averaged with it."""

    source: PowerKind
    energy_per_token_mj: Positive
    difference_pct: float  #: integral against the headline
    achieved_rate_hz: Positive  #: the lowest of any window
    windows: int = Field(ge=1)
    #: what the samples leave open of it; early versions left it out
    bound_mj: tuple[float, float] | Absent = EARLY


class Measurement(Record):
    """How it was measured."""

    method: str
    source: PowerKind
    sample_rate_hz: int | None  #: whole hertz the side sampler achieved; null without one
    tokens_per_run: int = Field(ge=1)
    iterations: int = Field(ge=1)  #: generations a window; the fewest where windows differ
    warmup: Count  #: unmeasured passes before a window; the fewest
    window: Literal["generation"]
    mode: Mode
    blocks: Count
    sessions: Count
    stopping: tuple[Stopping, ...] | Absent = EARLY  #: the rule that ended each session
    resident: bool
    counter_tick_ms: MaybeFloat
    cross_check: CrossCheck | Absent
    iterations_note: str


class BoardEnergy(Record):
    """One board's part of the energy, where a model is split over several."""

    board_sha256: Sha256  #: of its UUID
    energy_joules: float  #: over the counted windows
    reading_bound_joules: tuple[float, float]  #: what this board's own readings allow
    avg_power_watts: float  #: over the work
    weight_bytes: MaybeInt  #: of the arm's weights, on this board


class ResultsMeasured(Record):
    """Numbers from a board, or the sums of several."""

    basis: Literal["measured"]
    total_energy_joules: Positive
    tokens_generated: int = Field(ge=1)
    energy_per_token_mj: Positive
    energy_per_token_interval_mj: Interval | Absent
    reading_bound_mj: tuple[float, float]  #: what the readings allow, gain of the board apart
    avg_power_watts: Positive
    throughput_tokens_per_s: Positive
    work_seconds: Positive
    net_energy_per_token_mj: MaybeFloat  #: above idle; absent unless beyond 3 times idle's drift
    idle_power: Idle | Absent = EARLY  #: with the models loaded
    fp16_energy_per_token_mj: Positive | None
    vs_fp16_energy_pct: float | None
    vs_fp16: Comparison | Absent
    per: Literal["output token", "prompt token"] | Absent = EARLY  #: what energy is divided by
    time_to_first_token_s: MaybeFloat = EARLY  #: of phase prefill: median over generations
    vs_baseline: Comparison | Absent = EARLY  #: where FP16 does not fit: against what stands in
    #: what the energy is the sum of, where a model is split over boards; left out if it is not
    boards: tuple[BoardEnergy, ...] | Absent = EARLY_FIELD
    note: str


class ResultsEstimated(Record):
    """Numbers from a curve through other people's measurements. Never called measured."""

    basis: Literal["interpolated", "extrapolated"]
    energy_per_token_mj: Positive
    fp16_energy_per_token_mj: Positive | None
    vs_fp16_energy_pct: float | None
    note: str


class ResultsUnavailable(Record):
    """No number, and why."""

    basis: Literal["unavailable"]
    energy_per_token_mj: None
    fp16_energy_per_token_mj: None
    vs_fp16_energy_pct: None
    tokens_generated: Count
    throughput_tokens_per_s: Positive | None
    note: str


class Software(Record):
    """What ran. The reference pins are the published container's, for comparison only."""

    python: str
    packages: dict[str, str]
    torch_cuda: str | None
    nvidia_driver: str | None
    reference_pins: dict[str, str]
    matches_reference_pins: bool
    differs_from_reference_pins: tuple[str, ...]
    comparability_note: str


class Corpus(Record):
    """The text that was scored."""

    name: str
    bytes: int = Field(ge=1)
    sha256: Sha256


class QualityMeasured(Record):
    """Teacher-forced perplexity, after the energy window."""

    metric: Literal["perplexity"]
    basis: Literal["measured"]
    value: Positive
    mean_nll: float
    tokens_evaluated: int = Field(ge=1)
    windows: int = Field(ge=1)
    seq_len: int = Field(ge=2)
    corpus: Corpus
    fp16_value: Positive | None
    delta_vs_fp16_pct: float | None
    delta_interval_pct: Interval | Absent = EARLY  #: over the windows of the text
    note: str


class QualityUnavailable(Record):
    """No perplexity, and why."""

    metric: Literal["perplexity"]
    basis: Literal["unavailable"]
    value: None
    note: str


class Thermal(Record):
    """Temperatures around the windows. Null where the board gave none; ``note`` says why."""

    mode: Literal["cold", "steady"]
    basis: Literal["measured", "unavailable"]
    warmup_runs: Count
    cooldown_s: float
    temperature_start_c: float | None
    temperature_steady_c: float | None
    temperature_end_c: float | None
    temperature_peak_c: float | None
    steady_state_reached: bool
    arm_order: Literal["randomized"]
    note: str


class TraceFile(Record):
    """One visit's trace beside the journal; phases in seconds since its first sample."""

    role: Literal["primary"]
    precision: Precision
    file: str
    samples: Count
    dropped_samples: Count
    phases: dict[str, float]
    sha256: Sha256
    achieved_rate_hz: MaybeFloat
    longest_gap_s: MaybeFloat
    board: MaybeInt = EARLY_FIELD  #: its place in the session; left out if there is one board


class PowerTrace(Record):
    """The side sampler's files."""

    format: Literal["csv.gz"]
    columns: tuple[str, ...]
    sample_rate_hz: int
    window: Literal["visit"]
    window_note: str
    files: tuple[TraceFile, ...]


class Clocks(Record):
    """Clocks in MHz at the first window's start and the last one's end."""

    sm_start: float | None
    mem_start: float | None
    sm_end: float | None
    mem_end: float | None


class Temperatures(Record):
    """Degrees Celsius."""

    idle_before: float | None
    start: float | None
    end: float | None
    peak: float | None


class Environment(Record):
    """The published 1.4 draft's block. ``reasons`` explains every null by its field's name."""

    gpu_uuid: str | None  #: a SHA-256, never the UUID itself
    power_limit_w: float | None
    power_limit_source: str
    clocks_mhz: Clocks
    temperature_c: Temperatures
    clock_lock_applied: Literal[False]  #: the cube never touches clocks or limits
    power_lock_applied: Literal[False]
    capture_method: str
    event_reasons: tuple[str, ...] | Absent
    foreign_processes: MaybeInt
    #: containers and namespaces around the first session; left out where the journal is older
    isolation: Isolation | Absent = EARLY_FIELD
    #: a Linux under Windows, where NVML offers less; left out where the journal is older
    wsl2: bool | Absent = EARLY_FIELD
    reasons: dict[str, str]


class Provenance(Record):
    """Where the numbers can be recomputed from."""

    tool: Literal["ecocompute-cube"]
    tool_version: str
    run_id: str
    plan_name: str
    plan_sha256: Sha256
    journal_sha256: Sha256  #: of the journal's last whole line when this was written
    arm: str


class EnergyReport(Record):
    """One arm of one run."""

    schema_version: Literal["ecocompute-energy/2.0"]
    benchmark: Literal["ecocompute-energy-methodology"]
    follows_mlcommons_energy_reporting_conventions: Literal[True]
    certified_benchmark_result: Literal[False]
    scenario: Literal["SingleStream", "Offline"]
    scenario_note: str
    timestamp_utc: UtcTime
    rehearsal: bool
    measurement_source: Literal["direct-nvml", "none", "scripted"]
    system_under_test: SystemUnderTest
    workload: Workload
    measurement: Measurement
    results: Annotated[
        ResultsMeasured | ResultsEstimated | ResultsUnavailable, Field(discriminator="basis")
    ]
    software: Software
    quality: Annotated[QualityMeasured | QualityUnavailable, Field(discriminator="basis")]
    thermal: Thermal
    power_trace: PowerTrace | Absent
    environment: Environment
    certificate: Certificate | Absent
    phases: Absent  #: prefill and decode apart
    why: Why | Absent  #: where the energy went
    findings: tuple[Finding, ...]
    provenance: Provenance
    notice: str
