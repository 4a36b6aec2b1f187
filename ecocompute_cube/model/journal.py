"""What happened: one fact a line, each line bound to the one before it.

A line is ``{"seq", "prev", "utc", "record"}``; ``prev`` is the SHA-256 of the previous line's bytes
without its newline (64 zeros for the first). Records are raw: readings and clocks as they were
seen. Energy, ratios and verdicts are computed later, from these lines alone.

    run ─▶ session ─▶ block opened ─▶ (ready ▸ warmed ▸ window ▸ quality ▸ trace)* ─▶ block closed
     ▲        ▲            per arm, in the block's random order; a refusal takes an arm's place
     │        └ one board, driver, boot and host
     └ one plan; "resumed" marks each later visit of the program to the same journal

All ``*_ns`` are nanoseconds of CLOCK_MONOTONIC, one clock for every process of a host, meaningless
across boots.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field

from ecocompute_cube.model.around import Cooled
from ecocompute_cube.model.base import (
    Absent,
    Count,
    MaybeFloat,
    MaybeInt,
    MaybeStr,
    NonNegative,
    Record,
    Sha256,
    UtcTime,
)
from ecocompute_cube.model.capabilities import Capabilities
from ecocompute_cube.model.cost import Calibrated, Profiled, StepCost
from ecocompute_cube.model.manifest import Manifest
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.model.readings import (
    EARLY,
    EARLY_FIELD,
    LOOK_FIELD,
    Board,
    CounterBracket,
    IdleReading,
    Ns,
    OtherReadings,
    PowerKind,
    Span,
    Telemetry,
    Tick,
)
from ecocompute_cube.model.stop import Stopped

FORMAT: Final = "ecocompute-journal/1"
#: Columns of a trace file; every cell but the time may be empty. Event reasons are names joined by
#: ``+``, or ``-`` for none; the first recordings have no such column.
TRACE_COLUMNS: Final = (
    "t_ns",
    "power_w",
    "temperature_c",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "event_reasons",
)
GENESIS: Final = "0" * 64  #: ``prev`` of the first line
#: The place of a board in its session, from 0; left out when written if it is the first.
PLACE_FIELD: Final[Any] = Field(default=0, exclude_if=lambda value: not value)

ContainerKind: TypeAlias = Literal["docker", "podman", "other"]
Reach: TypeAlias = Literal["host", "namespace"]


class Host(Record):
    """The machine around the board. No host name, no user name, no path."""

    platform: str
    cpu: MaybeStr
    cores: int = Field(ge=1)  #: those this process may use
    memory_mib: MaybeInt
    boot_sha256: Sha256 | Absent
    container: MaybeStr
    #: a Linux under Windows, where NVML offers less; left out by early versions
    wsl2: bool | Absent = EARLY_FIELD
    governor: MaybeStr = EARLY_FIELD  #: of the first core's clock, such as `performance`


class Isolation(Record):
    """What lies between the program and its host. No container's id, no host name, no path."""

    container: ContainerKind | Absent
    host_ipc: bool | Absent  #: in the host's IPC namespace, and so with its /dev/shm
    host_pids: bool | Absent  #: in the host's PID namespace, where all of a board's users are seen
    shm_mib: MaybeInt  #: size of /dev/shm; nothing of ours needs it
    image: MaybeStr  #: version and revision of the container's image, as its ECO_IMAGE says
    #: who is kept off the board: every run on the `host`, or only those in the same IPC `namespace`
    board_lock: Reach | Absent


class LedgerRow(Record):
    """How many rows of how many tokens. Counts are per row, from the ids that came back."""

    rows: int = Field(ge=1)
    prompt_tokens: int = Field(ge=1)
    padding_tokens: Count
    output_tokens: Count
    stop: Literal["length", "eos"]


class Certificate(Record):
    """What is really loaded under an arm's name."""

    #: elements by format ("FP16", "NF4", "INT8") of every parameter with two or more dimensions,
    #: experts and routers too; embeddings and the output head are apart
    linear_weights: dict[str, int]
    share_as_named: float = Field(ge=0, le=1)  #: of linear_weights, in the arm's precision
    other_weights: dict[str, int]  #: elements of all other parameters by dtype
    compute_dtype: str
    settings: dict[str, str]  #: quantizer settings as found on the loaded modules
    weight_bytes: int = Field(ge=0)
    devices: tuple[str, ...]
    #: of the weights, on each device; left out where all lie on one
    device_bytes: dict[str, Count] = Field(default_factory=dict, exclude_if=lambda value: not value)
    allocated_bytes: MaybeInt
    torch_cuda: MaybeStr
    kernels: str  #: the library doing the quantized products
    #: how far a product by one loaded layer is off the product by its own weights, relative
    probe_error: MaybeFloat = EARLY_FIELD
    #: how ids are decoded: by whom, over which cache, compiled and captured how
    decoder: dict[str, str] | Absent = EARLY_FIELD


