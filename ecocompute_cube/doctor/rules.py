"""What is in the way of a measurement: one function a rule, in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.doctor import Diagnosis, Effect, Hindrance
from ecocompute_cube.model.readings import PowerKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecocompute_cube.errors import EcoError
    from ecocompute_cube.model.doctor import Room

_NEEDED: Final = ("transformers", "accelerate", "safetensors")  # bitsandbytes costs only its arms
_SLOWED: Final = frozenset({"hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"})
_LENT: Final = frozenset({"host-vgpu", "host-vsga"})
_ASIDE: Final = "note"
_LOWERS: Final = "lowers the tier"
_STOPS: Final = "stops"


def stop(error: EcoError) -> Hindrance:
    """An error that ``measure`` would end with."""
    return _hindrance(error.code, _STOPS, error.cause, error.fix)


def in_the_way(found: Diagnosis) -> tuple[Hindrance, ...]:
    """Everything that stands against measuring here, or against believing it."""
    told = (rule(found) for rule in RULES)
    return tuple(each for each in told if each is not None)


def _hindrance(code: str, effect: Effect, cause: str, fix: str) -> Hindrance:
    return Hindrance(code=code, effect=effect, cause=cause, fix=fix)


def torch_missing(found: Diagnosis) -> Hindrance | None:
    """Nothing can be decoded at all."""
    if present(found.torch):
        return None
    return _hindrance("torch_missing", _STOPS, "torch is not installed.", "Run: make setup")


def torch_cpu_build(found: Diagnosis) -> Hindrance | None:
    """A board that this torch cannot use."""
    if not present(found.torch) or not found.torch.endswith("+cpu") or not present(found.board):
        return None
    return _hindrance(
        "torch_cpu_build",
        _STOPS,
        f"There is an NVIDIA board, but the installed torch ({found.torch}) is a CPU build.",
        "Run: make setup (it installs a CUDA build where there is a GPU)",
    )


def package_missing(found: Diagnosis) -> Hindrance | None:
    """What every arm is loaded with."""
    lost = [name for name in _NEEDED if name not in found.packages]
    if not lost:
        return None
    return _hindrance(
        "package_missing", _STOPS, f"Not installed: {', '.join(lost)}.", "Run: make setup"
    )


def bitsandbytes_missing(found: Diagnosis) -> Hindrance | None:
    """What NF4 and INT8 are made of."""
    if "bitsandbytes" in found.packages:
        return None
    return _hindrance(
        "bitsandbytes_missing",
        _ASIDE,
        "bitsandbytes is not installed: arms NF4 and INT8 (NF4-DQ, INT8-T0) will be refused.",
        "Run: make setup",
    )


def torchao_missing(found: Diagnosis) -> Hindrance | None:
    """What FP8 and the weight-only precisions are made of."""
    if "torchao" in found.packages:
        return None
    return _hindrance(
        "torchao_missing",
        _ASIDE,
        "torchao is not installed: arms FP8-WO, FP8-DYN, INT8-WO and INT4-WO will be refused.",
        "Run: make setup",
    )


def no_energy_counter(found: Diagnosis) -> Hindrance | None:
    """A lower rung of the ladder."""
    if present(found.tick) or found.source in (PowerKind.COUNTER, PowerKind.NONE):
        return None
    return _hindrance(
        "no_energy_counter",
        _LOWERS,
        f"The board's energy counter gives nothing ({found.tick.reason}); {found.source} will be "
        "integrated instead.",
        "Nothing can be done on this board; compare only with runs of the same source.",
    )


def no_cross_check(found: Diagnosis) -> Hindrance | None:
    """A counter with nothing beside it."""
    if found.source is not PowerKind.COUNTER or not present(found.board):
        return None
    if found.board.power is not PowerKind.NONE:
        return None
    return _hindrance(
        "no_cross_check",
        _LOWERS,
        "The board reports no power, so nothing will stand beside its energy counter.",
        "Try a newer driver.",
    )


def module_scope(found: Diagnosis) -> Hindrance | None:
    """Power of more than the board."""
    if not present(found.capabilities) or not found.capabilities.module_only:
        return None
    return _hindrance(
        "module_scope",
        _LOWERS,
        "The board tells power of its whole module alone (GPU, CPU and memory).",
        "Compare arms on this board only; do not rank it with others.",
    )


def virtual_guests(found: Diagnosis) -> Hindrance | None:
    """Work that nobody lists."""
    if not present(found.capabilities) or found.capabilities.virtualization not in _LENT:
        return None
    return _hindrance(
        "virtual_guests",
        _LOWERS,
        "The board is lent to virtual machines, whose work on it is not listed.",
        "Stop the guests, or take the board out of vGPU mode.",
    )


def foreign_process(found: Diagnosis) -> Hindrance | None:
    """Somebody else's work would be in every window."""
    if not any(board.chosen for board in found.boards) or not present(found.capabilities):
        return None
    users = found.capabilities.compute_processes
    if not present(users) or not users:
        return None
    return _hindrance(
        "foreign_process",
        _STOPS,
        f"Others compute on the board (processes: {users}): no window would count.",
        "Run: nvidia-smi, and stop them or wait for them.",
    )


