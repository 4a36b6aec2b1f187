"""Labels that tell arms apart, and charts that show what there is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ecocompute_cube.model.base import present
from ecocompute_cube.model.report import ArmReport, Report
from ecocompute_cube.report.charts.crossover import crossover_chart, labels
from ecocompute_cube.report.charts.energy import energy_chart
from ecocompute_cube.report.charts.many import MOST_ARMS
from ecocompute_cube.report.charts.quality import quality_chart
from ecocompute_cube.report.charts.sweeps import sweep_charts
from ecocompute_cube.report.charts.why import why_chart
from ecocompute_cube.report.measured import MEASURED, measured_rows
from ecocompute_cube.report.merged import merged
from ecocompute_cube.report.shown import Shown, shown_arms
from ecocompute_cube.report.write import read_results

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reports() -> tuple[Report, ...]:
    return read_results(ROOT / "data/h200/runs").reports


@pytest.fixture(scope="module")
def shown(reports: tuple[Report, ...]) -> tuple[Shown, ...]:
    return shown_arms(reports)


def run(reports: tuple[Report, ...], plan: str) -> Report:
    return next(report for report in reports if report.plan.name == plan)


def with_arms(report: Report, *arms: ArmReport) -> Report:
    return report.model_copy(update={"arms": arms})


def test_no_two_arms_of_a_page_share_a_name(shown: tuple[Shown, ...]) -> None:
    assert set(Counter(each.name for each in shown).values()) == {1}


def test_two_runs_of_one_plan_are_told_apart_by_their_ids(reports: tuple[Report, ...]) -> None:
    twin = reports[0].model_copy(update={"run_id": "twin"})
    names = [each.name for each in shown_arms([reports[0], twin])]
    assert len(set(names)) == len(names)
    assert any("twin" in name for name in names)


def test_arms_of_one_group_stand_together(shown: tuple[Shown, ...]) -> None:
    groups = [each.group for each in shown]
    assert len(list(dict.fromkeys(groups))) == sum(
        a != b for a, b in zip(groups, [None, *groups], strict=False)
    )


def test_one_session_is_hollow_and_two_are_filled(reports: tuple[Report, ...]) -> None:
    arm = run(reports, "verdict").arms[0]
    twice = arm.model_copy(update={"sessions": 2})
    chart = energy_chart(shown_arms([with_arms(run(reports, "verdict"), arm, twice)]))
    assert chart is not None
    assert [bar["replicated"] for bar in chart.spec["data"]["values"]] == [False, True]  # type: ignore[index]  # a dict


def test_a_millijoule_a_token_is_a_kilojoule_a_million(shown: tuple[Shown, ...]) -> None:
    chart = energy_chart(shown)
    assert chart is not None
    told = [each.arm.energy.mj_per_token for each in shown if present(each.arm.energy)]
    assert [row[2] for row in chart.rows] == pytest.approx(told, rel=1e-3)
    assert [row[5] for row in chart.rows] == pytest.approx([kj / 3600 for kj in told], rel=1e-3)


def test_many_arms_are_shown_by_model(reports: tuple[Report, ...]) -> None:
    many = with_arms(run(reports, "verdict"), *[run(reports, "verdict").arms[0]] * (MOST_ARMS + 1))
    chart = energy_chart(shown_arms([many]))
    assert chart is not None
    assert chart.spec["mark"]["type"] == "tick"  # type: ignore[index]  # a dict
    assert len(chart.rows) == MOST_ARMS + 1


def test_the_front_holds_what_nothing_beats(reports: tuple[Report, ...]) -> None:
    report = next(r for r in reports if r.run_id.endswith("embedded-protocol"))
    chart = quality_chart(shown_arms([report]))
    assert chart is not None
    points = [(row[0], row[2], row[3], row[-1]) for row in chart.rows]
    for model, kj, delta, front in points:
        beaten = any(
            other[0] == model and other[1] <= kj and other[2] <= delta and other[1:3] != (kj, delta)  # type: ignore[operator]  # numbers
            for other in points
        )
        assert front == ("no" if beaten else "yes")


def test_a_sweep_needs_two_sizes_of_one_arm(reports: tuple[Report, ...]) -> None:
    arm = run(reports, "verdict").arms[0]
    larger = arm.model_copy(update={"workload": arm.workload.model_copy(update={"batch": 8})})
    assert sweep_charts(shown_arms([with_arms(run(reports, "verdict"), arm)])) == ()
    (chart,) = sweep_charts(shown_arms([with_arms(run(reports, "verdict"), arm, larger)]))
    assert chart.name == "batch"
    assert [row[1] for row in chart.rows] == [1, 8]


def test_nothing_explained_is_no_chart(reports: tuple[Report, ...]) -> None:
    assert why_chart(shown_arms([run(reports, "verdict")])) is None
    assert why_chart(shown_arms([run(reports, "arms-0.5b")])) is not None


def test_one_block_has_no_interval_in_chart_table_and_figure(reports: tuple[Report, ...]) -> None:
    chart = energy_chart(shown_arms([run(reports, "qwen2-0.5b-protocol")]))
    assert chart is not None
    assert {row[3:5] for row in chart.rows} == {(None, None)}
    bars = chart.spec["data"]["values"]  # type: ignore[index]  # a dict
    assert {(bar["low"], bar["high"]) for bar in bars} == {(None, None)}


def test_small_energies_keep_three_digits(reports: tuple[Report, ...]) -> None:
    arm = run(reports, "verdict").arms[0]
    assert present(arm.energy) and present(arm.energy.interval_mj)
    interval = arm.energy.interval_mj.model_copy(update={"low": 0.512, "high": 0.534})
    energy = arm.energy.model_copy(update={"mj_per_token": 0.523, "interval_mj": interval})
    small = shown_arms(
        [with_arms(run(reports, "verdict"), arm.model_copy(update={"energy": energy}))]
    )
    chart = energy_chart(small)
    assert chart is not None
    assert chart.spec["data"]["values"][0]["label"] == "0.523"  # type: ignore[index]  # a dict
    (row,) = measured_rows(small)
    assert [cell.text for cell in row[2:5]] == ["0.523", "0.512 to 0.534", "0.000145"]


def test_perplexity_of_weights_quantized_before_is_marked(shown: tuple[Shown, ...]) -> None:
    place = MEASURED.index("perplexity")
    for each, row in zip(shown, measured_rows(shown), strict=True):
        found = each.arm.perplexity
        changed = present(found) and present(found.delta_pct)
        assert ("*" in row[place].text) == (changed and each.arm.weights != "original")
    chart = quality_chart(shown)
    assert chart is not None
    assert "not what a precision costs" in chart.says


def test_the_front_is_of_one_run(reports: tuple[Report, ...]) -> None:
    """Arms of another run were measured on another stack or on another day."""
    report = next(r for r in reports if r.run_id.endswith("embedded-protocol"))
    less = [
        arm.model_copy(
            update={
                "energy": arm.energy.model_copy(
                    update={"mj_per_token": 0.9 * arm.energy.mj_per_token}
                )
            }
        )
        for arm in report.arms
        if present(arm.energy)
    ]
    other = with_arms(report.model_copy(update={"run_id": "other"}), *less)
    alone, both = (quality_chart(shown_arms(each)) for each in ([report], [report, other]))
    assert alone is not None and both is not None
    assert [row[-1] for row in both.rows].count("yes") == 2 * [r[-1] for r in alone.rows].count(
        "yes"
    )


def test_a_chart_that_leaves_arms_out_says_so_and_its_table_does_not(
    reports: tuple[Report, ...],
) -> None:
    report = next(r for r in reports if r.run_id.endswith("embedded-protocol"))
    many = with_arms(report, *report.arms * MOST_ARMS)
    chart = quality_chart(shown_arms([many]))
    assert chart is not None
    assert len(chart.rows) == len(many.arms)
    assert f"Of {len(many.arms)} arms it draws the mean" in chart.says
    drawn = chart.spec["data"]["values"]  # type: ignore[index]  # a dict
    once = quality_chart(shown_arms([report]))
    assert once is not None
    alone = once.spec["data"]["values"]  # type: ignore[index]  # a dict
    assert [(p["kj"], p["delta"]) for p in drawn] == [
        (pytest.approx(p["kj"]), pytest.approx(p["delta"])) for p in alone
    ]


def test_of_many_explained_arms_the_mean_of_each_model_and_runtime_is_stacked(
    reports: tuple[Report, ...],
) -> None:
    report = run(reports, "arms-0.5b")
    chart = why_chart(shown_arms([with_arms(report, *report.arms * MOST_ARMS)]))
    assert chart is not None
    assert len(chart.rows) == len(report.arms) * MOST_ARMS
    drawn = chart.spec["data"]["values"]  # type: ignore[index]  # a dict
    stacked = {(value["arm"], value["part"]): value["mj"] for value in drawn}
    waiting = [
        arm.why.idle_waiting_mj
        for arm in report.arms
        if present(arm.why) and arm.runtime == "eager"
    ]
    name = f"eager, {len(waiting) * MOST_ARMS} arms"
    told = stacked[name, "idle, waiting for the host"]
    assert told == pytest.approx(sum(waiting) / len(waiting), rel=1e-4)


def test_a_sweep_joins_no_two_runs(reports: tuple[Report, ...]) -> None:
    arm = run(reports, "verdict").arms[0]
    larger = arm.model_copy(update={"workload": arm.workload.model_copy(update={"batch": 8})})
    one = with_arms(run(reports, "verdict"), arm)
    other = with_arms(run(reports, "verdict").model_copy(update={"run_id": "other"}), larger)
    assert sweep_charts(shown_arms([one, other])) == ()
    twice = [
        with_arms(run(reports, "verdict").model_copy(update={"run_id": name}), arm, larger)
        for name in "ab"
    ]
    (chart,) = sweep_charts(shown_arms(twice))
    assert len({row[0] for row in chart.rows}) == 2
    assert len(chart.rows) == 4


def test_curves_of_two_stacks_have_names_of_their_own(reports: tuple[Report, ...]) -> None:
    curves = merged(reports).crossovers
    names = labels(curves)
    assert len(set(names)) == len(names) > 1
    assert any("window precise" in name for name in names)
    assert labels(curves[:1]) == (f"{curves[0].precision} {curves[0].runtime}, NVIDIA H200",)


def test_measured_sizes_are_joined(reports: tuple[Report, ...]) -> None:
    chart = crossover_chart(merged(reports).crossovers)
    assert chart is not None
    joined = [
        layer["mark"]["type"]
        for layer in chart.spec["layer"]  # type: ignore[attr-defined]  # a list
        if layer["data"] == {"name": "points"}
    ]
    assert joined == ["line", "rule", "point"]


def test_a_point_shows_its_own_interval_and_a_wide_one_does_not_stretch_the_picture(
    reports: tuple[Report, ...],
) -> None:
    curves = merged(reports).crossovers
    curve = next(c for c in curves if any(present(p.interval_pct) for p in c.crossover.points))
    point = next(p for p in curve.crossover.points if present(p.interval_pct))
    assert present(point.interval_pct)
    wide = point.interval_pct.model_copy(update={"low": -99.0, "high": 9999.0})
    only = curve.crossover.model_copy(
        update={"points": (point.model_copy(update={"interval_pct": wide}),)}
    )
    chart = crossover_chart([curve.model_copy(update={"crossover": only})])
    assert chart is not None
    assert chart.rows[0][4:6] == (-99.0, 9999.0)
    (drawn,) = chart.spec["datasets"]["points"]  # type: ignore[index]  # a dict
    assert drawn["low"] == pytest.approx(point.change_pct - 10, abs=0.01)
    assert drawn["high"] == pytest.approx(point.change_pct + 10, abs=0.01)


def test_of_many_sweeps_the_first_are_drawn(reports: tuple[Report, ...]) -> None:
    arm = run(reports, "verdict").arms[0]
    larger = arm.model_copy(update={"workload": arm.workload.model_copy(update={"batch": 8})})
    many = [
        with_arms(run(reports, "verdict").model_copy(update={"run_id": f"run-{n}"}), arm, larger)
        for n in range(20)
    ]
    (chart,) = sweep_charts(shown_arms(many))
    assert "the first 12 of 20" in chart.says
    assert len(chart.rows) == 40
    assert len(chart.spec["data"]["values"]) == 24  # type: ignore[index]  # a dict