class RunOpened(Record):
    """The first line: what will be done, fixed before anything is measured."""

    kind: Literal["run"] = "run"
    format: Literal["ecocompute-journal/1"] = FORMAT
    run_id: str
    tool_version: str
    plan: Plan  #: without the host's paths
    plan_sha256: Sha256
    models: tuple[Manifest, ...]
    text_sha256: Sha256 | Absent  #: of the quality text
    rehearsal: bool


class Resumed(Record):
    """The program came back to this journal."""

    kind: Literal["resumed"] = "resumed"
    tool_version: str
    torn_bytes: Count  #: set aside from an unfinished last line


class OtherBoard(Record):
    """A further board of a session, over which models are split."""

    board: Board
    tick: Tick | Absent
    capabilities: Capabilities  #: what it offers, asked when the session opened


class SessionOpened(Record):
    """From here on: this board, or these, driver, boot and host."""

    kind: Literal["session"] = "session"
    session: Count
    board: Board | Absent
    tick: Tick | Absent
    host: Host
    isolation: Isolation | Absent = EARLY
    #: what the board offers, asked when the session opened; left out by early versions
    capabilities: Capabilities | Absent = EARLY_FIELD
    #: the boards after the first, in the order in which they hold the layers; left out if none
    others: tuple[OtherBoard, ...] = Field(default=(), exclude_if=lambda value: not value)
    python: str
    packages: dict[str, str]
    resident: bool  #: arms stay loaded between visits

    @property
    def boards(self) -> tuple[Board, ...]:
        """Every board, in order; none in a rehearsal."""
        first = () if isinstance(self.board, Absent) else (self.board,)
        return (*first, *(other.board for other in self.others))

    @property
    def ticks(self) -> tuple[Tick | Absent, ...]:
        """Of every board's counter."""
        return (self.tick, *(other.tick for other in self.others))

    @property
    def slowest(self) -> Tick | Absent:
        """The longest tick of any board's counter; a reason where no board has one."""
        known = [tick for tick in self.ticks if not isinstance(tick, Absent)]
        return max(known, key=lambda tick: tick.median_ms, default=self.tick)


class BlockOpened(Record):
    """A block begins; ``order`` is the random order of its arms."""

    kind: Literal["block_opened"] = "block_opened"
    session: Count
    group: Count
    block: Count
    order: tuple[str, ...]


class ArmReady(Record):
    """An arm was loaded in a process of its own and proved to be what its name says."""

    kind: Literal["ready"] = "ready"
    arm: str
    session: Count
    load: Span
    certificate: Certificate
    prompt_sha256: Sha256  #: of all prompt ids, in order
    step: StepCost | Absent = EARLY_FIELD  #: by the shapes of what was loaded


class Warmed(Record):
    """Unmeasured passes before a window."""

    kind: Literal["warmed"] = "warmed"
    arm: str
    session: Count
    group: Count
    block: Count
    passes: int = Field(ge=1)
    pass_s: tuple[NonNegative, ...]
    pass_mj: tuple[MaybeFloat, ...] = ()  #: energy per token of each; early versions: none
    settled_by: Literal["energy", "time"] = "time"  #: what of the last passes was compared
    temperatures_c: tuple[MaybeFloat, ...]
    settled: bool
    #: before the first pass; left out by early versions
    idle: IdleReading | Absent = EARLY_FIELD
    #: the same of the session's further boards, in its order; left out if there are none
    others_idle: tuple[IdleReading | Absent, ...] = Field(
        default=(), exclude_if=lambda value: not value
    )