def neighbours_unknown(found: Diagnosis) -> Hindrance | None:
    """A list that cannot be trusted to be whole."""
    if not present(found.capabilities) or present(found.capabilities.compute_processes):
        return None
    why = found.capabilities.compute_processes.reason.removeprefix("cannot tell: ")
    inside = present(found.isolation.container)
    return _hindrance(
        "neighbours_unknown",
        _ASIDE,
        f"Whether others use the board cannot be told: {why}.",
        "Add --pid=host to docker run." if inside else "Make sure of it yourself.",
    )


def display_server(found: Diagnosis) -> Hindrance | None:
    """Drawing takes energy, and not the same each time."""
    if not present(found.capabilities) or not present(found.capabilities.graphics_processes):
        return None
    if not found.capabilities.graphics_processes:
        return None
    return _hindrance(
        "display_server",
        _LOWERS,
        "A display server draws on the board, and its energy is in every window.",
        "Close what moves on the screen, or run: sudo systemctl isolate multi-user.target",
    )


def mps_clients(found: Diagnosis) -> Hindrance | None:
    """Shared contexts."""
    if not present(found.capabilities) or not present(found.capabilities.mps_processes):
        return None
    if not found.capabilities.mps_processes:
        return None
    return _hindrance(
        "mps_clients",
        _ASIDE,
        "Clients of NVIDIA's multi-process service are on the board.",
        "Run: echo quit | nvidia-cuda-mps-control",
    )


def board_unlocked(found: Diagnosis) -> Hindrance | None:
    """Another run would not be kept off."""
    if not any(board.chosen for board in found.boards) or present(found.isolation.board_lock):
        return None
    return _hindrance(
        "board_unlocked",
        _ASIDE,
        "The board cannot be locked: there is no /dev/shm that can be written.",
        "See to it that no other run measures on it.",
    )


def lock_in_namespace(found: Diagnosis) -> Hindrance | None:
    """Another container's run would not be kept off."""
    if found.isolation.board_lock != "namespace":
        return None
    return _hindrance(
        "lock_in_namespace",
        _ASIDE,
        "The host's /dev/shm is not shared: only runs inside this container are kept off the "
        "board.",
        "Add --ipc=host to docker run.",
    )


def slowed_down(found: Diagnosis) -> Hindrance | None:
    """Even now."""
    if not present(found.capabilities) or not present(found.capabilities.event_reasons):
        return None
    reasons = _SLOWED & set(found.capabilities.event_reasons)
    if not reasons:
        return None
    return _hindrance(
        "slowed_down",
        _LOWERS,
        f"The board slows itself down now ({', '.join(sorted(reasons))}).",
        "Improve the cooling or the power supply.",
    )


