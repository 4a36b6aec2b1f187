"""Looks at a machine for a few seconds: no model is loaded, no torch imported, nothing is held."""

from __future__ import annotations

import os
import platform
import shutil
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube import __version__
from ecocompute_cube.analysis.reading import EDGE_S
from ecocompute_cube.device.base import Clock, SystemClock
from ecocompute_cube.device.faults import require_cuda
from ecocompute_cube.device.host import available_mib, host_facts
from ecocompute_cube.device.isolation import isolation
from ecocompute_cube.device.nvml import (
    NvmlBoard,
    Surveyed,
    driver_kept,
    none_free,
    survey_boards,
)
from ecocompute_cube.device.supply import governor, supply
from ecocompute_cube.device.together import mixed, not_enough
from ecocompute_cube.doctor.rules import in_the_way, stop
from ecocompute_cube.engine.window import measure_tick
from ecocompute_cube.errors import BoardBusy, NoDevice
from ecocompute_cube.model.base import Absent, MaybeFloat, MaybeInt, present
from ecocompute_cube.model.doctor import FORMAT, WINDOW_S, Diagnosis, Hindrance, Room, SeenBoard
from ecocompute_cube.model.readings import PowerKind, Tick

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ecocompute_cube.device.base import PowerSource
    from ecocompute_cube.model.capabilities import Capabilities
    from ecocompute_cube.model.readings import Board

_TICKS: Final = 20  # as many as a session measures
_TICKS_S: Final = 1.5  # or fewer of a slow counter, so that all is told within 5 s
_MIB: Final = 2**20


class Machine(NamedTuple):
    """What is looked at; what tests replace."""

    packages: Mapping[str, str]  #: versions by name, as installed
    environment: Mapping[str, str] = os.environ
    root: Path = Path("/")
    clock: Clock = SystemClock()


class Needs(NamedTuple):
    """What a plan will ask for."""

    plan: str
    disk_bytes: int
    memory_bytes: int  #: of the largest arm, on the board or boards
    boards: int = 1  #: that models are split over


class _Looked(NamedTuple):
    """What one board said."""

    board: Board | Absent
    capabilities: Capabilities | Absent
    tick: Tick | Absent
    stops: tuple[Hindrance, ...] = ()


def examine(machine: Machine, needs: Needs | Absent, output: Path) -> Diagnosis:
    """Everything that can be told of ``machine``; ``output`` is where results would go."""
    boards = needs.boards if present(needs) else 1
    with driver_kept():
        surveyed, stops = _surveyed(machine, boards)
        taken = [each for each in surveyed if each.refusal is None][:boards]
        chosen = next(iter(taken), None)
        at = chosen or next(iter(surveyed), None)
        looked = _looked(machine, at)
    locked = bool(taken) and all(each.trouble is None for each in taken)
    unfit = at is None or not isinstance(at.refusal, BoardBusy | NoneType)
    source = PowerKind.NONE if unfit else _source(looked)
    largest = needs.memory_bytes if present(needs) else needs
    facts = Diagnosis(
        format=FORMAT,
        tool_version=__version__,
        can_measure=False,
        source=source,
        bound_pct=bound_pct(source, looked.tick),
        window_s=WINDOW_S,
        boards=tuple(_seen(each, each in taken) for each in surveyed),
        board=looked.board,
        tick=looked.tick,
        capabilities=looked.capabilities,
        host=host_facts(machine.root, machine.environment),
        isolation=isolation(machine.root, machine.environment, locked=locked),
        supply=supply(machine.root),
        governor=governor(machine.root),
        python=platform.python_version(),
        packages=dict(machine.packages),
        torch=machine.packages.get("torch", Absent(reason="torch is not installed")),
        plan=needs.plan if present(needs) else needs,
        disk=_room(_free_mib(output), needs.disk_bytes if present(needs) else needs),
        board_memory=_room(_memory_mib(looked, boards), largest),
        host_memory=_room(available_mib(machine.root), largest),
        in_the_way=(),
    )
    found = (*stops, *looked.stops, *in_the_way(facts))
    free = not any(each.effect == "stops" for each in found)
    return facts.model_copy(update={"in_the_way": found, "can_measure": free})


