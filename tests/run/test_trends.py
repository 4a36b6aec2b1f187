"""A run whose board drifts says so; one whose board does not, does not."""

from __future__ import annotations

import itertools
from pathlib import Path

from ecocompute_cube.model.base import present
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.report.text import as_text
from ecocompute_cube.report.write import write_energy

from .rig import Scene, plan


def asked(blocks: int) -> Plan:
    quick = {"min_passes": 1, "max_passes": 1, "output_tokens": 2}
    protocol = {"mode": "precise", "iterations": 1, "warmup": quick, "blocks": blocks}
    return plan(arms=["FP16", "NF4"], workloads=[{"output_tokens": 100}], protocol=protocol)


def test_a_board_that_gets_hungrier_is_told_with_its_size(tmp_path: Path) -> None:
    """ST-THERMAL: what a fixed order would have given to the later arms."""
    steps = itertools.count()
    hungrier = Scene(tmp_path, spread=lambda: 1.01 ** next(steps))
    report = write_energy(hungrier.measure(asked(8)))
    (trends,) = report.trends
    assert present(trends.drift) and 14 < trends.drift.change_pct < 17
    (finding,) = (finding for finding in report.findings if finding.code == "drift")
    assert finding.effect == "note" and "from the first block to the last" in finding.cause
    assert f"drift over the blocks: {trends.drift.change_pct:+.2f} %" in as_text(report)


def test_a_steady_board_has_its_tests_and_no_finding(tmp_path: Path) -> None:
    report = write_energy(Scene(tmp_path).measure(asked(8)))
    (trends,) = report.trends
    assert present(trends.drift) and abs(trends.drift.change_pct) < 0.1
    assert present(trends.position) and abs(trends.position.change_pct) < 0.1
    assert not {finding.code for finding in report.findings} & {"drift", "position_effect"}


def test_few_blocks_say_that_they_are_too_few(tmp_path: Path) -> None:
    report = write_energy(Scene(tmp_path).measure(asked(3)))
    (trends,) = report.trends
    assert not present(trends.drift) and not present(trends.position)
    assert "not enough blocks: 3 of 6" in as_text(report)
