"""An arm against itself: a process of its own, a contrast of its own, and words of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ecocompute_cube.backends.fake import FakeBackend
from ecocompute_cube.model.base import present
from ecocompute_cube.model.journal import ArmReady
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.report.recompute import recompute
from ecocompute_cube.report.text import as_text
from ecocompute_cube.report.write import write_energy

from .rig import Scene, plan

if TYPE_CHECKING:
    from ecocompute_cube.backends.base import Session
    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm


def asked(*arms: str, blocks: int = 3) -> Plan:
    quick = {"min_passes": 1, "max_passes": 1, "output_tokens": 2}
    protocol = {"mode": "precise", "iterations": 1, "warmup": quick, "blocks": blocks}
    return plan(arms=arms, workloads=[{"output_tokens": 100}], protocol=protocol)


def test_a_replica_is_loaded_apart_and_compared_with_its_original_only(tmp_path: Path) -> None:
    run = Scene(tmp_path).measure(asked("FP16", "FP16#2", "NF4", "NF4#2"))
    loaded = [f.arm for f in read_journal(run / JOURNAL_NAME).records if isinstance(f, ArmReady)]
    assert len(set(loaded)) == len(loaded) == 4
    report = write_energy(run)
    sides = [(c.arm.split("eager")[0][-5:], c.arm[-3:], c.against[-3:]) for c in report.comparisons]
    assert sides == [("FP16_", "_r2", "ger"), ("_NF4_", "ger", "ger"), ("_NF4_", "_r2", "ger")]
    assert "_NF4_" in report.comparisons[2].against


def test_an_arm_that_is_the_same_as_itself_holds_zero(tmp_path: Path) -> None:
    report = write_energy(Scene(tmp_path).measure(asked("FP16", "FP16#2")))
    assert "differ from itself" in report.question
    told = "FP16 eager #2 against FP16 eager holds zero, is the same as itself"
    assert told in report.answer
    assert "A/A, FP16 eager #2 against FP16 eager: holds zero" in as_text(report)
    assert "differs_from_itself" not in {finding.code for finding in report.findings}


class Unequal(FakeBackend):
    """A replica that draws a fifth more, as a machine might give it that favours one process."""

    def load(self, arm: Arm, manifest: Manifest, folder: Path) -> Session:
        self._spread = lambda: 1.2 if arm.replica > 1 else 1.0
        return super().load(arm, manifest, folder)


def test_an_arm_that_differs_from_itself_lowers_the_tier_of_both(tmp_path: Path) -> None:
    report = write_energy(Scene(tmp_path, backend=Unequal).measure(asked("FP16", "FP16#2")))
    (comparison,) = report.comparisons
    assert comparison.verdict == "higher"
    assert all("differs_from_itself" in arm.lowered_by for arm in report.arms)
    assert "misses zero, differs from itself" in as_text(report)


def test_every_document_of_a_replica_is_whole(tmp_path: Path) -> None:
    run = Scene(tmp_path).measure(asked("FP16", "FP16#2", "NF4", "NF4#2"))
    write_energy(run)
    documents = {f.parent.name: f for f in run.glob("arms/*/energy.json")}
    assert len(documents) == 4
    for file in documents.values():
        assert recompute(file, json.loads(file.read_text())) == []
    results = {
        arm[-len("FP16_eager_r2") :].strip("_"): json.loads(file.read_text())["results"]
        for arm, file in documents.items()
    }
    assert abs(results["FP16_eager_r2"]["vs_fp16_energy_pct"]) < 0.1
    assert results["NF4_eager_r2"]["vs_fp16_energy_pct"] is None
    assert "replica" in results["NF4_eager_r2"]["note"]


def test_the_table_and_the_figures_tell_replicas_apart(tmp_path: Path) -> None:
    report = write_energy(Scene(tmp_path).measure(asked("FP16", "FP16#2")))
    assert [arm.replica for arm in report.arms] == [1, 2]
    assert present(report.arms[1].vs_baseline)
    assert "FP16 eager #2" in as_text(report)
