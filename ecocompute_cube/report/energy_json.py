"""One energy.json an arm, from a run's evidence."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ecocompute_cube.analysis.quality import mean_nll
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.energy import (
    Corpus,
    CrossCheck,
    EnergyReport,
    Measurement,
    Provenance,
    QualityMeasured,
    QualityUnavailable,
    ResultsMeasured,
    ResultsUnavailable,
    Software,
    SystemUnderTest,
    Workload,
)
from ecocompute_cube.model.journal import QualityScored, SessionOpened
from ecocompute_cube.model.plan import BASELINE, Arm, Phase
from ecocompute_cube.model.readings import EARLY, PowerKind
from ecocompute_cube.report.apart import board_energies
from ecocompute_cube.report.baselines import DOES_NOT_FIT, baseline_of
from ecocompute_cube.report.build import perplexity, worst_source
from ecocompute_cube.report.findings import arm_findings, run_findings
from ecocompute_cube.report.run import RunEvidence
from ecocompute_cube.report.surroundings import environment, power_trace, sample_rate, thermal
from ecocompute_cube.units import Joule, mj_per_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.analysis.gates import Judged
    from ecocompute_cube.model.claims import Finding
    from ecocompute_cube.model.report import ArmReport, Report
    from ecocompute_cube.model.stop import Stopping

_METHODS: Final = {
    PowerKind.COUNTER: "NVML on-board energy integral "
    "(nvmlDeviceGetTotalEnergyConsumption, differences of the hardware counter)",
    PowerKind.SAMPLES: "NVML power, the driver's own samples, integrated over the window",
    PowerKind.INSTANT: "NVML power, field 186 (instant), integrated over the window",
    PowerKind.AVERAGE: "NVML power, field 185 (one-second average), integrated over the window",
    PowerKind.USAGE: "NVML power (nvmlDeviceGetPowerUsage), integrated over the window",
    PowerKind.NONE: "none",
}

#: What the published container pins (EcoCompute mlcube, mlcube.yaml image lock, August 2026).
_REFERENCE_PINS: Final = {
    "transformers": "4.57.6",
    "bitsandbytes": "0.43.3",
    "accelerate": "1.14.0",
    "nvidia-ml-py": "13.610.43",
}

_NOTICE: Final = (
    "GPU board energy as NVML reports it: not wall power, not a certified benchmark result, not an "
    "MLPerf result. Holds for the board, driver and software named here. MLCommons, MLPerf and "
    "MLCube are trademarks of MLCommons Association, named for reference."
)


class ArmEvidence(NamedTuple):
    """An arm with everything its file is made from."""

    run: RunEvidence
    arm: Arm
    summary: ArmReport
    windows: tuple[Judged, ...]  #: those that count
    sessions: tuple[SessionOpened, ...]  #: those the windows come from
    stopping: tuple[Stopping, ...]  #: of its sessions
    baseline: ArmReport | None  #: FP16 of the same model, workload and runtime


def energy_reports(run: RunEvidence, report: Report) -> dict[str, EnergyReport]:
    """Every arm's energy.json by arm id; none for a journal that ends before its first session."""
    if not run.known.sessions:
        return {}
    return {summary.arm: _energy_report(_evidence(run, report, summary)) for summary in report.arms}


def _evidence(run: RunEvidence, report: Report, summary: ArmReport) -> ArmEvidence:
    arm = next(arm for arm in run.known.arms if arm.id == summary.arm)
    windows = run.counted(arm.id)
    used = {window.fact.session for window in windows}
    sessions = tuple(s for s in run.known.sessions if s.session in used) or run.known.sessions[:1]
    partner = arm.baseline.id
    baseline = next((other for other in report.arms if other.arm == partner), None)
    visited = {(window.fact.session, window.fact.group) for window in run.windows[arm.id]}
    stopping = tuple(each for each in report.stopping if (each.session, each.group) in visited)
    return ArmEvidence(run, arm, summary, windows, sessions, stopping, baseline)


def _energy_report(known: ArmEvidence) -> EnergyReport:
    run, arm = known.run, known.arm
    ready = run.known.ready.get(arm.id, ())
    return EnergyReport(
        schema_version="ecocompute-energy/2.0",
        benchmark="ecocompute-energy-methodology",
        follows_mlcommons_energy_reporting_conventions=True,
        certified_benchmark_result=False,
        scenario="SingleStream" if arm.workload.batch == 1 else "Offline",
        scenario_note="Nominal, by batch size; no LoadGen was involved.",
        timestamp_utc=run.journal.lines[-1].utc,
        rehearsal=run.known.run.rehearsal,
        measurement_source=_source(known),
        system_under_test=_system(known),
        workload=_workload(known),
        measurement=_measurement(known),
        results=_results(known),
        software=_software(known),
        quality=_quality(known),
        thermal=thermal(run, arm, known.windows),
        power_trace=power_trace(run, arm, known.windows),
        environment=environment(known.sessions, known.windows),
        certificate=ready[0].certificate if ready else Absent(reason="the arm never loaded"),
        phases=Absent(reason="each phase is a workload with windows and a document of its own"),
        why=known.summary.why,
        findings=_findings(known),
        provenance=Provenance(
            tool="ecocompute-cube",
            tool_version=run.known.run.tool_version,
            run_id=run.known.run.run_id,
            plan_name=run.known.run.plan.name,
            plan_sha256=run.known.run.plan_sha256,
            journal_sha256=run.journal.head,
            arm=arm.id,
        ),
        notice=_NOTICE,
    )


