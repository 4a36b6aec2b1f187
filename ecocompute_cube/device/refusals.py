"""Boards that cannot be measured, told by the reason and before anything is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ecocompute_cube.device.binding import FIELD_AVERAGE, FIELD_INSTANT, NOT_SUPPORTED, REHEARSE
from ecocompute_cube.device.capabilities import module_w, virtualization
from ecocompute_cube.errors import (
    IntegratedBoard,
    MigSlice,
    NoDevice,
    NoPowerReading,
    VirtualGpu,
)
from ecocompute_cube.model.base import Absent, present

if TYPE_CHECKING:
    from ecocompute_cube.device.binding import Nvml


def refusal(nvml: Nvml, board: Any, name: str) -> NoDevice | None:  # noqa: ANN401 (NVML's handle)
    """Why this board cannot be measured at all; None when it can."""
    divided = nvml.ask(lambda n: n.nvmlDeviceGetMigMode(board)[0])
    if present(divided) and divided:
        return MigSlice(
            "The board is divided by MIG, and a slice has no power reading of its own.",
            "Switch MIG off (nvidia-smi -mig 0), or choose another board with "
            "CUDA_VISIBLE_DEVICES.",
        )
    if virtualization(nvml, board) == "vgpu":
        return VirtualGpu(
            f"{name} is a vGPU: its readings, if any, are of a board that others share.",
            f"Measure where the whole board is, or give it whole (passthrough). {REHEARSE}",
        )
    memory = nvml.ask(lambda n: int(n.nvmlDeviceGetMemoryInfo(board).total))
    if memory in (0, Absent(reason=NOT_SUPPORTED)):
        return integrated(f"{name} tells of no memory of its own")
    return _powerless(nvml, board, name)


def integrated(what: str) -> IntegratedBoard:
    """The refusal of a board that shares its host's memory and power."""
    return IntegratedBoard(
        f"{what}: boards that are one with their host (Jetson, GB10) are not measured yet.",
        f"Measure on a board with memory of its own. {REHEARSE}",
    )


def _powerless(nvml: Nvml, board: Any, name: str) -> NoPowerReading | None:  # noqa: ANN401 (NVML's handle)
    if any(present(nvml.field_w(board, field)) for field in (FIELD_INSTANT, FIELD_AVERAGE)):
        return None
    if present(nvml.watts(lambda n: n.nvmlDeviceGetPowerUsage(board))):
        return None
    counter = nvml.ask(lambda n: int(n.nvmlDeviceGetTotalEnergyConsumption(board)))
    if present(counter):
        return None
    which = "neither energy nor power"
    if present(module_w(nvml, board)):
        which = "only the power of a whole module, with its CPU and memory"
    return NoPowerReading(
        f"{name} reports {which} ({counter.reason}).", f"This board cannot be measured. {REHEARSE}"
    )