def limit_lowered(found: Diagnosis) -> Hindrance | None:
    """A board that may not do what its kind does."""
    if not present(found.capabilities):
        return None
    now, usual = found.capabilities.limit_w, found.capabilities.limit_default_w
    if not present(now) or not present(usual) or now >= usual:
        return None
    return _hindrance(
        "limit_lowered",
        _ASIDE,
        f"The power limit is {now:.0f} W, below the board's default of {usual:.0f} W.",
        f"Run: sudo nvidia-smi -pl {usual:.0f} (or leave it: the report says so)",
    )


def persistence_off(found: Diagnosis) -> Hindrance | None:
    """The driver may leave, and take limits and counter with it."""
    if not present(found.capabilities) or found.capabilities.persistence is not False:
        return None
    return _hindrance(
        "persistence_off",
        _ASIDE,
        "Persistence is off: when nobody uses the board the driver may leave, and the counter and "
        "limits start anew.",
        "Run: sudo nvidia-smi -pm 1",
    )


def wsl2(found: Diagnosis) -> Hindrance | None:
    """A part of NVML."""
    if found.host.wsl2 is not True:
        return None
    return _hindrance(
        "wsl2",
        _ASIDE,
        "This is Linux under Windows (WSL2): NVML offers a part of its readings, and Windows draws "
        "on the board.",
        "Measure on Linux itself where you can.",
    )


def on_battery(found: Diagnosis) -> Hindrance | None:
    """Machines slow down to last longer."""
    if found.supply != "battery":
        return None
    return _hindrance(
        "on_battery",
        _ASIDE,
        "The machine runs on its battery: board and processor slow down to last longer.",
        "Plug it in.",
    )


def cpu_governor(found: Diagnosis) -> Hindrance | None:
    """At batch 1 the host drives the board."""
    if not present(found.governor) or found.governor == "performance":
        return None
    return _hindrance(
        "cpu_governor",
        _ASIDE,
        f"The processors' clocks follow the load (governor {found.governor}); at batch 1 the board "
        "waits for the host.",
        "Run: sudo cpupower frequency-set -g performance",
    )


def disk_small(found: Diagnosis) -> Hindrance | None:
    """It would end with status 7."""
    if not _short(found.disk):
        return None
    return _hindrance(
        "disk_small",
        _STOPS,
        f"The disk has {found.disk.free_mib} MiB free; plan {found.plan} needs "
        f"{found.disk.needed_mib} MiB.",
        "Free some space, or choose another disk with --output_dir and --models_dir.",
    )


def board_memory_small(found: Diagnosis) -> Hindrance | None:
    """Costs the arms that do not fit."""
    if not _short(found.board_memory):
        return None
    return _hindrance(
        "board_memory_small",
        _ASIDE,
        f"The largest arm of plan {found.plan} needs about {found.board_memory.needed_mib} MiB on "
        f"the board, which has {found.board_memory.free_mib} MiB: it will be refused.",
        "Choose a smaller model.",
    )


def host_memory_small(found: Diagnosis) -> Hindrance | None:
    """The system may end an arm's process."""
    if not _short(found.host_memory):
        return None
    return _hindrance(
        "host_memory_small",
        _ASIDE,
        f"The host has {found.host_memory.free_mib} MiB of memory left; the largest arm of plan "
        f"{found.plan} passes about {found.host_memory.needed_mib} MiB through it.",
        "Close other programs, or choose a smaller model.",
    )


def _short(room: Room) -> bool:
    free, needed = room.free_mib, room.needed_mib
    return not isinstance(free, Absent) and not isinstance(needed, Absent) and free < needed


RULES: Final[tuple[Callable[[Diagnosis], Hindrance | None], ...]] = (
    torch_missing,
    torch_cpu_build,
    package_missing,
    foreign_process,
    disk_small,
    no_energy_counter,
    no_cross_check,
    module_scope,
    virtual_guests,
    display_server,
    slowed_down,
    bitsandbytes_missing,
    torchao_missing,
    neighbours_unknown,
    mps_clients,
    board_unlocked,
    lock_in_namespace,
    limit_lowered,
    persistence_off,
    wsl2,
    on_battery,
    cpu_governor,
    board_memory_small,
    host_memory_small,
)
