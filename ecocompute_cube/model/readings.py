"""What was read off a board, as it was seen.

All ``*_ns`` are nanoseconds of CLOCK_MONOTONIC, one clock for every process of a host, meaningless
across boots.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import Field

from ecocompute_cube.model.base import (
    Absent,
    Count,
    MaybeFloat,
    MaybeInt,
    MaybeStr,
    Record,
    Sha256,
)

#: How the reason begins where a counter stands still: the window writes it, the rules read it.
COUNTER_STUCK: Final = "the energy counter did not move"

#: Of a field that a journal had not yet when it was written.
EARLY: Final = Absent(reason="not recorded by early versions")

#: The same, and left out when written, so that early documents keep their bytes.
EARLY_FIELD: Final[Any] = Field(default=EARLY, exclude_if=lambda value: value == EARLY)

Ns = Annotated[int, Field(ge=0)]

#: Of several boards, whose counters are looked at in turn: the longest time from one look at a
#: board to the look that saw its tick. Left out when written where there is one board.
LOOK_FIELD: Final[Any] = Field(default=0, exclude_if=lambda value: not value)


class PowerKind(enum.StrEnum):
    """Where a power or energy reading comes from, best first."""

    COUNTER = "energy-counter"  # nvmlDeviceGetTotalEnergyConsumption, mJ since driver load
    SAMPLES = "power-samples"  # nvmlDeviceGetSamples, total power: the driver's own record
    INSTANT = "power-instant"  # NVML field 186, scope GPU
    AVERAGE = "power-average"  # NVML field 185, scope GPU: mean of about one second
    USAGE = "power-usage"  # nvmlDeviceGetPowerUsage: instant or average, by board
    NONE = "none"


class Board(Record):
    """One board as it describes itself. The UUID is kept as a hash only."""

    name: str
    uuid_sha256: Sha256
    architecture: str  #: by compute capability: turing, ampere, ada, hopper, blackwell, …
    compute_capability: str
    memory_mib: int
    driver: str
    nvml: str
    energy_counter: bool | Absent
    power: PowerKind  #: what the side sampler reads
    power_limit_w: MaybeFloat
    power_limit_default_w: MaybeFloat
    persistence: bool | Absent
    mig: bool | Absent
    ecc: bool | Absent
    virtualization: MaybeStr


class Tick(Record):
    """How often the energy counter advances, and what a reading costs."""

    median_ms: float = Field(gt=0)
    shortest_ms: float = Field(gt=0)
    longest_ms: float = Field(gt=0)
    ticks: int = Field(ge=1)
    call_median_ms: float = Field(ge=0)
    call_longest_ms: float = Field(ge=0)


class Telemetry(Record):
    """What a board said of itself at one moment."""

    at_ns: Ns
    temperature_c: MaybeFloat
    power_w: MaybeFloat
    sm_clock_mhz: MaybeFloat
    memory_clock_mhz: MaybeFloat
    event_reasons: tuple[str, ...] | Absent
    foreign_processes: MaybeInt  #: compute processes that are not of this run
    graphics_processes: MaybeInt = EARLY_FIELD  #: processes that draw on the board
    utilization_pct: MaybeFloat = EARLY_FIELD  #: of the last second or less, by the driver


def hottest(temperatures: Iterable[MaybeFloat]) -> MaybeFloat:
    """The highest of boards' temperatures; a reason where one is not told, or there is no board."""
    highest: MaybeFloat = Absent(reason="no board")
    for temperature in temperatures:
        if isinstance(temperature, Absent):
            return temperature
        highest = temperature if isinstance(highest, Absent) else max(highest, temperature)
    return highest


class CounterReading(Record):
    """One reading of the energy counter, between two looks at the clock."""

    before_ns: Ns
    energy_mj: Count
    after_ns: Ns


class CounterBracket(Record):
    """The five readings around a window.

    ``previous`` and ``opening`` are first readings after two successive ticks, before the work;
    ``closing`` is read when the work has ended, ``next`` and ``after_next`` right after the two
    ticks that follow. A counter that lags by up to one tick has taken in all of the work by then.
    """

    previous: CounterReading
    opening: CounterReading
    closing: CounterReading
    next: CounterReading
    after_next: CounterReading


class Span(Record):
    """From the start of the work to the end of its last kernel."""

    start_ns: Ns
    end_ns: Ns


class IdleReading(Record):
    """A board that holds this run's models, and for a moment does nothing for them.

    ``first`` and ``last`` are first readings after two ticks of the counter.
    """

    span: Span  #: the rest
    first: CounterReading | Absent  #: where it begins
    last: CounterReading | Absent  #: where it ends
    seen: Telemetry  #: at the end
    look_ns: Ns = LOOK_FIELD


class OtherReadings(Record):
    """What a further board of the session told around the same work."""

    counter: CounterBracket | Absent  #: readings of its own counter
    before: Telemetry | Absent  #: what it said of itself before
    after: Telemetry | Absent  #: and after
    idle: IdleReading | Absent  #: when the board had come to rest again
