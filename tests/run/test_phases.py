"""Prefill and decode in windows of their own, never one as the rest of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecocompute_cube.backends.fake import PREFILL_SHARE
from ecocompute_cube.model.base import present
from ecocompute_cube.model.energy import ResultsMeasured
from ecocompute_cube.model.plan import Phase, Plan, Workload
from ecocompute_cube.report.energy_json import energy_reports
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.text import rows
from ecocompute_cube.report.write import write_energy

from .rig import COSTS, Scene, plan, true_mj

ASKED = plan(
    arms=["FP16", "NF4"],
    workloads=[
        {"prompt_tokens": 200, "output_tokens": 50},
        {"prompt_tokens": 200, "phase": "prefill"},
        {"prompt_tokens": 200, "output_tokens": 50, "phase": "decode"},
    ],
    protocol={"mode": "precise", "window_s": 20, "blocks": 2},
)


def test_wn_phase_each_phase_has_windows_of_full_length_and_its_own_energy(tmp_path: Path) -> None:
    """WN-PHASE, WN-SUBTRACT: measured, never whole-reply power or a difference."""
    report = write_energy(Scene(tmp_path).measure(ASKED))
    fp16 = {arm.workload.phase: arm for arm in report.arms if arm.precision == "FP16"}
    for arm in fp16.values():
        assert present(arm.energy) and "short_window" not in arm.lowered_by
    prefill, decode = fp16[Phase.PREFILL], fp16[Phase.DECODE]
    assert present(prefill.energy) and present(decode.energy)
    truth = true_mj("FP16")
    assert prefill.energy.mj_per_token == pytest.approx(PREFILL_SHARE * truth, rel=0.01)
    assert decode.energy.mj_per_token == pytest.approx(truth, rel=0.01)


def test_the_time_to_the_first_token_is_that_of_a_prefill(tmp_path: Path) -> None:
    run = Scene(tmp_path).measure(ASKED)
    report = write_energy(run)
    documents = energy_reports(read_run(run), report)
    for arm in report.arms:
        found = documents[arm.arm].results
        assert isinstance(found, ResultsMeasured)
        assert (arm.workload.phase is Phase.PREFILL) == present(arm.time_to_first_token_s)
        assert found.per == (
            "prompt token" if arm.workload.phase is Phase.PREFILL else "output token"
        )
        if present(arm.time_to_first_token_s):
            token_s, _ = COSTS[arm.precision]
            assert arm.time_to_first_token_s == pytest.approx(200 * PREFILL_SHARE * token_s)


def test_a_token_of_less_than_a_millijoule_is_not_printed_as_none(tmp_path: Path) -> None:
    cheap = Scene(tmp_path, costs={"FP16": (0.00004, 100.0)})
    asked = ASKED.model_copy(update={"arms": ("FP16",), "workloads": ASKED.workloads[1:2]})
    report = write_energy(cheap.measure(asked))
    (row,) = rows(report)
    assert row.energy.startswith("0.4")
    assert row.interval.startswith(("0.39", "0.4"))


def test_phases_are_compared_with_their_own_baseline(tmp_path: Path) -> None:
    report = write_energy(Scene(tmp_path).measure(ASKED))
    for arm in report.arms:
        if arm.precision == "NF4":
            assert present(arm.vs_baseline)
            assert arm.vs_baseline.against == arm.arm.replace("NF4", "FP16")


def test_a_plan_without_phases_is_written_as_it_was() -> None:
    assert "phase" not in Plan(name="a").model_dump_json()
    assert Workload(phase=Phase.DECODE).slug == "b1-p10-o256-decode"
    assert Workload(phase=Phase.PREFILL, prompt_tokens=99).slug == "b1-p99-prefill"
    assert Workload(phase=Phase.PREFILL, prompt_tokens=99).context_tokens == 100


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_published_protocol_has_whole_generations_only(phase: str) -> None:
    with pytest.raises(ValueError, match="prompt and output together"):
        plan(workloads=[{"phase": phase}])