def _findings(known: ArmEvidence) -> tuple[Finding, ...]:
    return (*run_findings(known.run), *arm_findings(known.run, known.arm))


def _source(known: ArmEvidence) -> Literal["direct-nvml", "none", "scripted"]:
    board = known.sessions[0].board
    if not present(board) or not known.windows:
        return "none"
    return "scripted" if board.architecture == "scripted" else "direct-nvml"


def _system(known: ArmEvidence) -> SystemUnderTest:
    session = known.sessions[0]
    board = session.board
    hashes = {board.uuid_sha256 for s in known.sessions for board in s.boards}
    return SystemUnderTest(
        gpu=board.name if present(board) else "none",
        gpu_arch=board.architecture if present(board) else "none",
        accelerator_count=len(session.boards),
        host=session.host.platform,
        compute_capability=board.compute_capability if present(board) else board,
        memory_mib=board.memory_mib if present(board) else board,
        power_limit_w=board.power_limit_w if present(board) else board,
        virtualization=board.virtualization if present(board) else board,
        boards_sha256=tuple(sorted(hashes)),
        cpu=session.host.cpu,
        cpu_cores=session.host.cores,
    )


def _workload(known: ArmEvidence) -> Workload:
    arm, manifest = known.arm, known.run.manifest(known.arm)
    ready = known.run.known.ready.get(arm.id, ())
    return Workload(
        model_name=manifest.name,
        params_b=manifest.parameters / 1e9,
        precision=arm.precision,
        runtime=arm.runtime,
        batch_size=arm.workload.batch,
        prompt_tokens=arm.workload.prompt_tokens,
        output_tokens=arm.workload.generated_tokens,
        context_length=arm.workload.context_tokens,
        phase=arm.workload.phase,
        decoding="greedy",
        model_reference=manifest.reference,
        model_sha256=manifest.digest,
        weights=manifest.weights,
        prompt_sha256=ready[0].prompt_sha256 if ready else Absent(reason="the arm never loaded"),
    )


def _measurement(known: ArmEvidence) -> Measurement:
    plan = known.run.known.run.plan
    source = worst_source(known.windows)
    ticks = [s.slowest for s in known.sessions if present(s.slowest)]
    decoded = known.windows or known.run.windows[known.arm.id]
    warmed = [window.warmed.passes for window in decoded if window.warmed]
    return Measurement(
        method=_METHODS[source],
        source=source,
        sample_rate_hz=sample_rate(known.windows),
        tokens_per_run=known.arm.workload.generated_tokens,
        iterations=min((w.fact.iterations for w in decoded), default=1),
        warmup=min(warmed, default=0),
        window="generation",
        mode=plan.protocol.mode,
        blocks=known.summary.blocks,
        sessions=known.summary.sessions,
        stopping=known.stopping,
        resident=all(session.resident for session in known.sessions),
        counter_tick_ms=statistics.median(t.median_ms for t in ticks)
        if ticks
        else Absent(reason="the counter's tick was not measured"),
        cross_check=_cross_check(known),
        iterations_note="Generations within one window, not replicates; the replicate is the "
        "block, or the session where there are several.",
    )


def _cross_check(known: ArmEvidence) -> CrossCheck | Absent:
    if not known.windows:
        return Absent(reason="nothing was measured")
    if worst_source(known.windows) is not PowerKind.COUNTER:
        return Absent(reason="the headline is an integral of the trace itself")
    usable = [
        (window, window.integral, window.rate_hz, window.energy)
        for window in known.windows
        if present(window.integral) and present(window.rate_hz) and present(window.energy)
    ]
    if not usable:
        reasons = [w.integral.reason for w in known.windows if isinstance(w.integral, Absent)]
        return Absent(reason=reasons[0] if reasons else "nothing was measured")
    tokens = sum(window.tokens for window, _, _, _ in usable)
    integral = Joule(sum(integral for _, integral, _, _ in usable))
    counter = sum(energy.energy for _, _, _, energy in usable)
    return CrossCheck(
        source=usable[0][0].integral_source,
        energy_per_token_mj=mj_per_token(integral, tokens),
        difference_pct=(integral / counter - 1) * 100,
        achieved_rate_hz=min(rate for _, _, rate, _ in usable),
        windows=len(usable),
        bound_mj=_integral_bound([window for window, _, _, _ in usable], tokens),
    )


def _integral_bound(windows: Sequence[Judged], tokens: int) -> tuple[float, float] | Absent:
    bounds = [w.integral_bound for w in windows if w.integral_bound is not None]
    if len(bounds) < len(windows):
        return Absent(reason="a window's samples give no bound")
    low, high = (Joule(sum(each)) for each in zip(*bounds, strict=True))
    return mj_per_token(low, tokens), mj_per_token(high, tokens)


