"""What went wrong with other people's meters, played on a scripted board: none becomes a number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ecocompute_cube.device.scripted import Behaviour, ScriptedBoard
from ecocompute_cube.errors import NoPowerReading
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.readings import PowerKind
from ecocompute_cube.model.report import Report
from ecocompute_cube.report.write import write_energy, write_report
from ecocompute_cube.units import seconds

from .rig import IDLE_W, Scene, plan

LATE_S = 60.0  #: in the middle of the first block
ONE_BLOCK = {"protocol": {"blocks": 1}}


class Underflowing(ScriptedBoard):
    """Its counter leaps, as an unsigned difference does that should have been negative."""

    def energy_mj(self) -> int | Absent:
        shown = super().energy_mj()
        late = seconds(self._clock.now_ns()) > LATE_S
        return shown + 2**40 if late and present(shown) else shown


class Disagreeing(ScriptedBoard):
    """Its counter sees 187 of 327 joules."""

    def energy_mj(self) -> int | Absent:
        shown = super().energy_mj()
        return shown * 187 // 327 if present(shown) else shown


def measured(scene: Scene, board: type[ScriptedBoard] = ScriptedBoard) -> Report:
    scene.board = board(scene.clock, scene.board.behaviour)
    return write_energy(scene.measure(plan(**ONE_BLOCK)))


def invalid(report: Report) -> set[str]:
    """Codes of windows that do not count."""
    return {finding.code for finding in report.findings if finding.effect == "invalid"}


def test_nv_reset_a_counter_that_starts_again_is_neither_clipped_nor_wrapped(
    tmp_path: Path,
) -> None:
    """NV-RESET: from 9000 J to almost nothing, within a window."""
    scene = Scene(tmp_path, Behaviour(idle_w=IDLE_W, counted_j=9000.0, reset_at_s=LATE_S))
    report = measured(scene)
    assert invalid(report) == {"counter_reset"}
    assert sum(present(arm.energy) for arm in report.arms) == 2


def test_nv_underflow_terawatts_are_no_reading(tmp_path: Path) -> None:
    """NV-UNDERFLOW."""
    report = measured(Scene(tmp_path), Underflowing)
    assert "implausible_power" in invalid(report)
    powers = [arm.energy.mean_power_w for arm in report.arms if present(arm.energy)]
    assert powers and all(power < 700 for power in powers)


def test_nv_stuck_a_counter_that_stands_still_is_no_zero(tmp_path: Path) -> None:
    """NV-STUCK: nor does the trace take its place in the middle of a session."""
    report = measured(Scene(tmp_path, Behaviour(idle_w=IDLE_W, stuck_after_s=2 * LATE_S)))
    assert invalid(report) == {"counter_stuck"}
    assert 0 < sum(present(arm.energy) for arm in report.arms) < 3


def test_nv_xcheck_two_meters_that_disagree_are_both_shown_and_neither_believed(
    tmp_path: Path,
) -> None:
    """NV-XCHECK: 187 J by the counter, 327 J by power."""
    report = measured(Scene(tmp_path), Disagreeing)
    assert invalid(report) == {"sources_disagree"}
    assert not any(present(arm.energy) for arm in report.arms)
    assert all("+74" in f.cause for f in report.findings if f.code == "sources_disagree")


def test_nv_nocounter_neither_energy_nor_power_ends_before_anything_loads(tmp_path: Path) -> None:
    """NV-NOCOUNTER: status 3, no run, never 0 kWh."""
    scene = Scene(tmp_path, Behaviour(counter=False, power=PowerKind.NONE))
    with pytest.raises(NoPowerReading, match="neither energy") as refusal:
        measured(scene)
    assert refusal.value.exit_status == 3
    assert [path.name for path in scene.output.iterdir()] == [".lock"]


def numbers(document: Any) -> Iterator[object]:  # noqa: ANN401 (any JSON value)
    inner = document.values() if isinstance(document, dict) else document
    for each in inner if isinstance(document, dict | list) else ():
        yield from numbers(each)
    yield document


def test_out_nan_what_one_block_cannot_have_has_a_reason_and_every_number_is_one(
    tmp_path: Path,
) -> None:
    """OUT-NAN, OUT-NULL: no NaN, no infinity, no interval of one, no reason beside a value."""
    scene = Scene(tmp_path / "scene")
    report = measured(scene)
    assert all(
        isinstance(arm.energy.interval_mj, Absent) for arm in report.arms if present(arm.energy)
    )
    write_report(scene.output, tmp_path / "pages", scene.lines.append)
    files = [*scene.output.rglob("*.json"), *(tmp_path / "pages").glob("*.json")]
    assert len(files) == 4

    def refuse(word: str) -> None:
        raise AssertionError(word)

    for file in files:
        document = json.loads(file.read_text(), parse_constant=refuse)
        absences = [
            each for each in numbers(document) if isinstance(each, dict) and "reason" in each
        ]
        assert all(each["reason"] for each in absences)
        assert not [each for each in absences if "value" in each]
