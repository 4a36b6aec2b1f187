"""An arm's process: orders come in on standard input, answers go out on what was standard output.

Libraries print; so standard output is moved aside for the answers before anything else is imported
and whatever is printed goes to the log.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import TYPE_CHECKING, TextIO

from ecocompute_cube.device.base import PowerSource, SystemClock
from ecocompute_cube.engine.orders import AnswerLine, Failure, OrderLine
from ecocompute_cube.engine.worker import ArmWorker
from ecocompute_cube.errors import ArmFailed

if TYPE_CHECKING:
    from ecocompute_cube.backends.base import InferenceBackend


def _take_stdout() -> TextIO:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _named(dotted: str) -> object:
    module, _, name = dotted.partition(":")
    return getattr(importlib.import_module(module), name)


def open_power(spec: str) -> PowerSource | None:
    """``none``, ``nvml:UUID``, or ``module:factory`` of a power source."""
    if spec == "none":
        return None
    if spec.startswith("nvml:"):
        from ecocompute_cube.device.nvml import NvmlBoard

        return NvmlBoard(spec.removeprefix("nvml:"))
    source: PowerSource = _named(spec)()  # type: ignore[operator]  # a factory by its dotted name
    return source


def answer(worker: ArmWorker, line: str) -> AnswerLine:
    """Carry out one order line; every failure becomes an answer, none ends the process."""
    try:
        order = OrderLine.model_validate_json(line).order
        return AnswerLine(fact=worker.obey(order), failure=None)
    except ArmFailed as error:
        failure = Failure(reason=error.reason, cause=error.cause, fix=error.fix)
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)  # the whole story goes to the log
        first = (str(error).strip().splitlines() or ["no message"])[0]
        failure = Failure(
            reason="library_error",
            cause=f"{type(error).__name__}: {first}.",
            fix="See the arm's log in the run folder.",
        )
    return AnswerLine(fact=None, failure=failure)


def main(arguments: list[str]) -> int:
    """Serve one arm: ``child BACKEND POWER DEVICE``, dotted names and a device string."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the group; the runner decides
    answers = _take_stdout()
    backend_name, power, device = arguments
    backend: InferenceBackend = _named(backend_name)(device)  # type: ignore[operator]  # a factory
    worker = ArmWorker(backend, open_power(power), SystemClock(), device)
    for line in sys.stdin:
        answers.write(answer(worker, line).model_dump_json() + "\n")
        answers.flush()
    worker.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
