"""A board that FP16 does not fit: the widest arm that does carries the ratios, and says so."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ecocompute_cube.analysis.protocol import Profile, grade
from ecocompute_cube.device.scripted import Behaviour
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.energy import ResultsMeasured
from ecocompute_cube.model.plan import Precision
from ecocompute_cube.model.report import Report
from ecocompute_cube.report.csv import as_csv
from ecocompute_cube.report.energy_json import energy_reports
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.text import as_text
from ecocompute_cube.report.write import write_energy

from .rig import COSTS, IDLE_W, FaultyBackend, Scene, plan, true_mj

if TYPE_CHECKING:
    from ecocompute_cube.backends.base import Session
    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm

NO_ROOM = {"FP16": ArmFailed("out_of_memory", "Memory ran out while trying to load.", "Free it.")}
ARMS = ["FP16", "NF4", "INT8"]


def measured(folder: Path, failures: dict[str, ArmFailed] = NO_ROOM, **changes: object) -> Report:
    scene = Scene(folder, Behaviour(idle_w=IDLE_W), failures=failures)
    asked = plan(arms=ARMS, protocol={"blocks": 2}, **changes)
    return write_energy(scene.measure(asked))


def baselines(report: Report) -> list[str]:
    return [arm.precision for arm in report.arms if arm.is_baseline]


def test_the_widest_arm_that_fits_carries_the_ratio(tmp_path: Path) -> None:
    report = measured(tmp_path)
    assert baselines(report) == ["INT8"]
    fp16, nf4, int8 = report.arms
    assert present(nf4.vs_baseline) and nf4.vs_baseline.against == int8.arm
    assert present(nf4.vs_baseline.change_pct)
    truth = 100 * (true_mj("NF4") / true_mj("INT8") - 1)
    assert nf4.vs_baseline.change_pct == pytest.approx(truth, abs=0.5)
    assert isinstance(fp16.vs_baseline, Absent)
    assert fp16.vs_baseline.reason.startswith("baseline_does_not_fit")
    assert int8.vs_baseline == Absent(reason="this arm is the baseline")


def test_every_page_says_what_is_compared_with_what(tmp_path: Path) -> None:
    report = measured(tmp_path)
    assert report.answer.startswith("FP16 does not fit this board; against INT8: NF4 eager")
    assert "versus INT8" in as_text(report)
    about = {f.subject for f in report.findings if f.code == "baseline_does_not_fit"}
    assert about == {arm.arm for arm in report.arms if arm.precision != "FP16"}
    assert all("baseline_does_not_fit" in arm.lowered_by for arm in report.arms[1:])


def test_no_document_calls_it_a_change_against_fp16(tmp_path: Path) -> None:
    report = measured(tmp_path)
    (run,) = (tmp_path / "results").glob("*/")
    documents = energy_reports(read_run(run), report)
    nf4 = documents[report.arms[1].arm].results
    assert isinstance(nf4, ResultsMeasured)
    assert nf4.vs_fp16 == Absent(reason="baseline_does_not_fit")
    assert nf4.vs_fp16_energy_pct is None and nf4.fp16_energy_per_token_mj is None
    assert present(nf4.vs_baseline) and present(nf4.vs_baseline.change_pct)
    assert "INT8" in nf4.note
    for arm in report.arms[1:]:
        file = run / "arms" / arm.arm / "energy.json"
        found = grade(json.loads(file.read_text()), Profile.DATASET)
        assert "4.2.1" in {violation.clause for violation in found.violations}


def test_the_table_for_programs_has_no_change_against_fp16_either(tmp_path: Path) -> None:
    rows = list(csv.DictReader(as_csv([measured(tmp_path)]).splitlines()))
    nf4 = rows[1]
    assert (nf4["precision"], nf4["baseline"], nf4["vs_fp16_energy_pct"]) == ("NF4", "INT8", "")
    assert float(nf4["vs_baseline_pct"]) < 0
    fits = list(csv.DictReader(as_csv([measured(tmp_path / "fits", {})]).splitlines()))
    assert fits[1]["vs_fp16_energy_pct"] == fits[1]["vs_baseline_pct"] != ""


class LittleRoom(FaultyBackend):
    """FP16 has room for one row and no more."""

    def load(self, arm: Arm, manifest: Manifest, folder: Path) -> Session:
        if arm.precision is Precision.FP16 and arm.workload.batch > 1:
            raise NO_ROOM["FP16"]
        return super().load(arm, manifest, folder)


def test_what_fits_is_compared_with_fp16_though_something_else_does_not_fit(
    tmp_path: Path,
) -> None:
    workloads = [{"output_tokens": 16, "batch": batch} for batch in (1, 8)]
    asked = plan(arms=ARMS, workloads=workloads, protocol={"mode": "precise", "blocks": 2})
    report = write_energy(Scene(tmp_path, backend=LittleRoom).measure(asked))
    against, standing = report.answer.split(" FP16 does not fit this board; against INT8: ")
    assert against.startswith("Against FP16: NF4 eager, b1-p10-o16")
    assert "INT8 eager, b1-p10-o16 costs energy" in against
    assert "b8" in standing and "b1" not in standing


def test_a_plan_may_name_what_stands_in(tmp_path: Path) -> None:
    report = measured(tmp_path, baseline="NF4")
    assert baselines(report) == ["NF4"]
    int8 = report.arms[2]
    assert present(int8.vs_baseline) and int8.vs_baseline.against == report.arms[1].arm


def test_where_fp16_fits_or_fails_for_another_reason_nothing_stands_in(tmp_path: Path) -> None:
    fits = measured(tmp_path / "fits", {}, baseline="NF4")
    assert baselines(fits) == ["FP16"]
    broken = {"FP16": ArmFailed("library_error", "A library failed.", "Look.")}
    other = measured(tmp_path / "broken", broken)
    assert baselines(other) == ["FP16"]
    assert "baseline_does_not_fit" not in {f.code for f in other.findings}


def test_the_adaptive_rule_waits_for_the_interval_of_what_stands_in(tmp_path: Path) -> None:
    scene = Scene(tmp_path, Behaviour(idle_w=IDLE_W), failures=NO_ROOM)
    quick = {"min_passes": 1, "max_passes": 1, "output_tokens": 2}
    protocol = {"mode": "precise", "iterations": 1, "warmup": quick, "stop": {"rule": "adaptive"}}
    report = write_energy(scene.measure(plan(arms=ARMS, protocol=protocol)))
    (stopping,) = report.stopping
    assert stopping.ended and stopping.reason.startswith("narrow enough")


@pytest.mark.parametrize(
    "arms", [["NF4"], ["FP16", "NF4/loop"], ["NF4", "INT8", "NF4/loop"], ["AS-SHIPPED"]]
)
def test_a_plan_without_fp16_of_a_runtime_has_its_report(tmp_path: Path, arms: list[str]) -> None:
    asked = plan(arms=arms, protocol={"mode": "precise", "blocks": 2})
    costs = {**COSTS, "AS-SHIPPED": COSTS["NF4"]}
    run = Scene(tmp_path, costs=costs).measure(asked)
    report = write_energy(run)
    assert all(present(arm.energy) for arm in report.arms)
    assert as_text(report) and as_csv([report])
    assert len([*run.rglob("energy.json")]) == len(arms)
