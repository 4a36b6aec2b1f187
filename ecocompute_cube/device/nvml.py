"""The only module that speaks to NVML. Every call's return code is looked at; none becomes zero."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ecocompute_cube.device.base import Clock, SystemClock
from ecocompute_cube.device.faults import start_fault
from ecocompute_cube.device.isolation import in_host_namespace
from ecocompute_cube.device.lock import Claim, claim
from ecocompute_cube.device.visible import Candidate, Seen, candidates
from ecocompute_cube.errors import (
    BoardBusy,
    DriverMismatch,
    EcoError,
    NoDevice,
    NoGpu,
    NvmlMissing,
)
from ecocompute_cube.model.base import Absent, MaybeFloat, MaybeInt, MaybeStr, present, sha256_hex
from ecocompute_cube.model.journal import Board, PowerKind, Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

T = TypeVar("T")

#: What the code below needs and other packages that install a module ``pynvml`` lack: version 8 of
#: the package "pynvml" has no field values, version 11 no event reasons.
_NEEDED: Final = (
    "NVMLError",
    "NVMLLibraryMismatchError",
    "c_nvmlFieldValue_t",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetCurrentClocksEventReasons",
)

_FIELD_AVERAGE: Final = 185  # nvml.h NVML_FI_DEV_POWER_AVERAGE
_FIELD_INSTANT: Final = 186  # nvml.h NVML_FI_DEV_POWER_INSTANT
_SCOPE_GPU: Final = 0  # nvml.h NVML_POWER_SCOPE_GPU
_NOT_AVAILABLE: Final = 0xFFFF_FFFF  # nvml.h NVML_VALUE_NOT_AVAILABLE, in 32 bits

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

#: NVML return code (nvml.h nvmlReturn_t) at start-up → the error a user sees.
_AT_START: Final[dict[int, tuple[type[NoDevice], str, str]]] = {
    12: (  # NVML_ERROR_LIBRARY_NOT_FOUND
        NvmlMissing,
        "The NVIDIA driver's library libnvidia-ml.so.1 is not here.",
        "Install the NVIDIA driver; in a container, run with --gpus and the capabilities "
        f"compute,utility. {_REHEARSE}",
    ),
    9: (  # NVML_ERROR_DRIVER_NOT_LOADED
        NvmlMissing,
        "The NVIDIA driver is installed but its kernel module is not loaded.",
        f"Load it (modprobe nvidia) or reboot. {_REHEARSE}",
    ),
    18: (  # NVML_ERROR_LIB_RM_VERSION_MISMATCH
        DriverMismatch,
        "The NVIDIA driver's library and kernel module are of different versions.",
        "Reboot, or reload the kernel module, so that both are the same.",
    ),
    4: (  # NVML_ERROR_NO_PERMISSION
        NoDevice,
        "NVML refuses this user.",
        "Run as a user who may open /dev/nvidiactl.",
    ),
    13: (  # NVML_ERROR_FUNCTION_NOT_FOUND
        NvmlMissing,
        "The NVIDIA driver's library is too old or not NVIDIA's.",
        f"Install a current NVIDIA driver. {_REHEARSE}",
    ),
}


class _Nvml:
    """NVML through NVIDIA's binding, asked so that every answer is a value or a reason."""

    def __init__(self, binding: ModuleType) -> None:
        self._binding = binding
        self._faults: tuple[type[Exception], ...] = (
            binding.NVMLError,
            binding.NVMLLibraryMismatchError,
            AttributeError,  # a function that this binding does not have
            TypeError,  # ... or has with other arguments
            ValueError,
        )

    def start(self, known: Callable[[int], EcoError | None] = lambda _: None) -> None:
        """Initialise NVML. Raises NvmlMissing, DriverMismatch or NoDevice when it cannot be.

        ``known`` may have a better word for a return code.
        """
        try:
            self._binding.nvmlInit()
        except self._binding.NVMLError as error:
            raise known(error.value) or _start_error(error.value, str(error)) from None

    def end(self) -> None:
        """Let go of NVML; one that has vanished has nothing left to let go of."""
        with suppress(*self._faults):
            self._binding.nvmlShutdown()

    def ask(self, question: Callable[[ModuleType], T]) -> T | Absent:
        """The answer of one call, or the words of its return code."""
        try:
            return question(self._binding)
        except self._faults as error:
            return Absent(reason=f"NVML: {error}")

    def text(self, question: Callable[[ModuleType], str]) -> MaybeStr:
        """A text; bytes that are no UTF-8 (boards' names under WSL2) are replaced."""
        try:
            return question(self._binding)
        except UnicodeDecodeError as error:
            return error.object.decode("utf-8", "replace")
        except self._faults as error:
            return Absent(reason=f"NVML: {error}")

    def number(self, question: Callable[[ModuleType], int]) -> MaybeFloat:
        """A number as NVML gives it."""
        answer = self.ask(question)
        return float(answer) if present(answer) else answer

    def watts(self, question: Callable[[ModuleType], int]) -> MaybeFloat:
        """Milliwatts as watts."""
        answer = self.ask(question)
        return _watts(answer) if present(answer) else answer

    def flag(self, question: Callable[[ModuleType], int]) -> bool | Absent:
        """On or off."""
        answer = self.ask(question)
        return bool(answer) if present(answer) else answer

    def first_known(
        self, question: Callable[[ModuleType], T], older: Callable[[ModuleType], T]
    ) -> T | Absent:
        """The answer of a function, or of its older form where a driver has only that."""
        answer = self.ask(question)
        if present(answer):
            return answer
        second = self.ask(older)
        return second if present(second) else answer

    def running(self, board: Callable[[ModuleType], object]) -> set[int] | Absent:
        """Processes that compute on a board, as far as this PID namespace is shown them."""
        return self.first_known(
            lambda n: {p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(board(n))},
            lambda n: {p.pid for p in n.nvmlDeviceGetComputeRunningProcesses_v2(board(n))},
        )


