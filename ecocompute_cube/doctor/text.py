"""A diagnosis as people read it in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ecocompute_cube.model.base import Absent, MaybeFloat, MaybeInt, present, printable
from ecocompute_cube.model.readings import PowerKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.capabilities import Capabilities, SampleBuffer
    from ecocompute_cube.model.doctor import Diagnosis, Hindrance, Room, SeenBoard
    from ecocompute_cube.model.journal import Isolation
    from ecocompute_cube.model.readings import Tick

Row: TypeAlias = tuple[str, str]

_WIDTH: Final = 22  # of the first column
_REHEARSE: Final = "To see everything but energy on this machine, type: ecocompute run --rehearse"


def as_text(found: Diagnosis) -> str:
    """Verdict, boards, capabilities, machine, and what is in the way."""
    lines = [
        *_section("", _verdict(found)),
        *_section("boards", _boards(found.boards)),
        *_section("what the board offers", _offered(found)),
        *_section("the machine", _machine(found)),
        *_hindrances(found.in_the_way),
    ]
    if not found.can_measure:
        lines += ["", _REHEARSE]
    return "".join(f"{printable(line)}\n" for line in lines)


def _section(title: str, rows: Sequence[Row]) -> list[str]:
    head = ["", title] if title else []
    return [*head, *(f"  {name:<{_WIDTH}}{value}" for name, value in rows)]


def _verdict(found: Diagnosis) -> list[Row]:
    can = "yes" if found.can_measure else "no, not now"
    rows = [("can measure", can), ("source of energy", found.source)]
    if found.source is not PowerKind.NONE:
        rows.append(("reading bound", _bound(found)))
    return rows


def _bound(found: Diagnosis) -> str:
    if not present(found.bound_pct):
        return f"unknown: {found.bound_pct.reason}"
    return (
        f"{found.bound_pct:.3g} % at most, in a window of {found.window_s:.0f} s at the board's "
        "limit; the sensor's gain is not in it"
    )


def _boards(boards: Sequence[SeenBoard]) -> list[Row]:
    if not boards:
        return [("none", "-")]
    return [(f"{each.ordinal}  {each.name}", _state(each)) for each in boards]


def _state(board: SeenBoard) -> str:
    if present(board.refusal):
        return f"not to be had: {board.refusal}"
    return "free, would be chosen" if board.chosen else "free"


def _offered(found: Diagnosis) -> list[Row]:
    offered = found.capabilities
    if not present(offered):
        return [("nothing", offered.reason)]
    return [*_energy_rows(found, offered), *_state_rows(offered)]


def _energy_rows(found: Diagnosis, offered: Capabilities) -> list[Row]:
    return [
        ("energy counter", _counter(offered, found.tick)),
        ("power, instant", _value(offered.instant_w, "W (field 186)")),
        ("power, 1 s average", _value(offered.average_w, "W (field 185)")),
        ("power usage", _value(offered.usage_w, "W (nvmlDeviceGetPowerUsage)")),
        ("power of the module", _value(offered.module_w, "W")),
        ("driver's samples", _samples(offered.samples)),
        ("power limit", _value(offered.limit_w, "W")),
        ("  default", _value(offered.limit_default_w, "W")),
        ("  lowest", _value(offered.limit_lowest_w, "W")),
        ("  highest", _value(offered.limit_highest_w, "W")),
    ]


def _state_rows(offered: Capabilities) -> list[Row]:
    events = offered.event_reasons
    return [
        ("SM clock", _value(offered.sm_clock_mhz, "MHz")),
        ("  highest", _value(offered.sm_clock_highest_mhz, "MHz")),
        ("memory clock", _value(offered.memory_clock_mhz, "MHz")),
        ("temperature", _value(offered.temperature_c, "°C")),
        ("  of the memory", _value(offered.memory_temperature_c, "°C")),
        ("  slows down at", _value(offered.slowdown_c, "°C")),
        ("clock events", ", ".join(events) or "none" if present(events) else _no(events)),
        ("ECC", _switch(offered.ecc)),
        ("MIG", _switch(offered.mig)),
        ("virtualization", _word(offered.virtualization)),
        ("persistence", _switch(offered.persistence)),
        ("computing on it", _count(offered.compute_processes)),
        ("drawing on it", _count(offered.graphics_processes)),
        ("clients of MPS", _count(offered.mps_processes)),
    ]


def _machine(found: Diagnosis) -> list[Row]:
    host = found.host
    return [
        ("processor", _word(host.cpu)),
        ("cores to use", f"{host.cores}"),
        ("governor", _word(found.governor)),
        ("supply", _word(found.supply)),
        ("WSL2", _switch(host.wsl2)),
        ("container", _word(found.isolation.container)),
        ("kept off the board", _lock(found.isolation)),
        ("torch", _word(found.torch)),
        ("plan", _word(found.plan)),
        ("disk", _room(found.disk)),
        ("board's memory", _room(found.board_memory)),
        ("host's memory", _room(found.host_memory)),
    ]


def _counter(offered: Capabilities, tick: Tick | Absent) -> str:
    if not present(offered.energy_mj):
        return _no(offered.energy_mj)
    if not present(tick):
        return f"there; {tick.reason}"
    return (
        f"advances every {tick.median_ms:.0f} ms ({tick.shortest_ms:.0f} to {tick.longest_ms:.0f}),"
        f" a call takes {tick.call_median_ms:.2g} ms ({tick.call_longest_ms:.2g} at most)"
    )


def _samples(buffer: SampleBuffer | Absent) -> str:
    if not present(buffer):
        return _no(buffer)
    spacing = buffer.spacing_ms
    apart = f", {spacing:.0f} ms apart" if present(spacing) else ""
    return f"{buffer.samples}{apart}"


def _lock(isolated: Isolation) -> str:
    if not present(isolated.board_lock):
        return f"nobody: {isolated.board_lock.reason}"
    where = "on the host" if isolated.board_lock == "host" else "in this container"
    return f"other runs {where}"


def _room(room: Room) -> str:
    return f"needs {_mib(room.needed_mib)}, free: {_mib(room.free_mib)}"


def _mib(size: MaybeInt) -> str:
    return f"{size} MiB" if present(size) else f"unknown ({size.reason})"


def _value(value: MaybeFloat, unit: str) -> str:
    return f"{value:.0f} {unit}" if present(value) else _no(value)


def _count(value: MaybeInt) -> str:
    return f"{value or 'nobody'}" if present(value) else _no(value)


def _switch(value: bool | Absent) -> str:
    return ("on" if value else "off") if present(value) else _no(value)


def _word(value: str | Absent) -> str:
    return value if present(value) else _no(value)


def _no(absent: Absent) -> str:
    return f"- ({absent.reason})"


def _hindrances(found: Sequence[Hindrance]) -> list[str]:
    if not found:
        return ["", "nothing is in the way"]
    lines = ["", "in the way"]
    for each in found:
        lines += [f"  {each.effect}: {each.code}: {each.cause}", f"      {each.fix}"]
    return lines
