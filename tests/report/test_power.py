"""A visit's trace as the page shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecocompute_cube.analysis.traces import read_trace
from ecocompute_cube.model.base import present
from ecocompute_cube.model.journal import TraceStored
from ecocompute_cube.report.charts.power import power_chart
from ecocompute_cube.report.power import PowerShown, Stretch, power_shown
from ecocompute_cube.report.run import RunEvidence, read_run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run() -> RunEvidence:
    (folder,) = (ROOT / "data/h200/runs").glob("*-verdict")
    return read_run(folder)


@pytest.fixture(scope="module")
def visits(run: RunEvidence) -> tuple[PowerShown, ...]:
    return power_shown(run)


def test_every_measured_arm_shows_its_last_visit(
    run: RunEvidence, visits: tuple[PowerShown, ...]
) -> None:
    assert {visit.arm for visit in visits} == {arm.id for arm in run.known.arms}
    assert {visit.block for visit in visits} == {7}


def test_thinning_keeps_the_lowest_and_the_highest(
    run: RunEvidence, visits: tuple[PowerShown, ...]
) -> None:
    for visit in visits:
        stored = run.known.traces[visit.arm, 0, 0, visit.block, 0]
        assert isinstance(stored, TraceStored)
        (folder,) = (ROOT / "data/h200/runs").glob("*-verdict")
        trace = read_trace(folder, stored)
        assert present(trace)
        shown = [power for _, power in visit.points]
        assert len(shown) <= 300 < len(trace.power_w)
        assert min(shown) == pytest.approx(min(trace.power_w), abs=0.05)
        assert max(shown) == pytest.approx(max(trace.power_w), abs=0.05)
        assert [at for at, _ in visit.points] == sorted(at for at, _ in visit.points)


def test_stretches_follow_each_other_without_overlap(visits: tuple[PowerShown, ...]) -> None:
    for visit in visits:
        assert [each.what for each in visit.stretches] == [
            "idle",
            "warm-up",
            "window: generate",
            "idle",
        ]
        ends = [0.0]
        for each in visit.stretches:
            assert ends[-1] <= each.start_s < each.end_s
            ends.append(each.end_s)


def test_without_traces_there_is_no_chart() -> None:
    assert power_chart((), {}) is None


def test_a_part_has_one_colour_in_every_visit(visits: tuple[PowerShown, ...]) -> None:
    loading = visits[0]._replace(stretches=(Stretch("load", 0.0, 1.0), *visits[0].stretches))
    names = {(visit.run_id, visit.arm): visit.arm for visit in visits}
    chart = power_chart((visits[0], loading), names)
    assert chart is not None
    colour = chart.spec["layer"][0]["encoding"]["color"]  # type: ignore[index]  # a dict
    assert colour["scale"]["domain"] == ["load", "idle", "warm-up", "window: generate"]
