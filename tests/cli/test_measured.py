"""Measured runs of the real command: a stand-in for the driver's library, all else is real."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ecocompute_cube.model.base import present
from ecocompute_cube.model.cost import Calibrated
from ecocompute_cube.model.journal import (
    Isolation,
    Refused,
    RunClosed,
    SessionOpened,
    TraceLost,
    TraceStored,
    WindowMeasured,
)
from ecocompute_cube.model.journal_file import JOURNAL_NAME
from ecocompute_cube.model.report import ArmReport
from ecocompute_cube.report.build import build_report
from ecocompute_cube.report.run import read_run

from ..device.machine import make_machine
from .rig import BRIEF, Scene, alive, assert_told, until


@pytest.fixture
def board(scene_of: Callable[..., Scene], libraries: Path) -> Scene:
    """A machine whose board draws 100 W, whatever it does."""
    scene = scene_of(protocol=BRIEF)
    scene.environment |= {
        "LD_LIBRARY_PATH": str(libraries / "new"),
        "CUDA_VISIBLE_DEVICES": "0",
        "STUB_FIELD_186": "0:1:100000",  # milliwatts, as an unsigned integer
        "STAGE_ROOT": str(make_machine(scene.folder / "machine")),
    }
    return scene


def arms(run: Path) -> dict[str, ArmReport]:
    return {arm.precision: arm for arm in build_report(read_run(run)).arms}


def test_a_run_measures_the_board_and_a_failed_arm_keeps_its_trace(board: Scene) -> None:
    board.plan_to("NF4.window.die")
    ended = board.measure(rehearse=False)
    assert ended.status == 0, ended.err
    assert "measuring on NVIDIA Stub" in ended.err
    facts = board.facts()
    (refused,) = (fact for fact in facts if isinstance(fact, Refused))
    assert (refused.reason, refused.stage) == ("process_died", "window")
    assert not [fact for fact in facts if isinstance(fact, TraceLost)]
    stored = [fact for fact in facts if isinstance(fact, TraceStored)]
    assert len(stored) == 3
    (run,) = board.runs
    assert sorted(path.name for path in (run / "traces").iterdir()) == sorted(
        Path(fact.file).name for fact in stored
    )
    found = arms(run)
    assert not present(found["NF4"].energy)
    for precision in ("FP16", "INT8"):
        energy = found[precision].energy
        assert present(energy), energy
        assert energy.mean_power_w == pytest.approx(100, rel=0.05)


# What explains the energy


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_stopped_while_it_is_profiled_ends_when_the_command_is_given_again(
    board: Scene, kill: signal.Signals
) -> None:
    board.plan_to("NF4.profile.hang")
    with board.started(rehearse=False) as process:
        pid = board.wait_for("NF4.profile.hung")
        process.send_signal(kill)
        process.communicate(timeout=20)
        until(lambda: not alive(pid))
    board.call_off("NF4.profile.hang")
    again = board.measure(rehearse=False)
    assert again.status == 0, again.err
    assert "going on with run" in again.err and "block 1" not in again.err
    facts = board.facts()
    assert isinstance(facts[-1], RunClosed) and facts[-1].reason == "finished"
    assert len([fact for fact in facts if isinstance(fact, WindowMeasured)]) == 3
    assert len(list(board.runs[0].glob("arms/*/energy.json"))) == 3


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_a_run_stopped_while_it_calibrates_calibrates_anew(
    board: Scene, kill: signal.Signals
) -> None:
    board.plan_to("any.calibrate.hang")
    with board.started(rehearse=False) as process:
        pid = board.wait_for("any.calibrate.hung")
        process.send_signal(kill)
        process.communicate(timeout=20)
        until(lambda: not alive(pid))
    board.call_off("any.calibrate.hang")
    again = board.measure(rehearse=False)
    assert again.status == 0, again.err
    assert len([fact for fact in board.facts() if isinstance(fact, Calibrated)]) == 1


@pytest.mark.parametrize(
    ("how", "told"), [("die", "SIGKILL"), ("garble", "nobody understands"), ("run-out", "memory")]
)
def test_a_calibration_that_fails_costs_the_explanation_alone(
    board: Scene, how: str, told: str
) -> None:
    board.plan_to(f"any.calibrate.{how}")
    ended = board.measure(rehearse=False)
    assert ended.status == 0, ended.err
    assert "not calibrated" in ended.err and told in ended.err
    assert all(present(arm.energy) for arm in arms(board.runs[0]).values())


def test_a_full_disk_while_it_calibrates_is_named(board: Scene) -> None:
    board.plan_to("any.calibrate.fill")
    assert_told(board.measure(rehearse=False), 7, "No room left")
    board.call_off("any.calibrate.fill")
    assert board.measure(rehearse=False).status == 0


# One run a board


def test_a_second_run_on_the_same_board_is_refused_and_the_lock_dies_with_the_first(
    board: Scene,
) -> None:
    """ID-DOUBLE."""
    board.plan_to("FP16.load.hang")
    second = Scene(board.folder / "stage", board.models, json.loads(board.plan.read_text()))
    second.environment |= board.environment | {"STAGE": str(second.stage)}
    with board.started(rehearse=False) as first:
        board.wait_for("FP16.load.hung")
        assert_told(
            second.measure(rehearse=False),
            3,
            "Board 0 (NVIDIA Stub) is being measured by another run.",
            "CUDA_VISIBLE_DEVICES",
        )
        assert not second.output.exists()
        assert second.measure().status == 0  # a rehearsal needs no board
        first.kill()
        first.communicate(timeout=20)
    ended = second.measure(rehearse=False)
    assert ended.status == 0, ended.err
    assert "locked" not in ended.err


def isolations(scene: Scene) -> list[Isolation]:
    found = [fact.isolation for fact in scene.facts() if isinstance(fact, SessionOpened)]
    return [each for each in found if present(each)]


def test_a_container_with_its_own_shared_memory_says_whom_its_lock_keeps_off(board: Scene) -> None:
    machine = make_machine(board.folder / "container", ipc=1, pids=2, signs=".dockerenv")
    board.environment |= {"STAGE_ROOT": str(machine), "ECO_IMAGE": "0.1.0+abcdef0"}
    ended = board.measure(rehearse=False)
    assert ended.status == 0, ended.err
    assert ended.err.count("only runs inside this container are kept off the board") == 1
    assert "--ipc=host" in ended.err
    (told,) = isolations(board)
    assert (told.container, told.board_lock, told.image) == ("docker", "namespace", "0.1.0+abcdef0")
    (document,) = board.runs[0].glob("arms/*FP16*/energy.json")
    shown = json.loads(document.read_text())["environment"]["isolation"]
    assert shown == told.model_dump(mode="json")


def test_a_machine_without_shared_memory_measures_unlocked_and_says_so(board: Scene) -> None:
    board.environment["STAGE_ROOT"] = str(board.folder / "nothing")
    ended = board.measure(rehearse=False)
    assert ended.status == 0, ended.err
    assert "the board is not locked (there is no /dev/shm)" in ended.err
    (told,) = isolations(board)
    assert not present(told.board_lock)


def test_a_run_begun_on_the_host_is_not_gone_on_with_in_a_container(board: Scene) -> None:
    board.plan_to("FP16.window.hang")
    with board.started(rehearse=False) as process:
        board.wait_for("FP16.window.hung")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    board.call_off("FP16.window.hang")
    (native,) = board.runs
    machine = make_machine(board.folder / "container", signs=".dockerenv")
    board.environment["STAGE_ROOT"] = str(machine)
    ended = board.measure(rehearse=False)
    assert ended.status == 0 and "going on" not in ended.err, ended.err
    assert len(board.runs) == 2 and native in board.runs


def children(pid: int) -> set[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return {int(child) for child in text.split()}


def test_a_killed_runner_takes_arms_and_sampler_with_it(board: Scene) -> None:
    board.plan_to("FP16.window.hang")
    with board.started(rehearse=False) as process:
        hung = board.wait_for("FP16.window.hung")
        ours = children(process.pid)
        assert hung in ours and len(ours) >= 2  # the arm and the side sampler
        process.kill()
        process.communicate(timeout=20)
        until(lambda: not any(map(alive, ours)), seconds=5)


def test_a_stopped_run_leaves_no_sampler_and_no_half_trace(board: Scene) -> None:
    board.plan_to("FP16.window.hang")
    with board.started(rehearse=False) as process:
        board.wait_for("FP16.window.hung")
        ours = children(process.pid)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 130
        until(lambda: not any(map(alive, ours)), seconds=5)
    (run,) = board.runs
    assert not list(run.glob("**/.*"))
    assert (run / JOURNAL_NAME).exists()
