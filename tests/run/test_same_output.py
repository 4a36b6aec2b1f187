"""Greedy output of each arm beside the one it is compared with."""

from __future__ import annotations

from pathlib import Path

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.claims import Agreement
from ecocompute_cube.model.journal import WindowMeasured
from ecocompute_cube.report.build import build_report
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.text import as_text
from ecocompute_cube.report.write import write_energy

from .rig import Scene, plan

ASKED = plan(
    arms=["FP16", "NF4", "FP16#2"],
    workloads=[{"output_tokens": 16}],
    protocol={"mode": "precise", "iterations": 1, "blocks": 2},
)


def test_a_report_says_how_far_an_arm_decodes_what_its_baseline_does(tmp_path: Path) -> None:
    report = write_energy(Scene(tmp_path).measure(ASKED))
    said = {each.arm.rsplit("_o16_", 1)[-1]: each.output for each in report.comparisons}
    nf4, again = list(said.values())
    assert nf4 == Agreement(tokens=16, before_first_difference=15, alike=15)
    assert again == Agreement(tokens=16, before_first_difference=16, alike=16)
    text = as_text(report)
    assert "NF4 eager against FP16 eager: parts after 15 of 16 tokens (15 alike)" in text
    assert "all 16 tokens alike" in text


def test_the_ids_stand_in_an_arms_first_window_alone(tmp_path: Path) -> None:
    run = Scene(tmp_path).measure(ASKED)
    windows = [f for f in read_run(run).journal.records if isinstance(f, WindowMeasured)]
    assert [len(window.first_ids) for window in windows] == [16] * 3 + [0] * 3


def test_a_rehearsal_compares_tokens_though_it_measures_no_energy(tmp_path: Path) -> None:
    report = write_energy(Scene(tmp_path).measure(ASKED, rehearse=True))
    assert all(present(each.output) for each in report.comparisons)


def test_early_journals_have_a_reason() -> None:
    early = Path(__file__).parents[2] / "data/h200/runs/20261130T142359Z-first-look"
    for each in build_report(read_run(early)).comparisons:
        assert each.output == Absent(reason="no window tells its output")
