"""results.csv: one line an arm, numbers or empty cells, reasons in a column of their own."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.base import Absent, present, printable
from ecocompute_cube.model.plan import BASELINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.report import ArmReport, Report

COLUMNS: Final = (
    "run_id",
    "gpu",
    "driver",
    "model",
    "weights",
    "params_b",
    "precision",
    "runtime",
    "replica",
    "batch_size",
    "context_length",
    "prompt_tokens",
    "output_tokens",
    "phase",
    "n_blocks",
    "n_sessions",
    "basis",
    "tier",
    "energy_source",
    "energy_per_token_mj",
    "energy_per_token_low_mj",
    "energy_per_token_high_mj",
    "bound_low_mj",
    "bound_high_mj",
    "mean_power_w",
    "idle_power_w",
    "net_energy_per_token_mj",
    "tokens_per_s",
    "time_to_first_token_s",
    "vs_fp16_energy_pct",
    "vs_fp16_energy_low_pct",
    "vs_fp16_energy_high_pct",
    "baseline",
    "vs_baseline_pct",
    "vs_baseline_low_pct",
    "vs_baseline_high_pct",
    "n",
    "n_unit",
    "verdict",
    "perplexity",
    "perplexity_delta_pct",
    "perplexity_delta_low_pct",
    "perplexity_delta_high_pct",
    "lowered_by",
    "absent_because",
)


def as_csv(reports: Sequence[Report]) -> str:
    """Every arm of every run, with a header line; lines end in LF."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for report in reports:
        for arm in report.arms:
            row = {**_identity(report, arm), **_numbers(arm), **_claims(arm, report)}
            writer.writerow({name: _plain(cell) for name, cell in row.items()})
    return out.getvalue()


def _identity(report: Report, arm: ArmReport) -> dict[str, object]:
    boards = [session.board for session in report.sessions if present(session.board)]
    split = f"{report.plan.boards} x " if report.plan.boards > 1 and boards else ""
    return {
        "run_id": report.run_id,
        "gpu": split + (" + ".join(sorted({board.name for board in boards})) or "none"),
        "driver": " + ".join(sorted({board.driver for board in boards})),
        "model": arm.model,
        "weights": arm.weights,
        "params_b": arm.params_b,
        "precision": arm.precision,
        "runtime": arm.runtime,
        "replica": arm.replica,
        "batch_size": arm.workload.batch,
        "context_length": arm.workload.context_tokens,
        "prompt_tokens": arm.workload.prompt_tokens,
        "output_tokens": arm.workload.generated_tokens,
        "phase": arm.workload.phase,
        "n_blocks": arm.blocks,
        "n_sessions": arm.sessions,
    }


def _plain(cell: object) -> object:
    """A cell that no spreadsheet takes for a formula and no terminal obeys."""
    if not isinstance(cell, str):
        return cell
    text = printable(cell)
    return "'" + text if text.startswith(("=", "+", "-", "@")) else text


def _numbers(arm: ArmReport) -> dict[str, object]:
    energy = arm.energy
    first_s = arm.time_to_first_token_s
    rate = {
        "tokens_per_s": arm.tokens_per_s if present(arm.tokens_per_s) else "",
        "time_to_first_token_s": first_s if present(first_s) else "",
    }
    if not present(energy):
        return {**rate, "basis": "unavailable", "absent_because": energy.reason}
    interval = energy.interval_mj
    idle, net = energy.idle, energy.net_mj_per_token
    return {
        **rate,
        "basis": "measured",
        "tier": "lowered" if arm.lowered_by else "full",
        "energy_source": energy.source,
        "energy_per_token_mj": energy.mj_per_token,
        "energy_per_token_low_mj": interval.low if present(interval) else "",
        "energy_per_token_high_mj": interval.high if present(interval) else "",
        "bound_low_mj": energy.bound_mj[0],
        "bound_high_mj": energy.bound_mj[1],
        "mean_power_w": energy.mean_power_w,
        "idle_power_w": (idle.before_w + idle.after_w) / 2 if present(idle) else "",
        "net_energy_per_token_mj": net if present(net) else "",
    }


def _claims(arm: ArmReport, report: Report) -> dict[str, object]:
    claims: dict[str, object] = {"lowered_by": " ".join(arm.lowered_by)}
    if present(arm.perplexity):
        delta, around = arm.perplexity.delta_pct, arm.perplexity.delta_interval_pct
        claims |= {
            "perplexity": arm.perplexity.value,
            "perplexity_delta_pct": delta if present(delta) else "",
            "perplexity_delta_low_pct": around.low if present(around) else "",
            "perplexity_delta_high_pct": around.high if present(around) else "",
        }
    versus = arm.vs_baseline
    if isinstance(versus, Absent):
        return claims
    interval = versus.interval_pct
    change = {
        "pct": versus.change_pct if present(versus.change_pct) else "",
        "low_pct": interval.low if present(interval) else "",
        "high_pct": interval.high if present(interval) else "",
    }
    baseline = next(each.precision for each in report.arms if each.arm == versus.against)
    if baseline is BASELINE:
        claims |= {f"vs_fp16_energy_{name}": value for name, value in change.items()}
    claims |= {f"vs_baseline_{name}": value for name, value in change.items()}
    return claims | {
        "baseline": baseline,
        "n": versus.n,
        "n_unit": versus.unit,
        "verdict": versus.verdict,
    }
