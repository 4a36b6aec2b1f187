"""Measured runs of the real command: a stand-in for the driver's library, all else is real."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ecocompute_cube.model.base import present
from ecocompute_cube.model.journal import Refused, TraceLost, TraceStored
from ecocompute_cube.model.journal_file import JOURNAL_NAME
from ecocompute_cube.model.report import ArmReport
from ecocompute_cube.report.build import build_report
from ecocompute_cube.report.run import read_run

from .rig import Scene, alive, until


@pytest.fixture
def board(scene_of: Callable[..., Scene], libraries: Path) -> Scene:
    """A machine whose board draws 100 W, whatever it does."""
    scene = scene_of(
        protocol={
            "mode": "precise",
            "window_s": 0.3,
            "blocks": 1,
            "warmup": {"min_passes": 1, "max_passes": 1},
        }
    )
    scene.environment |= {
        "LD_LIBRARY_PATH": str(libraries / "new"),
        "CUDA_VISIBLE_DEVICES": "0",
        "STUB_FIELD_186": "0:1:100000",  # milliwatts, as an unsigned integer
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
