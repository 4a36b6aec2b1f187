"""Windows of mode precise are long enough, or the report says that they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecocompute_cube.device.scripted import Behaviour
from ecocompute_cube.model.journal import WindowMeasured
from ecocompute_cube.model.report import Report
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.write import write_energy

from .rig import IDLE_W, Scene, plan


def report_of(folder: Path, protocol: dict[str, object], tick_s: float = 0.1) -> Report:
    workloads = [{"output_tokens": 100}]
    asked = plan(
        arms=["FP16"], workloads=workloads, protocol={"mode": "precise", "blocks": 1, **protocol}
    )
    scene = Scene(folder, Behaviour(idle_w=IDLE_W, tick_s=tick_s))
    return write_energy(scene.measure(asked))


def test_a_window_holds_whole_generations_of_at_least_twenty_seconds(tmp_path: Path) -> None:
    report = report_of(tmp_path, {})
    assert report.arms[0].output_tokens == 1000  # ten generations of two seconds
    assert "short_window" not in report.arms[0].lowered_by


def test_on_a_board_with_a_slow_tick_a_window_holds_two_hundred_of_them(tmp_path: Path) -> None:
    report = report_of(tmp_path, {}, tick_s=0.2)
    assert report.arms[0].output_tokens == 2000
    assert "short_window" not in report.arms[0].lowered_by


@pytest.mark.parametrize("protocol", [{"window_s": 10}, {"iterations": 2}])
def test_a_plan_that_says_less_has_its_way_and_a_lower_tier(
    tmp_path: Path, protocol: dict[str, object]
) -> None:
    report = report_of(tmp_path, protocol)
    assert report.arms[0].output_tokens < 1000
    assert "short_window" in report.arms[0].lowered_by


def test_many_generations_may_be_counted_instead(tmp_path: Path) -> None:
    assert "short_window" not in report_of(tmp_path, {"iterations": 11}).arms[0].lowered_by


def test_the_journal_says_how_long_a_window_had_to_be(tmp_path: Path) -> None:
    report_of(tmp_path, {})
    (folder,) = (tmp_path / "results").glob("*/")
    (window,) = (f for f in read_run(folder).journal.records if isinstance(f, WindowMeasured))
    assert window.least_s == 20.0
