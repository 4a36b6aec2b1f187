"""The adaptive rule over whole runs: it ends them, survives interruption, and cannot be bent."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import present
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.model.report import Report
from ecocompute_cube.model.stop import Stopped
from ecocompute_cube.report.build import build_report
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.text import as_text
from ecocompute_cube.report.write import write_energy

from ..model.facts import write_journal
from .rig import Scene, plan


def asked(**stop: object) -> Plan:
    """Two arms and short windows; keys as under ``stop``."""
    quick = {"min_passes": 1, "max_passes": 1, "output_tokens": 2}
    rule = {"rule": "adaptive", "max_blocks": 16, **stop}
    protocol = {"mode": "precise", "iterations": 1, "warmup": quick, "stop": rule}
    return plan(arms=["FP16", "NF4"], workloads=[{"output_tokens": 100}], protocol=protocol)


def noise(percent: float, seed: int = 0) -> Callable[[], float]:
    draw = random.Random(seed)
    return lambda: draw.lognormvariate(0, percent / 100)


def report_of(run: Path) -> Report:
    return build_report(read_run(run))


def stops(run: Path) -> list[Stopped]:
    return [f for f in read_journal(run / JOURNAL_NAME).records if isinstance(f, Stopped)]


def test_a_quiet_board_is_done_after_eight_blocks(tmp_path: Path) -> None:
    report = write_energy(Scene(tmp_path).measure(asked()))
    (stopping,) = report.stopping
    assert (stopping.rule, stopping.blocks, stopping.ended) == ("adaptive", 8, True)
    assert "narrow enough" in as_text(report)
    assert "unfinished" not in {finding.code for finding in report.findings}


def test_a_noisy_board_goes_on_until_its_interval_is_as_narrow_as_asked(tmp_path: Path) -> None:
    run = Scene(tmp_path, spread=noise(1.5)).measure(asked())
    (stopped,) = stops(run)
    (comparison,) = report_of(run).comparisons
    assert 8 < stopped.blocks < 16
    assert stopped.reason == "narrow enough"
    assert present(stopped.widest_pct) and stopped.widest_pct <= 2
    assert present(comparison.interval_pct) and present(comparison.change_pct)
    width = comparison.interval_pct.high - comparison.interval_pct.low
    assert width / 2 / (1 + comparison.change_pct / 100) == pytest.approx(stopped.widest_pct)


def test_a_board_that_is_too_noisy_ends_at_the_maximum_and_is_no_failure(tmp_path: Path) -> None:
    run = Scene(tmp_path, spread=noise(20)).measure(asked(max_blocks=9))
    report = report_of(run)
    assert [(s.blocks, s.ended) for s in report.stopping] == [(9, True)]
    assert "maximum" in report.stopping[0].reason
    assert "unfinished" not in {finding.code for finding in report.findings}
    assert read_journal(run / JOURNAL_NAME).records[-1].model_dump()["reason"] == "finished"


def test_going_on_later_goes_on_until_the_rule_ends_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path, spread=noise(1.5))
    run = scene.measure(asked(), max_minutes=1.6)
    assert not stops(run)
    assert not report_of(run).stopping[0].ended
    assert scene.measure(asked()) == run
    (stopped,) = stops(run)
    assert [(s.blocks, s.ended) for s in report_of(run).stopping] == [(stopped.blocks, True)]
    assert scene.measure(asked()) != run, "what the rule has ended is finished"


def test_a_run_that_ended_right_before_its_decision_is_decided_by_running_it_again(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    run = scene.measure(asked())
    facts = read_journal(run / JOURNAL_NAME).records
    cut = next(number for number, fact in enumerate(facts) if isinstance(fact, Stopped))
    (run / JOURNAL_NAME).unlink()
    write_journal(run / JOURNAL_NAME, facts[:cut])
    assert scene.measure(asked()) == run
    assert [s.blocks for s in stops(run)] == [8]
    assert report_of(run).arms[0].blocks == 8


def test_an_arm_that_is_refused_is_not_waited_for(tmp_path: Path) -> None:
    refusal = ArmFailed("out_of_memory", "The board ran out of memory.", "Use less.")
    report = write_energy(Scene(tmp_path, failures={"NF4": refusal}).measure(asked()))
    assert [(s.blocks, s.ended) for s in report.stopping] == [(8, True)]
    assert "nothing to wait for" in report.stopping[0].reason


def rewritten(run: Path, folder: Path, rule: Plan) -> Report:
    """The run's report, had its journal been written for another plan."""
    facts = read_journal(run / JOURNAL_NAME).records
    opened = facts[0].model_copy(update={"plan": rule.public(), "plan_sha256": rule.sha256})
    folder.mkdir()
    write_journal(folder / JOURNAL_NAME, (opened, *facts[1:]))
    (folder / "traces").symlink_to(run / "traces")
    return report_of(folder)


def test_blocks_beyond_the_end_that_the_rule_gives_lower_the_tier(tmp_path: Path) -> None:
    run = Scene(tmp_path, spread=noise(1.5)).measure(asked())
    report = rewritten(run, tmp_path / "wider", asked(half_width_pct=20))
    assert not report.stopping[0].ended
    assert "had ended it after 8 blocks" in report.stopping[0].reason
    assert all("unfinished" in arm.lowered_by for arm in report.arms)


def test_an_end_before_the_one_that_the_rule_gives_lowers_the_tier(tmp_path: Path) -> None:
    run = Scene(tmp_path, spread=noise(1.5)).measure(asked())
    report = rewritten(run, tmp_path / "narrower", asked(half_width_pct=0.5))
    assert not report.stopping[0].ended
    assert all("unfinished" in arm.lowered_by for arm in report.arms)


def test_a_fixed_number_is_told_as_such(tmp_path: Path) -> None:
    report = write_energy(Scene(tmp_path).measure(plan(arms=["FP16"], protocol={"blocks": 1})))
    (stopping,) = report.stopping
    assert (stopping.rule, stopping.blocks, stopping.ended) == ("fixed", 1, True)
    assert "1 block, rule fixed" in as_text(report)
