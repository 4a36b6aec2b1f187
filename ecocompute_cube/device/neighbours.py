"""Who else uses a board: processes that are listed, and what the board shows of those that are not.

The driver shows a process only to its own PID namespace and those above (os_find_ns_pid in NVIDIA's
open kernel modules). From inside a container nobody can be called absent; memory that is taken and
kernels that run while this run rests still tell of somebody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ecocompute_cube.device.isolation import in_host_namespace
from ecocompute_cube.model.base import Absent, MaybeFloat, MaybeInt, present

if TYPE_CHECKING:
    from pathlib import Path

    from ecocompute_cube.device.binding import Nvml


def hidden_processes(root: Path) -> str | None:
    """Why a list of a board's processes may be short of some; None where it is whole."""
    shown = in_host_namespace("pid", root)
    if not present(shown):
        return f"cannot tell: {shown.reason}"
    return None if shown else "cannot tell: processes outside this PID namespace are not shown"


def foreign_processes(
    nvml: Nvml, board: object, own: frozenset[int], hidden: str | None
) -> MaybeInt:
    """How many compute on the board, MPS clients among them, that are not ``own``."""
    computing = nvml.running(lambda _: board)
    if isinstance(computing, Absent):
        return computing
    clients = _mps(nvml, board)
    pids = computing | clients if present(clients) else computing
    if own and not own & pids:
        # In a PID namespace NVML shows other numbers or none: that is not "nobody".
        return Absent(reason="cannot tell: NVML does not list this run's own processes")
    return _count(pids - own, hidden)


def compute_processes(nvml: Nvml, board: object, hidden: str | None) -> MaybeInt:
    """How many compute on the board."""
    return _count(nvml.running(lambda _: board), hidden)


def graphics_processes(nvml: Nvml, board: Any, hidden: str | None) -> MaybeInt:  # noqa: ANN401 (NVML's handle)
    """How many draw on the board."""
    drawing = nvml.first_known(
        lambda n: {p.pid for p in n.nvmlDeviceGetGraphicsRunningProcesses(board)},
        lambda n: {p.pid for p in n.nvmlDeviceGetGraphicsRunningProcesses_v2(board)},
    )
    return _count(drawing, hidden)


def mps_processes(nvml: Nvml, board: object, hidden: str | None) -> MaybeInt:
    """How many are clients of NVIDIA's multi-process service."""
    return _count(_mps(nvml, board), hidden)


def memory_used_mib(nvml: Nvml, board: Any) -> MaybeInt:  # noqa: ANN401 (NVML's handle)
    """Memory that processes hold, seen or not; what the driver keeps for itself is not in it."""
    used = nvml.ask(lambda n: int(n.nvmlDeviceGetMemoryInfo(board, n.nvmlMemory_v2).used))
    return used >> 20 if present(used) else used


def utilization_pct(nvml: Nvml, board: Any) -> MaybeFloat:  # noqa: ANN401 (NVML's handle)
    """Share of the driver's last sample, of a sixth of a second to a second, with a kernel."""
    return nvml.number(lambda n: n.nvmlDeviceGetUtilizationRates(board).gpu)


def _mps(nvml: Nvml, board: Any) -> set[int] | Absent:  # noqa: ANN401 (NVML's handle)
    return nvml.first_known(
        lambda n: {p.pid for p in n.nvmlDeviceGetMPSComputeRunningProcesses_v3(board)},
        lambda n: {p.pid for p in n.nvmlDeviceGetMPSComputeRunningProcesses_v2(board)},
    )


def _count(processes: set[int] | Absent, hidden: str | None) -> MaybeInt:
    """How many; none seen is not "none" where some are not shown."""
    if isinstance(processes, Absent):
        return processes
    if not processes and hidden is not None:
        return Absent(reason=hidden)
    return len(processes)
