"""A whole run on a scripted board recovers what the board really did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ecocompute_cube.analysis.protocol import Profile, Verdict, grade
from ecocompute_cube.device.scripted import Behaviour
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import present
from ecocompute_cube.model.plan import Precision
from ecocompute_cube.report.build import build_report
from ecocompute_cube.report.recompute import recompute
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.write import write_energy, write_report

from .rig import COSTS, IDLE_W, Scene, plan, true_mj


def test_the_headline_is_the_boards_true_energy_within_its_printed_bound(tmp_path: Path) -> None:
    report = write_energy(Scene(tmp_path).measure(plan()))
    for arm in report.arms:
        assert present(arm.energy)
        low, high = arm.energy.bound_mj
        assert low <= true_mj(arm.precision) <= high
        assert arm.energy.mj_per_token == pytest.approx(true_mj(arm.precision), rel=1e-3)
        assert arm.tokens_per_s == pytest.approx(1 / COSTS[arm.precision][0], rel=1e-6)


def test_paired_change_and_verdict_follow_from_the_truth(tmp_path: Path) -> None:
    report = write_energy(Scene(tmp_path).measure(plan()))
    versus = {arm.precision: arm.vs_baseline for arm in report.arms}[Precision.INT8]
    assert present(versus)
    assert present(versus.change_pct)
    expected = (true_mj("INT8") / true_mj("FP16") - 1) * 100
    assert versus.change_pct == pytest.approx(expected, abs=0.1)
    assert versus.verdict == "higher"
    assert versus.n == 3


def test_every_arm_file_is_dataset_eligible_in_form(tmp_path: Path) -> None:
    run = Scene(tmp_path).measure(plan())
    write_energy(run)
    files = sorted(run.glob("arms/*/energy.json"))
    assert len(files) == 3
    for file in files:
        found = grade(json.loads(file.read_text()), Profile.DATASET)
        # Only the scripted source stands between this file and the dataset.
        assert {violation.clause for violation in found.violations} == {"4.1.4"}, found
        assert found.verdict >= Verdict.SCHEMA_VALID
        assert recompute(file, json.loads(file.read_text())) == []


def test_the_report_is_the_same_bytes_twice(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    write_energy(scene.measure(plan()))
    pages = []
    for name in ("a", "b"):
        write_report(scene.output, tmp_path / name, scene.lines.append)
        files = (p for p in (tmp_path / name).rglob("*") if p.is_file())
        pages.append({p.name: p.read_bytes() for p in files})
    assert pages[0] == pages[1]


def test_an_arm_that_runs_out_of_memory_costs_only_itself(tmp_path: Path) -> None:
    failures = {"NF4": ArmFailed("out_of_memory", "The board ran out of memory.", "Use less.")}
    report = write_energy(Scene(tmp_path, failures=failures).measure(plan()))
    energies = {arm.precision: arm.energy for arm in report.arms}
    assert present(energies[Precision.FP16])
    assert present(energies[Precision.INT8])
    lost = energies[Precision.NF4]
    assert not present(lost)
    assert "out of memory" in lost.reason


def test_a_board_without_counter_is_measured_a_tier_lower(tmp_path: Path) -> None:
    """NV-NOCOUNTER."""
    behaviour = Behaviour(idle_w=IDLE_W, counter=False)
    report = write_energy(Scene(tmp_path, behaviour).measure(plan()))
    for arm in report.arms:
        assert present(arm.energy)
        assert arm.energy.source == "power-instant"
        assert "no_energy_counter" in arm.lowered_by
        assert arm.energy.mj_per_token == pytest.approx(true_mj(arm.precision), rel=1e-2)


def test_a_counter_that_starts_again_invalidates_the_window(tmp_path: Path) -> None:
    behaviour = Behaviour(idle_w=IDLE_W, reset_at_s=60.0)
    report = write_energy(Scene(tmp_path, behaviour).measure(plan(protocol={"blocks": 1})))
    codes = {finding.code for finding in report.findings}
    assert "counter_reset" in codes
    assert sum(present(arm.energy) for arm in report.arms) == 2


def test_a_neighbour_on_the_board_invalidates(tmp_path: Path) -> None:
    """ID-CONTEND."""
    report = write_energy(Scene(tmp_path, Behaviour(foreign=1)).measure(plan()))
    assert not any(present(arm.energy) for arm in report.arms)
    assert {f.code for f in report.findings} >= {"foreign_process"}


def test_a_rehearsal_cannot_be_mistaken_for_a_measurement(tmp_path: Path) -> None:
    run = Scene(tmp_path).measure(plan(), rehearse=True)
    report = write_energy(run)
    assert report.rehearsal
    assert "Not measured" in report.answer
    for file in run.glob("arms/*/energy.json"):
        document = json.loads(file.read_text())
        assert document["results"]["basis"] == "unavailable"
        assert document["results"]["energy_per_token_mj"] is None
        assert document["results"]["tokens_generated"] == 32
        assert document["measurement_source"] == "none"
        assert grade(document, Profile.CORE).verdict == Verdict.SCHEMA_VALID


def test_a_plan_whose_mode_is_a_rehearsal_needs_no_flag(tmp_path: Path) -> None:
    report = write_energy(Scene(tmp_path).measure(plan(protocol={"mode": "rehearsal"})))
    assert report.rehearsal
    assert "Not measured" in report.answer


def test_going_on_later_finishes_the_same_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    asked = plan(protocol={"blocks": 6})
    first = scene.measure(asked, max_minutes=12)
    blocks = [arm.blocks for arm in build_report(read_run(first)).arms]
    assert 0 < blocks[0] < 6
    second = scene.measure(asked)
    assert second == first
    report = build_report(read_run(second))
    assert [arm.blocks for arm in report.arms] == [6, 6, 6]
    assert report.evidence.visits == 2
    assert len(report.sessions) == 1


def test_another_kind_of_board_begins_a_run_of_its_own(tmp_path: Path) -> None:
    asked = plan(protocol={"blocks": 6})
    first = Scene(tmp_path).measure(asked, max_minutes=12)
    weaker = Scene(tmp_path, Behaviour(idle_w=IDLE_W, limit_w=300.0))
    second = weaker.measure(asked)
    assert second != first
    assert [arm.blocks for arm in build_report(read_run(second)).arms] == [6, 6, 6]


def test_a_counter_that_fails_for_one_window_never_mixes_with_the_trace(tmp_path: Path) -> None:
    behaviour = Behaviour(idle_w=IDLE_W, silent_s=(60.0, 62.0))
    report = write_energy(Scene(tmp_path, behaviour).measure(plan()))
    for arm in report.arms:
        assert present(arm.energy)
        assert arm.energy.source == "energy-counter"
        assert arm.energy.mj_per_token == pytest.approx(true_mj(arm.precision), rel=1e-3)
    assert [arm.blocks for arm in report.arms] == [3, 3, 3]


def test_an_arm_lost_on_the_way_has_its_block_run_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path, fails_at={("FP16", 2)})
    report = write_energy(scene.measure(plan()))
    assert [arm.blocks for arm in report.arms] == [3, 3, 3]
    assert "scripted_failure" in {finding.code for finding in report.findings}


def test_an_arm_that_keeps_failing_costs_only_itself(tmp_path: Path) -> None:
    scene = Scene(tmp_path, fails_at={("FP16", n) for n in range(2, 9)})
    report = write_energy(scene.measure(plan()))
    assert [arm.blocks for arm in report.arms] == [1, 3, 3]


def test_a_run_whose_arms_are_all_refused_ends_as_failed_and_can_be_tried_again(
    tmp_path: Path,
) -> None:
    refusal = ArmFailed("library_missing", "A library is missing.", "Install it.")
    run = Scene(tmp_path, failures=dict.fromkeys(COSTS, refusal)).measure(plan())
    assert read_run(run).journal.records[-1].model_dump()["reason"] == "failed"
    assert Scene(tmp_path).measure(plan()) == run
    assert [arm.blocks for arm in build_report(read_run(run)).arms] == [3, 3, 3]


def test_a_run_that_was_not_finished_says_so(tmp_path: Path) -> None:
    asked = plan(protocol={"blocks": 6})
    report = write_energy(Scene(tmp_path).measure(asked, max_minutes=12))
    unfinished = [finding for finding in report.findings if finding.code == "unfinished"]
    assert len(unfinished) == 3
    assert "of the planned 6 blocks" in unfinished[0].cause
    assert all("unfinished" in arm.lowered_by for arm in report.arms)
