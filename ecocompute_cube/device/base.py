"""The seams between the measuring code and a machine: a clock, a power source, a tracer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ecocompute_cube.model.base import Absent

if TYPE_CHECKING:
    from pathlib import Path

    from ecocompute_cube.model.base import MaybeFloat
    from ecocompute_cube.model.capabilities import Capabilities
    from ecocompute_cube.model.journal import ClockAlignment
    from ecocompute_cube.model.readings import (
        Board,
        PowerKind,
        Telemetry,
    )

#: Why a polled record has no alignment: its times are CLOCK_MONOTONIC's from the start.
POLLED: Final = Absent(reason="polled by the clock of the windows")


class Clock(Protocol):
    """Monotonic time, in nanoseconds."""

    def now_ns(self) -> int:
        """The time now."""

    def sleep(self, s: float) -> None:
        """Let ``s`` seconds pass."""


class SystemClock:
    """CLOCK_MONOTONIC: one clock for all processes of a host."""

    def now_ns(self) -> int:
        """The time now."""
        return time.monotonic_ns()

    def sleep(self, s: float) -> None:
        """Let ``s`` seconds pass."""
        time.sleep(s)


class PowerSource(Protocol):
    """One board that can be asked. No method waits; absent values carry their reason."""

    def board(self) -> Board:
        """What the board says of itself."""

    def energy_mj(self) -> int | Absent:
        """The energy counter: millijoules since the driver was loaded."""

    def power_w(self) -> MaybeFloat:
        """Power by the best kind this board offers (``board().power``)."""

    def capabilities(self) -> Capabilities:
        """Everything that can be asked of the board, asked now."""

    def telemetry(self, own_processes: frozenset[int]) -> Telemetry:
        """Temperature, clocks, event reasons, and how many foreign compute processes."""

    def close(self) -> None:
        """Let go of the board."""


class RawTrace(NamedTuple):
    """What a tracer hands back: a CSV file (columns TRACE_COLUMNS) and its counts."""

    file: Path
    source: PowerKind
    samples: int
    failed: int
    clock: ClockAlignment | Absent = POLLED


class Tracer(Protocol):
    """Keeps a record of power beside the measured process."""

    def start(self, file: Path) -> None:
        """Begin writing samples to ``file``."""

    def stop(self) -> RawTrace | Absent:
        """End the record; a reason if there is none."""
