"""What one board offers, found out by asking it, never by its name or architecture."""

from __future__ import annotations

from ecocompute_cube.model.base import Absent, Count, MaybeFloat, MaybeInt, MaybeStr, Record
from ecocompute_cube.model.readings import EARLY_FIELD


class SampleBuffer(Record):
    """The driver's own record of power (nvmlDeviceGetSamples, total power)."""

    samples: Count  #: in the buffer when it was asked
    spacing_ms: MaybeFloat  #: median between two samples


class Capabilities(Record):
    """Every reading that NVML knows of: the value that came back, or why none did."""

    energy_mj: Count | Absent  #: the energy counter; the session's tick shows that it advances
    instant_w: MaybeFloat  #: NVML field 186, scope GPU
    average_w: MaybeFloat  #: NVML field 185, scope GPU
    usage_w: MaybeFloat  #: nvmlDeviceGetPowerUsage
    #: field 186, else 185, at scope MODULE: asked to know the boards that answer nowhere else, and
    #: never used as the board's power
    module_w: MaybeFloat
    samples: SampleBuffer | Absent  #: the driver's own record of power
    limit_w: MaybeFloat  #: the power limit that is enforced
    limit_default_w: MaybeFloat  #: the limit the board starts with
    limit_lowest_w: MaybeFloat  #: the lowest limit that may be set
    limit_highest_w: MaybeFloat  #: the highest limit that may be set
    sm_clock_mhz: MaybeFloat  #: now
    sm_clock_highest_mhz: MaybeFloat  #: that the board may reach
    memory_clock_mhz: MaybeFloat  #: now
    temperature_c: MaybeFloat  #: of the GPU
    memory_temperature_c: MaybeFloat  #: of the board's memory
    slowdown_c: MaybeFloat  #: where the board begins to slow down
    event_reasons: tuple[str, ...] | Absent  #: why the clocks are what they are
    ecc: bool | Absent  #: whether the memory corrects errors
    mig: bool | Absent  #: whether the board is divided
    virtualization: MaybeStr
    persistence: bool | Absent  #: whether the driver stays loaded when nobody uses the board
    compute_processes: MaybeInt  #: processes that compute on the board
    graphics_processes: MaybeInt  #: processes that draw on the board: a display server
    mps_processes: MaybeInt  #: clients of NVIDIA's multi-process service
    #: that processes hold, seen or not; left out by early versions
    memory_used_mib: MaybeInt = EARLY_FIELD

    @property
    def module_only(self) -> bool:
        """Whether power is told of a whole module (GPU, CPU, memory), never of the GPU alone."""
        return (
            isinstance(self.instant_w, Absent)
            and isinstance(self.average_w, Absent)
            and not isinstance(self.module_w, Absent)
        )
