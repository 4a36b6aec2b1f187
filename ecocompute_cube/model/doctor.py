"""What ``ecocompute doctor`` finds: whether and how well this machine can measure, and why not."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from ecocompute_cube.model.base import Absent, Count, MaybeFloat, MaybeInt, MaybeStr, Record
from ecocompute_cube.model.capabilities import Capabilities
from ecocompute_cube.model.journal import Host, Isolation
from ecocompute_cube.model.readings import (
    Board,
    PowerKind,
    Tick,
)

FORMAT: Final = "ecocompute-doctor/1"
WINDOW_S: Final = 20.0  # docs/formats.md: ``window_s`` of mode ``precise`` by default

Supply: TypeAlias = Literal["mains", "battery"]
Effect: TypeAlias = Literal["stops", "lowers the tier", "note"]


class Hindrance(Record):
    """One thing in the way of a measurement, and what to do about it."""

    code: str  #: listed in docs/commands.md
    effect: Effect  #: ``stops``: nothing valid can be measured
    cause: str  #: one sentence
    fix: str  #: what to type


class SeenBoard(Record):
    """A board that this program may see."""

    ordinal: Count  #: in PCI order, from 0
    name: str  #: as the driver tells it
    chosen: bool  #: whether ``measure`` would take it now
    refusal: MaybeStr  #: why it would not; absent where it would


class Room(Record):
    """What there is of something, and what the plan needs of it."""

    free_mib: MaybeInt  #: what there is
    needed_mib: MaybeInt  #: what the plan needs


class Diagnosis(Record):
    """What was found; everything but ``in_the_way`` is a fact or the reason for its absence."""

    format: Literal["ecocompute-doctor/1"]  #: version of this format
    tool_version: str  #: of EcoCompute cube
    can_measure: bool  #: whether nothing in the way stops it
    source: PowerKind  #: the best source of energy that answers now: the tier
    bound_pct: MaybeFloat  #: how far readings may be off, in a window at the board's limit
    window_s: float  #: how long that window is
    boards: tuple[SeenBoard, ...]  #: that CUDA_VISIBLE_DEVICES leaves
    board: Board | Absent  #: the one that would be measured, or else the first
    tick: Tick | Absent  #: of its energy counter
    capabilities: Capabilities | Absent  #: what it offers, asked now
    host: Host
    isolation: Isolation
    supply: Supply | Absent  #: what feeds the machine
    governor: MaybeStr  #: of the processors' clocks
    python: str
    packages: dict[str, str]
    torch: MaybeStr  #: version and build, by the package's own words: it is not loaded
    plan: MaybeStr  #: whose needs are compared
    disk: Room  #: where results go; models that are not there yet are counted in
    board_memory: Room  #: the largest arm's need
    host_memory: Room  #: the same need, which passes through the host's memory on its way
    in_the_way: tuple[Hindrance, ...]  #: what stops first
