"""Asks a board for everything that NVML offers; each answer is a value or a reason."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from ecocompute_cube.device.binding import FIELD_AVERAGE, FIELD_INSTANT, SCOPE_MODULE
from ecocompute_cube.device.neighbours import (
    compute_processes,
    graphics_processes,
    memory_used_mib,
    mps_processes,
)
from ecocompute_cube.model.base import Absent, MaybeFloat, MaybeStr, present
from ecocompute_cube.model.capabilities import Capabilities, SampleBuffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.device.binding import Nvml

_FIELD_MEMORY_TEMPERATURE: Final = 82  # nvml.h NVML_FI_DEV_MEMORY_TEMP
_US_PER_MS: Final = 1e3  # nvmlSample_t.timeStamp is in microseconds

#: nvml.h nvmlGpuVirtualizationMode_t, in our words.
_VIRTUALIZATION: Final = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host-vgpu", 4: "host-vsga"}

#: Event reasons that slow a board down or say why it is slow (nvml.h nvmlClocksEventReason*).
_EVENT_REASONS: Final = {
    0x1: "gpu_idle",
    0x2: "applications_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
}


def capabilities_of(nvml: Nvml, board: Any, hidden: str | None = None) -> Capabilities:  # noqa: ANN401 (NVML's handle)
    """Ask one board everything; ``hidden`` is why a list of its processes may be short of some."""
    watts, number, flag = nvml.watts, nvml.number, nvml.flag
    return Capabilities(
        energy_mj=nvml.ask(lambda n: int(n.nvmlDeviceGetTotalEnergyConsumption(board))),
        instant_w=nvml.field_w(board, FIELD_INSTANT),
        average_w=nvml.field_w(board, FIELD_AVERAGE),
        usage_w=watts(lambda n: n.nvmlDeviceGetPowerUsage(board)),
        module_w=module_w(nvml, board),
        samples=_samples(nvml, board),
        limit_w=watts(lambda n: n.nvmlDeviceGetEnforcedPowerLimit(board)),
        limit_default_w=watts(lambda n: n.nvmlDeviceGetPowerManagementDefaultLimit(board)),
        limit_lowest_w=watts(lambda n: n.nvmlDeviceGetPowerManagementLimitConstraints(board)[0]),
        limit_highest_w=watts(lambda n: n.nvmlDeviceGetPowerManagementLimitConstraints(board)[1]),
        sm_clock_mhz=number(lambda n: n.nvmlDeviceGetClockInfo(board, n.NVML_CLOCK_SM)),
        sm_clock_highest_mhz=number(lambda n: n.nvmlDeviceGetMaxClockInfo(board, n.NVML_CLOCK_SM)),
        memory_clock_mhz=number(lambda n: n.nvmlDeviceGetClockInfo(board, n.NVML_CLOCK_MEM)),
        temperature_c=number(lambda n: n.nvmlDeviceGetTemperature(board, n.NVML_TEMPERATURE_GPU)),
        memory_temperature_c=nvml.field(board, _FIELD_MEMORY_TEMPERATURE),
        slowdown_c=number(
            lambda n: n.nvmlDeviceGetTemperatureThreshold(
                board, n.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
            )
        ),
        event_reasons=event_reasons(nvml, board),
        ecc=flag(lambda n: n.nvmlDeviceGetEccMode(board)[0]),
        mig=flag(lambda n: n.nvmlDeviceGetMigMode(board)[0]),
        virtualization=virtualization(nvml, board),
        persistence=flag(lambda n: n.nvmlDeviceGetPersistenceMode(board)),
        compute_processes=compute_processes(nvml, board, hidden),
        graphics_processes=graphics_processes(nvml, board, hidden),
        mps_processes=mps_processes(nvml, board, hidden),
        memory_used_mib=memory_used_mib(nvml, board),
    )


def event_reasons(nvml: Nvml, board: object) -> tuple[str, ...] | Absent:
    """Why the board's clocks are what they are, by name."""
    bits = nvml.first_known(
        lambda n: int(n.nvmlDeviceGetCurrentClocksEventReasons(board)),
        lambda n: int(n.nvmlDeviceGetCurrentClocksThrottleReasons(board)),  # before 535
    )
    if isinstance(bits, Absent):
        return bits
    return tuple(name for bit, name in _EVENT_REASONS.items() if bits & bit)


def virtualization(nvml: Nvml, board: object) -> MaybeStr:
    """``none``, ``passthrough``, ``vgpu``, ``host-vgpu`` or ``host-vsga``."""
    mode = nvml.ask(lambda n: int(n.nvmlDeviceGetVirtualizationMode(board)))
    return _VIRTUALIZATION.get(mode, f"mode {mode}") if present(mode) else mode


def module_w(nvml: Nvml, board: object) -> MaybeFloat:
    """Power at scope MODULE, by field 186 or else 185, in watts."""
    instant = nvml.field_w(board, FIELD_INSTANT, SCOPE_MODULE)
    if present(instant):
        return instant
    average = nvml.field_w(board, FIELD_AVERAGE, SCOPE_MODULE)
    return average if present(average) else instant


def _samples(nvml: Nvml, board: object) -> SampleBuffer | Absent:
    times = nvml.ask(
        lambda n: [
            int(each.timeStamp)
            for each in n.nvmlDeviceGetSamples(board, n.NVML_TOTAL_POWER_SAMPLES, 0)[1]
        ]
    )
    if isinstance(times, Absent):
        return times
    if not times:
        return Absent(reason="the driver's sample buffer is empty")
    return SampleBuffer(samples=len(times), spacing_ms=_spacing_ms(sorted(times)))


def _spacing_ms(times_us: Sequence[int]) -> MaybeFloat:
    steps = [later - earlier for earlier, later in pairwise(times_us)]
    if not steps:
        return Absent(reason="one sample has no spacing")
    return statistics.median(steps) / _US_PER_MS