def _results(known: ArmEvidence) -> ResultsMeasured | ResultsUnavailable:
    energy = known.summary.energy
    if not present(energy):
        rate = known.summary.tokens_per_s
        return ResultsUnavailable(
            basis="unavailable",
            energy_per_token_mj=None,
            fp16_energy_per_token_mj=None,
            vs_fp16_energy_pct=None,
            tokens_generated=known.summary.output_tokens,
            throughput_tokens_per_s=rate if present(rate) else None,
            note=f"Energy unavailable: {energy.reason}.",
        )
    work_s = sum(window.work_s for window in known.windows)
    versus, standing = known.summary.vs_baseline, Absent(reason=f"{BASELINE} is the baseline")
    is_baseline = known.arm.is_baseline
    if baseline_of(known.run, known.arm) != known.arm.baseline:
        versus, standing = Absent(reason=DOES_NOT_FIT), versus
    change = versus.change_pct if present(versus) else versus
    return ResultsMeasured(
        basis="measured",
        total_energy_joules=energy.total_j,
        tokens_generated=known.summary.output_tokens,
        energy_per_token_mj=energy.mj_per_token,
        energy_per_token_interval_mj=energy.interval_mj,
        reading_bound_mj=energy.bound_mj,
        avg_power_watts=energy.mean_power_w,
        throughput_tokens_per_s=known.summary.output_tokens / work_s,
        work_seconds=work_s,
        net_energy_per_token_mj=energy.net_mj_per_token,
        idle_power=energy.idle,
        fp16_energy_per_token_mj=energy.mj_per_token if is_baseline else _baseline_mj(known),
        vs_fp16_energy_pct=0.0 if is_baseline else change if present(change) else None,
        vs_fp16=versus,
        vs_baseline=standing,
        per="prompt token" if known.arm.workload.phase is Phase.PREFILL else "output token",
        time_to_first_token_s=known.summary.time_to_first_token_s,
        boards=board_energies(known.run.known, known.arm, known.windows) or EARLY,
        note=_results_note(known),
    )


def _baseline_mj(known: ArmEvidence) -> float | None:
    if known.baseline is None or not present(known.baseline.energy):
        return None
    return known.baseline.energy.mj_per_token


def _results_note(known: ArmEvidence) -> str:
    if known.arm.is_baseline:
        return "The baseline: compared with itself, the change is zero by definition."
    versus, standing = known.summary.vs_baseline, baseline_of(known.run, known.arm)
    if standing != known.arm.baseline:
        return f"{BASELINE} does not fit this board: compared with {standing.precision} instead."
    if not present(versus):
        return f"Not compared with {BASELINE}: {versus.reason}."
    return f"Compared with {BASELINE} of the same run, paired within blocks: {versus.reason}."


def _software(known: ArmEvidence) -> Software:
    session = known.sessions[0]
    ready = known.run.known.ready.get(known.arm.id, ())
    cuda = ready[0].certificate.torch_cuda if ready else Absent(reason="the arm never loaded")
    differing = tuple(
        f"{name} {session.packages.get(name, 'not installed')} != {pin}"
        for name, pin in _REFERENCE_PINS.items()
        if session.packages.get(name) != pin
    )
    return Software(
        python=session.python,
        packages=session.packages,
        torch_cuda=cuda if present(cuda) else None,
        nvidia_driver=session.board.driver if present(session.board) else None,
        reference_pins=dict(_REFERENCE_PINS),
        matches_reference_pins=not differing,
        differs_from_reference_pins=differing,
        comparability_note="Kernels change between releases: pool only with runs of the same "
        "versions.",
    )


def _quality(known: ArmEvidence) -> QualityMeasured | QualityUnavailable:
    scored = known.run.known.quality.get(known.arm.id)
    found = perplexity(known.run, known.arm)
    if not isinstance(scored, QualityScored) or not present(found):
        reason = found.reason if isinstance(found, Absent) else "not scored"
        return QualityUnavailable(
            metric="perplexity", basis="unavailable", value=None, note=f"No perplexity: {reason}."
        )
    baseline = known.baseline.perplexity if known.baseline else Absent(reason="no baseline")
    is_baseline = known.arm.is_baseline
    delta = found.delta_pct if present(found.delta_pct) else None
    return QualityMeasured(
        metric="perplexity",
        basis="measured",
        value=found.value,
        mean_nll=mean_nll(scored),
        tokens_evaluated=found.scored_tokens,
        windows=len(scored.nll),
        seq_len=scored.window_tokens,
        corpus=Corpus(name=scored.text, bytes=scored.text_bytes, sha256=scored.text_sha256),
        fp16_value=baseline.value if present(baseline) else None,
        delta_vs_fp16_pct=0.0 if is_baseline else delta,
        delta_interval_pct=found.delta_interval_pct,
        note="Teacher-forced over non-overlapping windows after the energy window; only the delta "
        "to FP16 of the same run means something. A proxy for damage, not a task score.",
    )
