"""What other tools got wrong about windows, tokens and losses, on a scripted board; by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ecocompute_cube.model.base import present
from ecocompute_cube.model.claims import Verdict
from ecocompute_cube.model.energy import ResultsMeasured
from ecocompute_cube.model.journal import ArmReady, BlockOpened, TraceStored, WindowMeasured
from ecocompute_cube.report.energy_json import energy_reports
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.write import write_energy

from .rig import FaultyBackend, Scene, plan, true_mj

if TYPE_CHECKING:
    from ecocompute_cube.backends.base import Session
    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm


class HungryLoad(FaultyBackend):
    """Loading takes a minute at full power."""

    def load(self, arm: Arm, manifest: Manifest, folder: Path) -> Session:
        self.scene.board.work(60.0, 600.0)
        return super().load(arm, manifest, folder)


def test_wn_startup_loading_and_warming_up_are_outside_every_window(tmp_path: Path) -> None:
    """WN-STARTUP: and the trace's marks show it to whoever recomputes."""
    run = Scene(tmp_path, backend=HungryLoad).measure(plan(protocol={"blocks": 1}))
    report = write_energy(run)
    for arm in report.arms:
        assert present(arm.energy)
        assert arm.energy.mj_per_token == pytest.approx(true_mj(arm.precision), rel=1e-3)
    facts = read_run(run).journal.records
    windows = {f.arm: f for f in facts if isinstance(f, WindowMeasured)}
    for ready in (f for f in facts if isinstance(f, ArmReady)):
        assert ready.load.end_ns < windows[ready.arm].work.start_ns
    for trace in (f for f in facts if isinstance(f, TraceStored)):
        marks = [trace.phases[name] for name in ("load_start", "model_ready", "warmup_end")]
        marks += [trace.phases["measure_start"], trace.phases["measure_end"]]
        assert marks == sorted(marks)


def test_wn_misalign_energy_time_and_power_are_of_the_same_span(tmp_path: Path) -> None:
    """WN-MISALIGN: P = E/t, and it lies between idle and the limit."""
    run = Scene(tmp_path).measure(plan(protocol={"blocks": 1}))
    report = write_energy(run)
    for document in energy_reports(read_run(run), report).values():
        found = document.results
        assert isinstance(found, ResultsMeasured)
        power = found.total_energy_joules / found.work_seconds
        assert found.avg_power_watts == pytest.approx(power)
        assert found.throughput_tokens_per_s == pytest.approx(
            found.tokens_generated / found.work_seconds
        )
        assert 80 < power < 700


def test_tk_batch_energy_is_divided_by_the_tokens_of_all_rows(tmp_path: Path) -> None:
    """TK-BATCH."""
    workloads = [{"output_tokens": 32, "batch": batch} for batch in (1, 4)]
    asked = plan(arms=["FP16"], workloads=workloads, protocol={"mode": "precise", "blocks": 1})
    report = write_energy(Scene(tmp_path).measure(asked))
    one, four = (arm.energy for arm in report.arms)
    assert present(one) and present(four)
    assert four.mj_per_token == pytest.approx(one.mj_per_token / 4, rel=0.01)


def test_pr_int8slow_a_loss_is_a_result_and_its_threshold_is_recorded(tmp_path: Path) -> None:
    """PR-INT8SLOW: no error, and published with its interval."""
    run = Scene(tmp_path).measure(plan(arms=["FP16", "INT8"]))
    report = write_energy(run)
    versus = report.arms[1].vs_baseline
    assert present(versus) and versus.verdict is Verdict.HIGHER
    assert "costs energy" in report.answer
    (ready,) = read_run(run).known.ready[report.arms[1].arm]
    assert ready.certificate.settings["outlier_threshold"] == "6.0"


def test_st_order_every_block_has_an_order_of_its_own_drawn_from_the_seed(tmp_path: Path) -> None:
    """ST-ORDER: not always the quantized arm first."""
    orders = [
        [f.order for f in read_run(run).journal.records if isinstance(f, BlockOpened)]
        for run in (
            Scene(tmp_path / str(n)).measure(plan(protocol={"blocks": 8})) for n in range(2)
        )
    ]
    assert orders[0] == orders[1], "the seed decides"
    assert len(set(orders[0])) > 2
    assert len({order[0] for order in orders[0]}) == 3
