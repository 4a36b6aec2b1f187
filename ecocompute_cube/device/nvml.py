"""The only module that speaks to NVML. Every call's return code is looked at; none becomes zero."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import pynvml

from ecocompute_cube.device.base import Clock, SystemClock
from ecocompute_cube.errors import DriverMismatch, EcoError, NoDevice, NoGpu, NvmlMissing
from ecocompute_cube.model.base import Absent, MaybeFloat, MaybeInt, present, sha256_hex
from ecocompute_cube.model.journal import Board, PowerKind, Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

_FIELD_AVERAGE: Final = 185  # nvml.h NVML_FI_DEV_POWER_AVERAGE
_FIELD_INSTANT: Final = 186  # nvml.h NVML_FI_DEV_POWER_INSTANT
_SCOPE_GPU: Final = 0  # nvml.h NVML_POWER_SCOPE_GPU

#: nvml.h nvmlValueType → the member of the value union that holds it.
_FIELD_TYPES: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

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

_REHEARSE: Final = "Without a board you can still rehearse: ecocompute measure --rehearse."

#: NVML return code at start-up → the error a user sees.
_AT_START: Final[dict[int, tuple[type[NoDevice], str, str]]] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        NvmlMissing,
        "The NVIDIA driver's library libnvidia-ml.so.1 is not here.",
        "Install the NVIDIA driver; in a container, run with --gpus and the capabilities "
        f"compute,utility. {_REHEARSE}",
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        NvmlMissing,
        "The NVIDIA driver is installed but its kernel module is not loaded.",
        f"Load it (modprobe nvidia) or reboot. {_REHEARSE}",
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        DriverMismatch,
        "The NVIDIA driver's library and kernel module are of different versions.",
        "Reboot, or reload the kernel module, so that both are the same.",
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        NoDevice,
        "NVML refuses this user.",
        "Run as a user who may open /dev/nvidiactl.",
    ),
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: (
        NvmlMissing,
        "The NVIDIA driver's library is too old or not NVIDIA's.",
        f"Install a current NVIDIA driver. {_REHEARSE}",
    ),
}


class BoardId(NamedTuple):
    """A board chosen for this run, and what must be said about the choice."""

    uuid: str
    remark: str | None


@contextmanager
def nvml() -> Iterator[None]:
    """NVML initialised; raises NvmlMissing, DriverMismatch or NoDevice when it cannot be."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _start_error(error) from None
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _start_error(error: pynvml.NVMLError) -> EcoError:
    kind, cause, fix = _AT_START.get(
        error.value, (NoDevice, f"NVML does not start: {error}.", "Check nvidia-smi.")
    )
    return kind(cause, fix)


def choose_board() -> BoardId:
    """The first board that CUDA_VISIBLE_DEVICES lets this process see, by UUID.

    Raises NoGpu when it lets none be seen or names one that is not there, NoDevice for MIG.
    """
    uuids = _uuids()
    if not uuids:
        raise NoGpu("NVML finds no NVIDIA board on this machine.", _REHEARSE)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        remark = f"{len(uuids)} boards; measuring the first" if len(uuids) > 1 else None
        return BoardId(uuids[0], remark)
    return BoardId(_named(visible.split(",")[0].strip(), uuids), None)


def _uuids() -> list[str]:
    with nvml():
        count = pynvml.nvmlDeviceGetCount()
        return [_text(pynvml.nvmlDeviceGetUUID(_handle(index))) for index in range(count)]


def _handle(index: int) -> object:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def _named(name: str, uuids: list[str]) -> str:
    if name.startswith("MIG-"):
        raise NoDevice(
            "CUDA_VISIBLE_DEVICES names a MIG slice, and a slice has no power reading of its own.",
            "Choose a whole board: CUDA_VISIBLE_DEVICES=0.",
        )
    if name.isdecimal() and int(name) < len(uuids):
        return uuids[int(name)]
    found = [uuid for uuid in uuids if name.startswith("GPU-") and uuid.startswith(name)]
    if len(found) == 1:
        return found[0]
    raise NoGpu(
        f"CUDA_VISIBLE_DEVICES={name or '(empty)'} shows no board ({len(uuids)} installed).",
        "Unset it, or name an installed board by index or UUID (nvidia-smi -L).",
    )


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _ask(question: Callable[[], T]) -> T | Absent:
    """The answer of one NVML call, or the words of its return code."""
    try:
        return question()
    except pynvml.NVMLError as error:
        return Absent(reason=f"NVML: {error}")


def _watts(question: Callable[[], int]) -> MaybeFloat:
    answer = _ask(question)
    return answer / 1000 if present(answer) else answer