class WindowMeasured(Record):
    """One arm did its work between readings.

    ``host_spin_s`` is how long a fixed loop of plain Python took right before and right after: at
    batch 1 the host drives the board, and a host whose speed changes changes the energy.
    """

    kind: Literal["window"] = "window"
    arm: str
    session: Count
    group: Count
    block: Count
    position: Count  #: place in the block's order
    counter: CounterBracket | Absent
    delay_ns: Ns  #: random, below one tick, between the opening tick and the work
    work: Span
    least_s: NonNegative | None = None  #: how long it had to be; null: counted, or an early version
    iterations: int = Field(ge=1)
    iteration_ends_ns: tuple[
        Ns, ...
    ] = ()  #: when the board had finished each generation; early versions: none
    ledger: tuple[LedgerRow, ...]
    output_sha256: Sha256  #: of all output ids, in order
    #: output ids of the first row of the first generation; in an arm's first window after it was
    #: loaded, and left out in all others
    first_ids: tuple[Count, ...] = Field(default=(), exclude_if=lambda value: not value)
    host_spin_s: tuple[float, float] | Absent = EARLY
    before: Telemetry | Absent
    after: Telemetry | Absent
    #: when the board had come to rest again; left out by early versions
    idle: IdleReading | Absent = EARLY_FIELD
    #: of the session's further boards, in its order; left out if there are none
    others: tuple[OtherReadings, ...] = Field(default=(), exclude_if=lambda value: not value)
    look_ns: Ns = LOOK_FIELD


class QualityScored(Record):
    """Perplexity of the loaded model, by teacher forcing over windows of a text."""

    kind: Literal["quality"] = "quality"
    arm: str
    session: Count
    text: str
    text_bytes: int = Field(ge=1)
    text_sha256: Sha256
    window_tokens: int = Field(ge=2)
    nll: tuple[float, ...]  #: summed negative log-likelihood of each window, nats
    scored_tokens: tuple[int, ...]  #: tokens predicted in each window


class QualitySkipped(Record):
    """Why an arm has no perplexity."""

    kind: Literal["quality_skipped"] = "quality_skipped"
    arm: str
    session: Count
    reason: str = Field(min_length=1)


class ClockAlignment(Record):
    """How the wall clock of the driver's samples was laid on CLOCK_MONOTONIC."""

    offset_ns: int  #: CLOCK_MONOTONIC minus the wall clock, when the record began
    uncertainty_ns: Ns  #: half of the widest bracket in which both clocks were read
    drift_ns: Ns  #: by how much the distance of the clocks moved during the record


class TraceStored(Record):
    """The side sampler's record of one visit, in a file beside the journal."""

    kind: Literal["trace"] = "trace"
    arm: str
    session: Count
    group: Count
    block: Count
    file: str = Field(pattern=r"^traces/[^/]+\.csv\.gz$")  #: relative to the journal
    sha256: Sha256
    source: PowerKind
    samples: Count
    failed_samples: Count
    achieved_hz: MaybeFloat
    longest_gap_s: MaybeFloat
    #: of a record whose samples are on the wall clock; polled ones are on ours
    clock: ClockAlignment | Absent = EARLY
    board: Count = PLACE_FIELD  #: its place in the session; left out if it is the first
    phases: dict[str, Ns]  #: load_start, model_ready, warmup_end, measure_start, …


class TraceLost(Record):
    """The side sampler left no usable record of a visit."""

    kind: Literal["trace_lost"] = "trace_lost"
    arm: str
    session: Count
    group: Count
    block: Count
    board: Count = PLACE_FIELD  #: its place in the session; left out if it is the first
    reason: str = Field(min_length=1)


class Refused(Record):
    """An arm that could not be measured at this visit.

    It is left out until the program is started again; an arm that had been measured before has one
    more chance, in a block that is run again.
    """

    kind: Literal["refused"] = "refused"
    arm: str
    session: Count
    stage: Literal["load", "certify", "warm", "window"]
    reason: str  #: a code
    cause: str
    fix: str


class BlockClosed(Record):
    """A block ended. Only complete blocks count."""

    kind: Literal["block_closed"] = "block_closed"
    session: Count
    group: Count
    block: Count
    complete: bool
    reason: str  #: why not, or "all arms visited"


class RunClosed(Record):
    """This visit of the program ends here."""

    kind: Literal["closed"] = "closed"
    reason: Literal["finished", "session done", "time is up", "interrupted", "failed"]
    detail: str


Fact = Annotated[
    RunOpened
    | Resumed
    | SessionOpened
    | Calibrated
    | BlockOpened
    | Cooled
    | ArmReady
    | Warmed
    | WindowMeasured
    | QualityScored
    | QualitySkipped
    | Profiled
    | TraceStored
    | TraceLost
    | Refused
    | BlockClosed
    | Stopped
    | RunClosed,
    Field(discriminator="kind"),
]


class Line(Record):
    """One line of a journal."""

    seq: Count
    prev: Sha256
    utc: UtcTime
    record: Fact