def _surveyed(machine: Machine, boards: int) -> tuple[tuple[Surveyed, ...], tuple[Hindrance, ...]]:
    """The boards, and what keeps a run from having as many of them as it wants."""
    try:
        surveyed = survey_boards(machine.environment, machine.root, boards)
    except NoDevice as error:
        return (), (stop(error),)
    refusals = [each.refusal for each in surveyed if each.refusal is not None]
    if len(refusals) == len(surveyed):
        return surveyed, (stop(none_free(refusals)),)
    if len(surveyed) - len(refusals) < boards:
        return surveyed, (stop(not_enough(len(surveyed), boards, refusals)),)
    free = [each.board.name for each in surveyed if each.refusal is None]
    kinds = dict.fromkeys(free[:boards])
    if len(kinds) > 1:
        return surveyed, (stop(mixed(kinds)),)
    return surveyed, ()


def _looked(machine: Machine, at: Surveyed | None) -> _Looked:
    if at is None:
        nothing = Absent(reason="there is no board to ask")
        return _Looked(nothing, nothing, nothing)
    try:
        source = NvmlBoard(at.board.uuid, root=machine.root)
    except NoDevice as error:
        closed = Absent(reason=error.cause)
        return _Looked(closed, closed, closed, (stop(error),))
    try:
        busy = isinstance(at.refusal, BoardBusy)
        tick = _LEFT_ALONE if busy else quick_tick(source, machine.clock)
        return _told(machine, at, source, tick)
    finally:
        source.close()


_LEFT_ALONE: Final = Absent(reason="not measured: others have the board")


def _told(machine: Machine, at: Surveyed, source: PowerSource, tick: Tick | Absent) -> _Looked:
    offered = source.capabilities()
    try:
        if at.refusal is None:
            require_cuda(machine.root, machine.environment)
        return _Looked(source.board(), offered, tick)
    except NoDevice as error:
        board: Board | Absent = Absent(reason=error.cause)
        with suppress(NoDevice):
            board = source.board()
        stops = (stop(error),) if at.refusal is None else ()
        return _Looked(board, offered, tick, stops)


def quick_tick(source: PowerSource, clock: Clock) -> Tick | Absent:
    """How often the counter advances, over as many ticks as there is time for."""
    first = measure_tick(source, clock, ticks=1)
    if not present(first):
        return first
    ticks = min(_TICKS, int(1e3 * _TICKS_S / first.median_ms))
    return measure_tick(source, clock, ticks) if ticks > 1 else first


def _source(looked: _Looked) -> PowerKind:
    if present(looked.tick):
        return PowerKind.COUNTER
    if looked.tick == _LEFT_ALONE and present(looked.capabilities):
        return PowerKind.COUNTER if present(looked.capabilities.energy_mj) else _power(looked)
    return _power(looked)


def _power(looked: _Looked) -> PowerKind:
    return looked.board.power if present(looked.board) else PowerKind.NONE


def bound_pct(source: PowerKind, tick: Tick | Absent) -> MaybeFloat:
    """How far the readings can be off at most, in percent of a window at the board's limit.

    By the counter: two ticks and two calls at full power, as the bound of a window has them.
    """
    if source is PowerKind.NONE:
        return Absent(reason="nothing can be read")
    if source is not PowerKind.COUNTER:
        return 100 * EDGE_S[source] / WINDOW_S
    if not present(tick):
        return tick
    return 100 * 2 * (tick.longest_ms + tick.call_longest_ms) / 1e3 / WINDOW_S


def _seen(surveyed: Surveyed, chosen: bool) -> SeenBoard:
    refusal = surveyed.refusal
    return SeenBoard(
        ordinal=surveyed.board.ordinal,
        name=surveyed.board.name,
        chosen=chosen,
        refusal=refusal.cause if refusal else Absent(reason="it could be measured now"),
    )


def _room(free_mib: MaybeInt, needed_bytes: int | Absent) -> Room:
    needed = -(-needed_bytes // _MIB) if present(needed_bytes) else needed_bytes
    return Room(free_mib=free_mib, needed_mib=needed)


def _memory_mib(looked: _Looked, boards: int) -> MaybeInt:
    """Of as many boards of the kind that was looked at."""
    return boards * looked.board.memory_mib if present(looked.board) else looked.board


def _free_mib(output: Path) -> MaybeInt:
    """Of the disk that holds a folder, or would."""
    place = next((p for p in (output, *output.absolute().parents) if p.is_dir()), Path("/"))
    try:
        return shutil.disk_usage(place).free // _MIB
    except OSError as error:
        return Absent(reason=error.strerror or "unreadable")
