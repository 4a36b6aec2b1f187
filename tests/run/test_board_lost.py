"""CT-NVMLLOST: a board that stops answering costs the block it was in, never a finished one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecocompute_cube.device.scripted import Behaviour
from ecocompute_cube.errors import ArmFailed, BoardLost
from ecocompute_cube.model.base import present
from ecocompute_cube.model.journal import BlockClosed, RunClosed, WindowMeasured
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.write import write_energy

from .rig import IDLE_W, Scene, plan

ASKED = plan(
    arms=["FP16", "NF4"],
    workloads=[{"output_tokens": 50}],
    protocol={
        "mode": "precise",
        "iterations": 2,
        "blocks": 3,
        "warmup": {"min_passes": 1, "max_passes": 1, "output_tokens": 2},
    },
)


def moment_of(scene: Scene, window: int) -> float:
    """Seconds from the start of an undisturbed run to the middle of one of its windows."""
    began = scene.clock.now_ns()
    facts = read_run(scene.measure(ASKED)).journal.records
    work = [fact.work for fact in facts if isinstance(fact, WindowMeasured)][window]
    return ((work.start_ns + work.end_ns) / 2 - began) / 1e9


def silent(folder: Path, start_s: float, end_s: float) -> Scene:
    return Scene(folder, Behaviour(idle_w=IDLE_W, silent_s=(start_s, end_s)))


def closed(run: Path) -> list[bool]:
    facts = read_run(run).journal.records
    return [fact.complete for fact in facts if isinstance(fact, BlockClosed)]


def test_a_counter_that_is_silent_for_a_moment_has_its_block_run_again(tmp_path: Path) -> None:
    at_s = moment_of(Scene(tmp_path / "calm"), 3)
    scene = silent(tmp_path, at_s, at_s + 2)
    run = scene.measure(ASKED)
    assert closed(run) == [True, False, True, True]
    report = write_energy(run)
    assert [arm.blocks for arm in report.arms] == [3, 3]
    assert "unfinished" not in {finding.code for finding in report.findings}


def test_a_board_that_is_gone_ends_the_run_and_the_same_command_goes_on(tmp_path: Path) -> None:
    at_s = moment_of(Scene(tmp_path / "calm"), 3)
    scene = silent(tmp_path, at_s, 1e9)
    with pytest.raises(BoardLost, match="energy counter") as lost:
        scene.measure(ASKED)
    assert lost.value.exit_status == 3
    (run,) = scene.output.glob("*/")
    assert closed(run) == [True, False, False]
    last = read_run(run).journal.records[-1]
    assert isinstance(last, RunClosed) and last.reason == "failed"
    assert len([*run.rglob("energy.json")]) == 2, "what was finished can be read"
    scene.board.behaviour = Behaviour(idle_w=IDLE_W)
    assert scene.measure(ASKED) == run
    report = write_energy(run)
    assert [arm.blocks for arm in report.arms] == [3, 3]
    assert all(present(arm.energy) for arm in report.arms)


def test_an_arm_that_fails_by_itself_after_a_glitch_costs_only_itself(tmp_path: Path) -> None:
    at_s = moment_of(Scene(tmp_path / "calm"), 0)
    failures = {"NF4": ArmFailed("library_missing", "It is missing (/home/me/lib.so).", "Get it.")}
    behaviour = Behaviour(idle_w=IDLE_W, silent_s=(at_s, at_s + 2))
    run = Scene(tmp_path, behaviour, failures=failures).measure(ASKED)
    report = write_energy(run)
    assert [arm.blocks for arm in report.arms] == [3, 0]
    assert "library_missing" in {finding.code for finding in report.findings}
    assert b"/home/me" not in (run / "journal.jsonl").read_bytes()
