"""NVIDIA's binding to NVML, asked so that every answer is a value or a reason, never a zero."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from ecocompute_cube.errors import DriverMismatch, EcoError, NoDevice, NvmlMissing
from ecocompute_cube.model.base import Absent, MaybeFloat, MaybeStr, present

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

T = TypeVar("T")

FIELD_AVERAGE: Final = 185  # nvml.h NVML_FI_DEV_POWER_AVERAGE
FIELD_INSTANT: Final = 186  # nvml.h NVML_FI_DEV_POWER_INSTANT
SCOPE_GPU: Final = 0  # nvml.h NVML_POWER_SCOPE_GPU
SCOPE_MODULE: Final = 1  # nvml.h NVML_POWER_SCOPE_MODULE
NOT_SUPPORTED: Final = "NVML: Not Supported"  # nvidia-ml-py's words for NVML_ERROR_NOT_SUPPORTED

REHEARSE: Final = "Without a board you can still rehearse: ecocompute measure --rehearse."

_NOT_AVAILABLE: Final = 0xFFFF_FFFF  # nvml.h NVML_VALUE_NOT_AVAILABLE, in 32 bits

#: nvml.h nvmlValueType → the member of the value union that holds it.
_FIELD_TYPES: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

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

#: NVML return code (nvml.h nvmlReturn_t) at start-up → the error a user sees.
_AT_START: Final[dict[int, tuple[type[NoDevice], str, str]]] = {
    12: (  # NVML_ERROR_LIBRARY_NOT_FOUND
        NvmlMissing,
        "The NVIDIA driver's library libnvidia-ml.so.1 is not here.",
        "Install the NVIDIA driver; in a container, run with --gpus and the capabilities "
        f"compute,utility. {REHEARSE}",
    ),
    9: (  # NVML_ERROR_DRIVER_NOT_LOADED
        NvmlMissing,
        "The NVIDIA driver is installed but its kernel module is not loaded.",
        f"Load it (modprobe nvidia) or reboot. {REHEARSE}",
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
        f"Install a current NVIDIA driver. {REHEARSE}",
    ),
}


class Nvml:
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
        return in_watts(answer) if present(answer) else answer

    def field(self, board: object, field: int, scope: int = SCOPE_GPU) -> MaybeFloat:
        """One field value, by its own return code and its own type."""
        answer = self.ask(lambda n: n.nvmlDeviceGetFieldValues(board, [(field, scope)])[0])
        if isinstance(answer, Absent):
            return answer
        # The call can succeed while the field inside it failed, with value 0.
        if answer.nvmlReturn != 0:  # nvml.h NVML_SUCCESS
            return Absent(reason=f"NVML: field {field}: return code {answer.nvmlReturn}")
        value = field_value(answer.valueType, answer.value)
        return value if present(value) else Absent(reason=f"NVML: field {field}: {value.reason}")

    def field_w(self, board: object, field: int, scope: int = SCOPE_GPU) -> MaybeFloat:
        """A field value in milliwatts, as watts."""
        answer = self.field(board, field, scope)
        return in_watts(answer) if present(answer) else answer

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


def field_value(kind: int, union: object) -> MaybeFloat:
    """What a value union holds, by its nvmlValueType."""
    if not 0 <= kind < len(_FIELD_TYPES):
        return Absent(reason=f"unknown value type {kind}")
    return float(getattr(union, _FIELD_TYPES[kind]))


def in_watts(milliwatts: float) -> MaybeFloat:
    """No board that answers draws nothing: zero and all ones are not readings."""
    if 0 < milliwatts < _NOT_AVAILABLE:
        return milliwatts / 1000
    return Absent(reason=f"NVML: {milliwatts:g} mW is no reading")


def nvidias_binding() -> ModuleType:
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


def _start_error(code: int, words: str) -> EcoError:
    kind, cause, fix = _AT_START.get(
        code, (NoDevice, f"NVML does not start: {words}.", "Check nvidia-smi.")
    )
    return kind(cause, fix)