def _watts(milliwatts: float) -> MaybeFloat:
    """No board that answers draws nothing: zero and all ones are not readings."""
    if 0 < milliwatts < _NOT_AVAILABLE:
        return milliwatts / 1000
    return Absent(reason=f"NVML: {milliwatts:g} mW is no reading")


def _binding() -> ModuleType:
    """NVIDIA's nvidia-ml-py. Raises NvmlMissing when the name ``pynvml`` gives something else."""
    fix = "Run: pip uninstall --yes pynvml; pip install --force-reinstall 'nvidia-ml-py>=12.560'"
    try:
        import pynvml
    except (ImportError, SyntaxError) as error:  # old ones were written for Python 2
        raise NvmlMissing(f"NVIDIA's nvidia-ml-py cannot be imported ({error}).", fix) from None
    lacking = [name for name in _NEEDED if not hasattr(pynvml, name)]
    if lacking:
        raise NvmlMissing(
            f"The Python module 'pynvml' is not NVIDIA's nvidia-ml-py: it has no {lacking[0]}.",
            fix,
        )
    binding: ModuleType = pynvml
    return binding


@contextmanager
def _nvml(environment: Mapping[str, str], root: Path) -> Iterator[_Nvml]:
    """NVML initialised; raises NvmlMissing, DriverMismatch or NoDevice when it cannot be."""
    library = _Nvml(_binding())
    library.start(lambda code: start_fault(code, root, environment))
    try:
        yield library
    finally:
        library.end()


def _start_error(code: int, words: str) -> EcoError:
    kind, cause, fix = _AT_START.get(
        code, (NoDevice, f"NVML does not start: {words}.", "Check nvidia-smi.")
    )
    return kind(cause, fix)


class Chosen(NamedTuple):
    """The board of this run, held against other runs, and what must be said about the choice."""

    uuid: str
    remark: str | None
    claim: Claim


