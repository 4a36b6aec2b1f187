"""Idle power with a live context, before and after every window, and the energy above it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecocompute_cube.device.scripted import Behaviour
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.energy import EnergyReport, ResultsMeasured
from ecocompute_cube.model.journal import Warmed, WindowMeasured
from ecocompute_cube.model.report import Report
from ecocompute_cube.report.energy_json import energy_reports
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.write import write_energy

from .rig import COSTS, IDLE_W, Scene, plan, true_mj

QUICK = {"min_passes": 1, "max_passes": 1, "output_tokens": 2}
ASKED = plan(
    arms=["FP16"],
    workloads=[{"output_tokens": 100}],
    protocol={"mode": "precise", "iterations": 2, "blocks": 2, "warmup": QUICK},
)


def scene(folder: Path, **behaviour: object) -> Scene:
    return Scene(folder, Behaviour(**{"idle_w": IDLE_W, **behaviour}))  # type: ignore[arg-type]


def measured(scene: Scene) -> tuple[Report, EnergyReport]:
    run = scene.measure(ASKED)
    report = write_energy(run)
    (document,) = energy_reports(read_run(run), report).values()
    return report, document


def results(document: EnergyReport) -> ResultsMeasured:
    assert isinstance(document.results, ResultsMeasured)
    return document.results


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def test_idle_is_read_before_the_warm_up_and_after_the_window(tmp_path: Path) -> None:
    scene(tmp_path).measure(ASKED)
    (folder,) = (tmp_path / "results").glob("*/")
    facts = read_run(folder).journal.records
    warmed = [fact for fact in facts if isinstance(fact, Warmed)]
    windows = [fact for fact in facts if isinstance(fact, WindowMeasured)]
    for before, window in zip(warmed, windows, strict=True):
        assert present(before.idle) and present(window.idle) and present(window.counter)
        assert before.idle.span.end_ns <= window.counter.previous.before_ns
        assert window.idle.span.start_ns >= window.counter.after_next.after_ns
        for reading in (before.idle, window.idle):
            assert reading.span.end_ns - reading.span.start_ns >= 1_000_000_000


def test_net_energy_is_what_the_work_takes_above_idle(tmp_path: Path) -> None:
    _, document = measured(scene(tmp_path))
    found = results(document)
    assert present(found.idle_power)
    assert found.idle_power.before_w == pytest.approx(IDLE_W, rel=0.01)
    assert found.idle_power.after_w == pytest.approx(IDLE_W, rel=0.01)
    assert found.idle_power.windows == 2
    token_s, _ = COSTS["FP16"]
    assert present(found.net_energy_per_token_mj)
    assert found.net_energy_per_token_mj == pytest.approx(
        true_mj("FP16") - 1e3 * token_s * IDLE_W, rel=0.02
    )
    assert found.energy_per_token_mj == pytest.approx(true_mj("FP16"), rel=0.02)  # gross: headline
    assert document.environment.temperature_c.idle_before == 40.0


def test_a_board_without_a_counter_has_idle_by_its_trace(tmp_path: Path) -> None:
    _, document = measured(scene(tmp_path, counter=False))
    found = results(document)
    assert present(found.idle_power)
    assert found.idle_power.before_w == pytest.approx(IDLE_W, rel=0.01)


def test_net_energy_within_the_drift_of_idle_is_no_figure(tmp_path: Path) -> None:
    _, document = measured(scene(tmp_path, idle_w=198.0))  # the work draws 200 W
    net = results(document).net_energy_per_token_mj
    assert isinstance(net, Absent) and net.reason.startswith("below_idle_noise: ")


def test_idle_that_drifts_takes_the_net_figure_away(tmp_path: Path) -> None:
    restless = scene(tmp_path, idle_w=150.0, idle_swing=0.3, idle_swing_s=37.0)
    _, document = measured(restless)
    found = results(document)
    assert present(found.idle_power) and found.idle_power.drift_w > 20
    net = found.net_energy_per_token_mj
    assert isinstance(net, Absent) and net.reason.startswith("below_idle_noise: ")
    steady = results(measured(scene(tmp_path / "steady"))[1])
    assert present(steady.idle_power)
    assert found.idle_power.drift_w > 2 * steady.idle_power.drift_w


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ({"hidden": "cannot tell: boxed"}, "neighbours_unknown"),
        ({"busy_pct": 40.0}, "foreign"),
    ],
)
def test_st_idle_no_net_where_somebody_else_may_have_been_drawing_power(
    tmp_path: Path, behaviour: dict[str, object], reason: str
) -> None:
    """ST-IDLE: idle learned under a load gives a wrong net."""
    report, document = measured(scene(tmp_path, **behaviour))
    net = results(document).net_energy_per_token_mj
    assert isinstance(net, Absent) and net.reason.startswith(reason)
    assert ("busy_at_rest" in codes(report)) == ("busy_pct" in behaviour)


def test_memory_taken_by_nobody_who_is_listed_tells_of_somebody(tmp_path: Path) -> None:
    report, _ = measured(scene(tmp_path, hidden="cannot tell: boxed", used_mib=8000))
    (finding,) = (each for each in report.findings if each.code == "memory_taken")
    assert "8000 MiB" in finding.cause and finding.effect == "lowers the tier"
    assert "memory_taken" not in codes(measured(scene(tmp_path / "seen", used_mib=8000))[0])


def test_a_display_server_that_comes_later_is_seen_at_the_windows(tmp_path: Path) -> None:
    late = scene(tmp_path)
    late.board.capabilities = lambda: type(late.board).capabilities(scene(tmp_path / "x").board)  # type: ignore[method-assign]
    late.board.behaviour = late.board.behaviour._replace(graphics=1)
    report, _ = measured(late)
    assert "display_server" in codes(report)


def test_a_rehearsal_waits_for_no_board_to_rest(tmp_path: Path) -> None:
    there = scene(tmp_path)
    began = there.clock.now_ns()
    run = there.measure(ASKED, rehearse=True)
    facts = read_run(run).journal.records
    (warmed,) = (fact for fact in facts if isinstance(fact, Warmed))
    assert warmed.idle == Absent(reason="no board")
    token_s, _ = COSTS["FP16"]
    assert there.clock.now_ns() - began < 1e9 * token_s * 600


def test_a_plan_may_do_without(tmp_path: Path) -> None:
    protocol = ASKED.protocol.model_copy(update={"idle_s": 0.0})
    there = scene(tmp_path)
    run = there.measure(ASKED.model_copy(update={"protocol": protocol}))
    report = write_energy(run)
    (arm,) = report.arms
    assert present(arm.energy) and isinstance(arm.energy.net_mj_per_token, Absent)
    assert "the plan asks for no idle power" in arm.energy.net_mj_per_token.reason


def test_a_plan_that_says_nothing_of_it_keeps_the_hash_it_had(tmp_path: Path) -> None:
    assert "idle_s" not in ASKED.model_dump_json()
    assert ASKED.protocol.idle_s == 1.0


def test_a_rest_that_is_too_short_for_the_drivers_utilization_is_not_judged_by_it(
    tmp_path: Path,
) -> None:
    protocol = ASKED.protocol.model_copy(update={"idle_s": 0.3})
    there = scene(tmp_path, busy_pct=40.0)
    report = write_energy(there.measure(ASKED.model_copy(update={"protocol": protocol})))
    assert "busy_at_rest" not in codes(report)


@pytest.mark.parametrize("watts", [0.0, -5.0])
def test_a_sensor_that_reads_nothing_at_rest_has_no_idle_power_and_spoils_nothing(
    tmp_path: Path, watts: float
) -> None:
    report, document = measured(scene(tmp_path, counter=False, idle_w=watts))
    assert present(report.arms[0].energy)
    assert not present(results(document).idle_power)
