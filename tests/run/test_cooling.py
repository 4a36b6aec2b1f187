"""A plan may have the board cool before each visit; whether it did stands in the journal."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from ecocompute_cube.device.scripted import Behaviour, ScriptedBoard
from ecocompute_cube.model.around import Cooled
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.model.readings import Telemetry
from ecocompute_cube.report.write import write_energy
from ecocompute_cube.units import seconds

from .rig import IDLE_W, Scene, plan


class Warming(ScriptedBoard):
    """Thirty degrees hotter after work, and a degree cooler each second that it rests."""

    def telemetry(self, own_processes: frozenset[int]) -> Telemetry:
        seen = super().telemetry(own_processes)
        rested = seconds(seen.at_ns - self._edges[-1]) if self._edges else 30.0
        return seen.model_copy(update={"temperature_c": 40.0 + max(0.0, 30.0 - rested)})


def asked(**cooldown: float) -> Plan:
    quick = {"min_passes": 1, "max_passes": 1, "output_tokens": 2}
    protocol = {"mode": "precise", "iterations": 1, "warmup": quick, "blocks": 2}
    workloads = [{"output_tokens": 100}]
    return plan(
        arms=["FP16", "NF4"], workloads=workloads, protocol={**protocol, "cooldown": cooldown}
    )


def warming(folder: Path) -> Scene:
    scene = Scene(folder)
    scene.board = Warming(scene.clock, Behaviour(idle_w=IDLE_W))
    return scene


def pauses(run: Path) -> list[Cooled]:
    return [f for f in read_journal(run / JOURNAL_NAME).records if isinstance(f, Cooled)]


@pytest.mark.parametrize("cooldown", [{"until_c": 45.0}, {"within_c": 5.0}])
def test_each_visit_waits_until_the_board_is_cool(
    tmp_path: Path, cooldown: dict[str, float]
) -> None:
    """ST-THERMAL: heat of the arm before is gone by a criterion; the order is drawn besides."""
    run = warming(tmp_path).measure(asked(**cooldown))
    found = pauses(run)
    assert [pause.target_c for pause in found] == [45.0] * 4
    assert all(pause.reached for pause in found)
    assert found[0].waited_s == 0
    assert all(20 < pause.waited_s < 27 for pause in found[1:])
    assert "not_cooled" not in {finding.code for finding in write_energy(run).findings}


def test_a_ceiling_ends_the_pause_and_is_told(tmp_path: Path) -> None:
    run = warming(tmp_path).measure(asked(until_c=45.0, max_s=10.0))
    assert [pause.reached for pause in pauses(run)] == [True, False, False, False]
    report = write_energy(run)
    assert all("not_cooled" in arm.lowered_by for arm in report.arms)


def test_going_on_later_cools_to_the_temperature_of_the_sessions_beginning(tmp_path: Path) -> None:
    scene = warming(tmp_path)
    begun = scene.measure(asked(within_c=5.0), max_minutes=1.3)
    assert 0 < len(pauses(begun)) < 4
    scene.board.work(60.0, 200.0)
    assert scene.measure(asked(within_c=5.0)) == begun
    assert {pause.first_c for pause in pauses(begun)} == {40.0}
    assert all(pause.reached for pause in pauses(begun))


def test_without_the_rule_nobody_waits_and_old_plans_keep_their_hash(tmp_path: Path) -> None:
    assert "cooldown" not in plan().model_dump(mode="json")["protocol"]
    assert pauses(warming(tmp_path).measure(plan(arms=["FP16"], protocol={"blocks": 1}))) == []


@pytest.mark.parametrize("cooldown", [{}, {"until_c": 40.0, "within_c": 5.0}])
def test_a_cooldown_has_one_criterion(cooldown: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match="one of until_c and within_c"):
        asked(**cooldown)