class NvmlBoard:
    """One board by UUID, opened for reading."""

    def __init__(self, uuid: str, clock: Clock | None = None) -> None:
        self._uuid = uuid
        self._clock = clock or SystemClock()
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except pynvml.NVMLError as error:
            raise _start_error(error) from None
        self._kind = self._best_power()

    def energy_mj(self) -> int | Absent:
        """Millijoules since the driver was loaded (nvmlDeviceGetTotalEnergyConsumption)."""
        return _ask(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))

    def power_w(self) -> MaybeFloat:
        """Watts, by the best kind this board offers."""
        return self._read_power(self._kind)

    def _best_power(self) -> PowerKind:
        for kind in (PowerKind.INSTANT, PowerKind.AVERAGE, PowerKind.USAGE):
            if present(self._read_power(kind)):
                return kind
        return PowerKind.NONE

    def _read_power(self, kind: PowerKind) -> MaybeFloat:
        if kind is PowerKind.INSTANT:
            return self._field_w(_FIELD_INSTANT)
        if kind is PowerKind.AVERAGE:
            return self._field_w(_FIELD_AVERAGE)
        if kind is PowerKind.USAGE:
            return _watts(lambda: pynvml.nvmlDeviceGetPowerUsage(self._handle))
        return Absent(reason="this board reports no power")

    def _field_w(self, field: int) -> MaybeFloat:
        answer = _ask(
            lambda: pynvml.nvmlDeviceGetFieldValues(self._handle, [(field, _SCOPE_GPU)])[0]
        )
        if not present(answer):
            return answer
        # The call can succeed while the field inside it failed, with value 0.
        if answer.nvmlReturn != pynvml.NVML_SUCCESS:
            return Absent(reason=f"NVML: field {field}: return code {answer.nvmlReturn}")
        milliwatts: int = getattr(answer.value, _FIELD_TYPES[answer.valueType])
        return milliwatts / 1000

    def telemetry(self, own_processes: frozenset[int]) -> Telemetry:
        """What the board says of itself now."""
        return Telemetry(
            at_ns=self._clock.now_ns(),
            temperature_c=self._float(self._temperature),
            power_w=self.power_w(),
            sm_clock_mhz=self._float(lambda: self._clock_mhz(pynvml.NVML_CLOCK_SM)),
            memory_clock_mhz=self._float(lambda: self._clock_mhz(pynvml.NVML_CLOCK_MEM)),
            event_reasons=self._reasons(),
            foreign_processes=self._foreign(own_processes),
        )

    def _float(self, question: Callable[[], int]) -> MaybeFloat:
        answer = _ask(question)
        return float(answer) if present(answer) else answer

    def _temperature(self) -> int:
        answer: int = pynvml.nvmlDeviceGetTemperature(self._handle, pynvml.NVML_TEMPERATURE_GPU)
        return answer

    def _clock_mhz(self, domain: int) -> int:
        answer: int = pynvml.nvmlDeviceGetClockInfo(self._handle, domain)
        return answer

    def _reasons(self) -> tuple[str, ...] | Absent:
        bits = _ask(lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle))
        if not present(bits):
            return bits
        return tuple(name for bit, name in _EVENT_REASONS.items() if bits & bit)

    def _foreign(self, own: frozenset[int]) -> MaybeInt:
        listed = _ask(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle))
        if not present(listed):
            return listed
        pids = {process.pid for process in listed}
        if own and not own & pids:
            # In a PID namespace NVML shows other numbers or none: that is not "nobody".
            return Absent(reason="cannot tell: NVML does not list this run's own processes")
        return len(pids - own)

    def board(self) -> Board:
        """What the board says of itself. The UUID is hashed."""
        handle = self._handle
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        counter = self.energy_mj()
        return Board(
            name=_text(pynvml.nvmlDeviceGetName(handle)),
            uuid_sha256=sha256_hex(self._uuid.encode()),
            architecture=architecture(major, minor),
            compute_capability=f"{major}.{minor}",
            memory_mib=pynvml.nvmlDeviceGetMemoryInfo(handle).total // 2**20,
            driver=_text(pynvml.nvmlSystemGetDriverVersion()),
            nvml=_text(pynvml.nvmlSystemGetNVMLVersion()),
            energy_counter=True if present(counter) else counter,
            power=self._kind,
            power_limit_w=_watts(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)),
            power_limit_default_w=_watts(
                lambda: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle)
            ),
            persistence=_flag(lambda: pynvml.nvmlDeviceGetPersistenceMode(handle)),
            mig=_flag(lambda: pynvml.nvmlDeviceGetMigMode(handle)[0]),
            ecc=_flag(lambda: pynvml.nvmlDeviceGetEccMode(handle)[0]),
            virtualization=_virtualization(handle),
        )

    def close(self) -> None:
        """Let go of NVML."""
        pynvml.nvmlShutdown()


def _flag(question: Callable[[], int]) -> bool | Absent:
    answer = _ask(question)
    return bool(answer) if present(answer) else answer


def _virtualization(handle: object) -> str | Absent:
    names = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host-vgpu", 4: "host-vsga"}  # nvml.h
    mode = _ask(lambda: pynvml.nvmlDeviceGetVirtualizationMode(handle))
    return names.get(mode, f"mode {mode}") if present(mode) else mode


def architecture(major: int, minor: int) -> str:
    """NVIDIA's architecture name by CUDA compute capability (CUDA programming guide)."""
    if (major, minor) == (8, 9):
        return "ada"
    if major == 7:  # noqa: PLR2004 (7.0 and 7.2 are Volta, 7.5 is Turing)
        return "turing" if minor >= 5 else "volta"  # noqa: PLR2004
    names = {5: "maxwell", 6: "pascal", 8: "ampere", 9: "hopper", 10: "blackwell"}
    return {**names, 11: "blackwell", 12: "blackwell"}.get(major, f"sm_{major}{minor}")
