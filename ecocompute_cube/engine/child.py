"""An arm's process: orders come in on standard input, answers go out on what was standard output.

Libraries print, and programs that they start read; so both streams are moved aside before anything
else is imported. What is printed goes to the log, and whoever reads finds the end of a file.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, TextIO

from ecocompute_cube.device.base import PowerSource, SystemClock
from ecocompute_cube.engine.orders import AnswerLine, Failure, OrderLine
from ecocompute_cube.engine.worker import ArmWorker
from ecocompute_cube.errors import ArmFailed, DiskFull, EcoError, output_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecocompute_cube.backends.base import InferenceBackend
    from ecocompute_cube.engine.orders import Answer, Order

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_SEE_LOG: Final = "See the arm's log in the run folder."


def _take_streams() -> tuple[TextIO, TextIO]:
    orders = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return orders, answers


def _end_with_runner() -> None:
    """A runner that is killed takes its arms along: no board works on for nobody."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _named(dotted: str) -> object:
    module, _, name = dotted.partition(":")
    return getattr(importlib.import_module(module), name)


def open_power(spec: str) -> tuple[PowerSource, ...]:
    """``none``, ``nvml:UUID,UUID…``, or ``module:factory`` of a power source."""
    if spec == "none":
        return ()
    if spec.startswith("nvml:"):
        from ecocompute_cube.device.nvml import NvmlBoard

        return tuple(map(NvmlBoard, spec.removeprefix("nvml:").split(",")))
    source: PowerSource = _named(spec)()  # type: ignore[operator]  # a factory by its dotted name
    return (source,)


class LateWorker:
    """A worker that is made at the first order, so that what fails then has an answer too."""

    def __init__(self, backend: str, power: str, device: str) -> None:
        self._arguments = backend, power, device
        self._worker: ArmWorker | None = None

    def obey(self, order: Order) -> Answer:
        """Carry out one order. Raises whatever the libraries raise."""
        if self._worker is None:
            backend_name, power, device = self._arguments
            make: Callable[[str], InferenceBackend] = _named(backend_name)  # type: ignore[assignment]  # by its dotted name
            first, *others = open_power(power) or (None,)
            self._worker = ArmWorker(make(device), first, SystemClock(), device, others=others)
        return self._worker.obey(order)

    def close(self) -> None:
        """Free what there is."""
        if self._worker is not None:
            self._worker.close()


def answer(worker: LateWorker, line: str) -> AnswerLine:
    """Carry out one order line; every failure becomes an answer, none ends the process."""
    try:
        order = OrderLine.model_validate_json(line).order
        return AnswerLine(fact=worker.obey(order), failure=None)
    except EcoError as error:
        return AnswerLine(fact=None, failure=_told(error))
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)  # the whole story goes to the log
        return AnswerLine(fact=None, failure=_failure(error))


def _told(error: EcoError) -> Failure:
    reason = error.reason if isinstance(error, ArmFailed) else error.code
    return Failure(reason=reason, cause=error.cause, fix=error.fix or _SEE_LOG)


def _failure(error: Exception) -> Failure:
    """What a library raised, in the words of the journal."""
    first = (str(error).strip().splitlines() or ["no message"])[0].rstrip(".")
    if isinstance(error, ImportError):
        return Failure(
            reason="library_missing",
            cause=f"A library that this arm needs cannot be loaded: {first}.",
            fix="Run make setup, or install the package with its 'measure' extra.",
        )
    if isinstance(error, OSError) and isinstance(full := output_error(error, "log"), DiskFull):
        return _told(full)
    if isinstance(error, MemoryError):
        return Failure(
            reason="out_of_memory",
            cause=f"The host ran out of memory ({first}).",
            fix="Use a smaller batch, context or model, or free some memory.",
        )
    cause = f"{type(error).__name__}: {first}."
    return Failure(reason="library_error", cause=cause, fix=_SEE_LOG)


def main(arguments: list[str]) -> int:
    """Serve one arm: ``child BACKEND POWER DEVICES``, dotted names and torch's device strings."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the group; the runner decides
    _end_with_runner()
    orders, answers = _take_streams()
    backend, power, device = arguments
    worker = LateWorker(backend, power, device)
    with contextlib.suppress(BrokenPipeError):  # the runner is gone
        for line in orders:
            answers.write(answer(worker, line).model_dump_json() + "\n")
            answers.flush()
    worker.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