def choose_board(environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Chosen:
    """The first free board that CUDA_VISIBLE_DEVICES lets this process see, locked below ``root``.

    Raises NoGpu when it lets none be seen or names one that is not there; BoardBusy when others
    have what it names, or all there is; NoDevice for MIG and for a board that does not answer.
    """
    with _nvml(environment, root) as library:
        boards = _boards(library)
        if not boards:
            raise NoGpu("NVML finds no NVIDIA board on this machine.", _REHEARSE)
        return _first_free(library, candidates(boards, environment), root)


def _first_free(library: _Nvml, possible: Sequence[Candidate], root: Path) -> Chosen:
    refusals: list[NoDevice] = []
    for each in possible:
        try:
            _refuse_mig(library, each.uuid)
            held = _claimed(each, root)
            if len(possible) > 1 and (users := _users(library, each.uuid)):
                held.close()
                raise _in_use(each, users)
            return Chosen(each.uuid, each.remark, held)
        except NoDevice as refusal:
            refusals.append(refusal)
    raise _none_free(refusals)


def _claimed(board: Candidate, root: Path) -> Claim:
    held = claim(board.uuid, root)
    if held is None:
        raise BoardBusy(
            f"Board {board.ordinal} ({board.name}) is being measured by another run.",
            "Wait for it, or choose another board with CUDA_VISIBLE_DEVICES.",
        )
    return held


def _users(library: _Nvml, uuid: str) -> int:
    """How many processes compute on a board, as far as the driver tells."""
    users = library.running(lambda n: n.nvmlDeviceGetHandleByUUID(uuid))
    return len(users) if present(users) else 0


def _in_use(board: Candidate, users: int) -> BoardBusy:
    return BoardBusy(
        f"Board {board.ordinal} ({board.name}) is in use (compute processes: {users}).",
        "Wait for them, or name the board with CUDA_VISIBLE_DEVICES.",
    )


def _none_free(refusals: Sequence[NoDevice]) -> NoDevice:
    if len(refusals) == 1 or not any(isinstance(each, BoardBusy) for each in refusals):
        return refusals[0]
    causes = "; ".join(each.cause.rstrip(".") for each in refusals)
    return BoardBusy(
        f"None of {len(refusals)} boards is free: {causes}.",
        "Wait for one of them, or name one with CUDA_VISIBLE_DEVICES.",
    )


def _boards(library: _Nvml) -> list[Seen]:
    count = library.ask(lambda n: int(n.nvmlDeviceGetCount()))
    if not present(count):
        raise NoDevice(f"NVML does not count its boards ({count.reason}).", "Check nvidia-smi.")
    return [_seen(library, index) for index in range(count)]


def _seen(library: _Nvml, index: int) -> Seen:
    handle = library.ask(lambda n: n.nvmlDeviceGetHandleByIndex(index))
    if isinstance(handle, Absent):
        return Seen(handle, handle)
    return Seen(
        library.text(lambda n: n.nvmlDeviceGetUUID(handle)),
        library.text(lambda n: n.nvmlDeviceGetName(handle)),
    )


def _refuse_mig(library: _Nvml, uuid: str) -> None:
    mode = library.ask(lambda n: n.nvmlDeviceGetMigMode(n.nvmlDeviceGetHandleByUUID(uuid))[0])
    if present(mode) and mode:
        raise NoDevice(
            "The board is divided by MIG, and a slice has no power reading of its own.",
            "Switch MIG off (nvidia-smi -mig 0), or choose another board with "
            "CUDA_VISIBLE_DEVICES.",
        )


class NvmlBoard:
    """One board by UUID, opened for reading. Raises NvmlMissing, NoGpu or NoDevice; then never."""

    def __init__(self, uuid: str, clock: Clock | None = None, root: Path = Path("/")) -> None:
        self._uuid = uuid
        self._hidden = _who_is_hidden(root)
        self._clock = clock or SystemClock()
        self._nvml = _Nvml(_binding())
        self._nvml.start()
        handle = self._nvml.ask(lambda n: n.nvmlDeviceGetHandleByUUID(uuid))
        if isinstance(handle, Absent):
            self._nvml.end()
            raise NoGpu(
                f"The board chosen for this run cannot be opened ({handle.reason}).",
                "Check that nvidia-smi -L still lists it.",
            )
        self._handle: object = handle
        self.power = self._best_power()  #: what ``power_w`` reads

    def energy_mj(self) -> int | Absent:
        """Millijoules since the driver was loaded (nvmlDeviceGetTotalEnergyConsumption)."""
        return self._nvml.ask(lambda n: int(n.nvmlDeviceGetTotalEnergyConsumption(self._handle)))

    def power_w(self) -> MaybeFloat:
        """Watts, by the best kind this board offers."""
        return self._read_power(self.power)

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
            return self._nvml.watts(lambda n: n.nvmlDeviceGetPowerUsage(self._handle))
        return Absent(reason="this board reports no power")

    def _field_w(self, field: int) -> MaybeFloat:
        answer = self._nvml.ask(
            lambda n: n.nvmlDeviceGetFieldValues(self._handle, [(field, _SCOPE_GPU)])[0]
        )
        if isinstance(answer, Absent):
            return answer
        # The call can succeed while the field inside it failed, with value 0.
        if answer.nvmlReturn != 0:  # nvml.h NVML_SUCCESS
            return Absent(reason=f"NVML: field {field}: return code {answer.nvmlReturn}")
        if not 0 <= answer.valueType < len(_FIELD_TYPES):
            return Absent(reason=f"NVML: field {field}: unknown value type {answer.valueType}")
        return _watts(getattr(answer.value, _FIELD_TYPES[answer.valueType]))

    def telemetry(self, own_processes: frozenset[int]) -> Telemetry:
        """What the board says of itself now."""
        number, handle = self._nvml.number, self._handle
        return Telemetry(
            at_ns=self._clock.now_ns(),
            temperature_c=number(
                lambda n: n.nvmlDeviceGetTemperature(handle, n.NVML_TEMPERATURE_GPU)
            ),
            power_w=self.power_w(),
            sm_clock_mhz=number(lambda n: n.nvmlDeviceGetClockInfo(handle, n.NVML_CLOCK_SM)),
            memory_clock_mhz=number(lambda n: n.nvmlDeviceGetClockInfo(handle, n.NVML_CLOCK_MEM)),
            event_reasons=self._reasons(),
            foreign_processes=self._foreign(own_processes),
        )

    def _reasons(self) -> tuple[str, ...] | Absent:
        bits = self._nvml.first_known(
            lambda n: n.nvmlDeviceGetCurrentClocksEventReasons(self._handle),
            lambda n: n.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle),  # before 535
        )
        if isinstance(bits, Absent):
            return bits
        return tuple(name for bit, name in _EVENT_REASONS.items() if bits & bit)

    def _foreign(self, own: frozenset[int]) -> MaybeInt:
        pids = self._nvml.running(lambda _: self._handle)
        if isinstance(pids, Absent):
            return pids
        if own and not own & pids:
            # In a PID namespace NVML shows other numbers or none: that is not "nobody".
            return Absent(reason="cannot tell: NVML does not list this run's own processes")
        foreign = len(pids - own)
        if not foreign and self._hidden is not None:
            return Absent(reason=self._hidden)
        return foreign

    def board(self) -> Board:
        """What the board says of itself, the UUID hashed. Raises NoDevice without a memory size."""
        nvml, handle = self._nvml, self._handle
        counter = self.energy_mj()
        capability = self._capability()
        return Board(
            name=_or_unknown(nvml.text(lambda n: n.nvmlDeviceGetName(handle))),
            uuid_sha256=sha256_hex(self._uuid.encode()),
            architecture=architecture(*capability) if present(capability) else "unknown",
            compute_capability=_or_unknown(
                ".".join(map(str, capability)) if present(capability) else capability
            ),
            memory_mib=self._memory_mib(),
            driver=_or_unknown(nvml.text(lambda n: n.nvmlSystemGetDriverVersion())),
            nvml=_or_unknown(nvml.text(lambda n: n.nvmlSystemGetNVMLVersion())),
            energy_counter=True if present(counter) else counter,
            power=self.power,
            power_limit_w=nvml.watts(lambda n: n.nvmlDeviceGetEnforcedPowerLimit(handle)),
            power_limit_default_w=nvml.watts(
                lambda n: n.nvmlDeviceGetPowerManagementDefaultLimit(handle)
            ),
            persistence=nvml.flag(lambda n: n.nvmlDeviceGetPersistenceMode(handle)),
            mig=nvml.flag(lambda n: n.nvmlDeviceGetMigMode(handle)[0]),
            ecc=nvml.flag(lambda n: n.nvmlDeviceGetEccMode(handle)[0]),
            virtualization=self._virtualization(),
        )

    def _capability(self) -> tuple[int, int] | Absent:
        return self._nvml.ask(lambda n: n.nvmlDeviceGetCudaComputeCapability(self._handle))

    def _memory_mib(self) -> int:
        total = self._nvml.ask(lambda n: int(n.nvmlDeviceGetMemoryInfo(self._handle).total))
        if not present(total):
            raise NoDevice(
                f"The board does not say how much memory it has ({total.reason}).",
                "Check nvidia-smi; boards that share the host's memory are not supported yet.",
            )
        return total // 2**20

    def _virtualization(self) -> MaybeStr:
        names = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host-vgpu", 4: "host-vsga"}  # nvml.h
        mode = self._nvml.ask(lambda n: int(n.nvmlDeviceGetVirtualizationMode(self._handle)))
        return names.get(mode, f"mode {mode}") if present(mode) else mode

    def close(self) -> None:
        """Let go of NVML."""
        self._nvml.end()


def _who_is_hidden(root: Path) -> str | None:
    """Why a list of a board's processes may be short of some; None where it is whole.

    The driver shows a process only to its own PID namespace and those above (os_find_ns_pid in
    NVIDIA's open kernel modules).
    """
    shown = in_host_namespace("pid", root)
    if not present(shown):
        return f"cannot tell: {shown.reason}"
    return None if shown else "cannot tell: processes outside this PID namespace are not shown"


def _or_unknown(answer: MaybeStr) -> str:
    """For what the journal holds as a plain text: the reason stands in the text's place."""
    return answer if present(answer) else f"unknown ({answer.reason})"


def architecture(major: int, minor: int) -> str:
    """NVIDIA's architecture name by CUDA compute capability (CUDA programming guide)."""
    if (major, minor) == (8, 9):
        return "ada"
    if major == 7:  # noqa: PLR2004 (7.0 and 7.2 are Volta, 7.5 is Turing)
        return "turing" if minor >= 5 else "volta"  # noqa: PLR2004
    names = {5: "maxwell", 6: "pascal", 8: "ampere", 9: "hopper", 10: "blackwell"}
    return {**names, 11: "blackwell", 12: "blackwell"}.get(major, f"sm_{major}{minor}")
