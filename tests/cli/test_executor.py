"""One arm's process, from its start to its end: no answer is lost, no process or pipe is left."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ecocompute_cube.engine.executor import ArmLink, ChildProcesses
from ecocompute_cube.engine.orders import Load, Order
from ecocompute_cube.errors import ArmFailed, OutputError
from ecocompute_cube.measure import builtin_text
from ecocompute_cube.model.journal import ArmReady
from ecocompute_cube.model.manifest import Manifest

from ..run.rig import plan
from .rig import alive, surroundings, until


@pytest.fixture
def order(staged_models: Path) -> Order:
    """Load the FP16 arm."""
    asked = plan()
    folder = staged_models / "random-smollm2-135m"
    return Load(
        session=0,
        arm=asked.expanded()[0],
        manifest=Manifest.model_validate_json((folder / "manifest.json").read_text()),
        folder=str(folder),
        protocol=asked.protocol,
        prompt_text=str(builtin_text()),
    )


class Stage:
    """Starts the staged runtime; at the end nothing of it may be left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = surroundings({"STAGE": str(folder)})
        self.processes = ChildProcesses(
            "tests.cli.stage:Backend", "none", "cpu", folder / "logs", environment, patience_s=0.5
        )

    def start(self, *actions: str) -> ArmLink:
        for action in actions:
            (self.folder / action).touch()
        return self.processes.start("FP16")

    def failure(self, order: Order, *actions: str) -> ArmFailed:
        """What the order came to."""
        link = self.start(*actions)
        with pytest.raises(ArmFailed) as caught:
            link.ask(order)
        link.close(patient=False)
        assert not alive(link.pid)
        assert "\n" not in caught.value.cause and caught.value.fix.endswith(".")
        return caught.value


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def open_files() -> set[str]:
    return {f"{entry}:{_target(entry)}" for entry in os.listdir("/proc/self/fd")}


def _target(entry: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{entry}")
    except OSError:
        return ""


def test_an_arm_answers_and_ends_and_leaves_no_pipe_open(stage: Stage, order: Order) -> None:
    before = open_files()
    link = stage.start()
    ready = link.ask(order)
    assert isinstance(ready, ArmReady) and ready.certificate.devices == ("cpu",)
    link.close(patient=True)
    link.close(patient=True)  # twice is as good as once
    assert not alive(link.pid)
    assert len(open_files()) == len(before)


def test_an_arm_that_does_not_end_when_asked_is_killed(stage: Stage, order: Order) -> None:
    link = stage.start("FP16.close.hang")
    link.ask(order)
    link.close(patient=True)
    assert (stage.folder / "FP16.close.hung").exists()
    assert not alive(link.pid)


def when(condition: Callable[[], object], do: Callable[[], None]) -> threading.Thread:
    """Do something as soon as something else is so."""

    def wait() -> None:
        until(condition)
        do()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_ctrl_c_while_an_arm_is_waited_for_ends_it_at_once(stage: Stage, order: Order) -> None:
    stage.processes = ChildProcesses(
        "tests.cli.stage:Backend",
        "none",
        "cpu",
        stage.folder / "logs",
        surroundings({"STAGE": str(stage.folder)}),
        patience_s=600,
    )
    link = stage.start("FP16.close.hang")
    link.ask(order)
    hung = (stage.folder / "FP16.close.hung").exists
    thread = when(hung, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        link.close(patient=True)
    thread.join()
    assert not alive(link.pid)


def test_an_arm_that_hangs_while_it_loads_can_be_left(stage: Stage, order: Order) -> None:
    link = stage.start("FP16.load.hang")
    hung = (stage.folder / "FP16.load.hung").exists
    thread = when(hung, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        link.ask(order)
    thread.join()
    link.close(patient=False)
    assert not alive(link.pid)


def test_what_a_library_raises_is_told_in_one_line_and_whole_in_the_log(
    stage: Stage, order: Order
) -> None:
    failed = stage.failure(order, "FP16.load.break")
    assert failed.reason == "library_error"
    assert failed.cause == "RuntimeError: the library broke."
    log = (stage.folder / "logs" / "FP16.log").read_text()
    assert "Traceback" in log and "in two lines" in log


def test_an_answer_that_is_none_is_a_failure_of_the_arm(stage: Stage, order: Order) -> None:
    failed = stage.failure(order, "FP16.load.garble")
    assert failed.reason == "garbled_answer"
    assert "(junk)" in failed.cause


def test_half_an_answer_is_that_of_a_process_that_died(stage: Stage, order: Order) -> None:
    failed = stage.failure(order, "FP16.load.garble-half", "FP16.load.leave")
    assert failed.reason == "process_died"
    assert "ended with status 3" in failed.cause


def test_last_words_are_those_of_this_process(stage: Stage, order: Order) -> None:
    (stage.folder / "logs").mkdir()
    (stage.folder / "logs" / "FP16.log").write_text("of an earlier visit\n")
    failed = stage.failure(order, "FP16.load.die")
    assert failed.cause == "The arm's process was killed by signal 9 (SIGKILL)."
    (stage.folder / "FP16.load.die").unlink()
    failed = stage.failure(order, "FP16.load.complain", "FP16.load.leave")
    assert failed.cause == "The arm's process ended with status 3 (CUDA is  [31mnot here)."


def test_an_arm_that_lost_its_process_says_so_again_when_asked_again(
    stage: Stage, order: Order
) -> None:
    link = stage.start("FP16.load.die")
    for _ in range(2):
        with pytest.raises(ArmFailed, match="SIGKILL"):
            link.ask(order)


def test_a_log_that_cannot_be_written_ends_the_run(stage: Stage) -> None:
    (stage.folder / "logs").touch()
    with pytest.raises(OutputError, match="log of FP16"):
        stage.start()


def test_a_system_without_room_for_a_process_costs_the_arm(tmp_path: Path) -> None:
    environment = {"TOO_LONG": "x" * 2**22}  # the system refuses it, as it would a full table
    processes = ChildProcesses("tests.cli.stage:Backend", "none", "cpu", tmp_path, environment)
    before = open_files()
    with pytest.raises(ArmFailed) as caught:
        processes.start("FP16")
    assert caught.value.reason == "process_not_started"
    assert len(open_files()) == len(before)


def test_a_signal_that_does_not_interrupt_the_wait_ends_it_all_the_same(
    stage: Stage, order: Order
) -> None:
    """One that comes just before the wait begins interrupts nothing; nor does another thread's."""

    def strike() -> None:
        until((stage.folder / "FP16.load.hung").exists)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    link, striker = stage.start("FP16.load.hang"), threading.Thread(target=strike)
    striker.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            link.ask(order)
    finally:
        striker.join()
        signal.signal(signal.SIGUSR1, before)
        link.close(patient=False)
