"""From a run folder to its Report: the journal, its traces, and nothing else."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
from typing import TYPE_CHECKING

from ecocompute_cube.analysis.gates import Judged
from ecocompute_cube.analysis.idle import net_energy
from ecocompute_cube.analysis.quality import delta_interval_pct, mean_nll, same_windows
from ecocompute_cube.analysis.ratios import log_interval, paired_log_ratios, replicates
from ecocompute_cube.model.base import Absent, MaybeFloat, present
from ecocompute_cube.model.claims import Comparison, Finding, Idle, Interval
from ecocompute_cube.model.journal import QualityScored
from ecocompute_cube.model.plan import BASELINE, Arm, Phase
from ecocompute_cube.model.readings import EARLY, PowerKind
from ecocompute_cube.model.report import (
    FORMAT,
    ArmReport,
    Energy,
    Perplexity,
    Report,
    SessionChange,
    SessionReport,
)
from ecocompute_cube.model.report import (
    Evidence as EvidenceReport,
)
from ecocompute_cube.report.answer import answer, question
from ecocompute_cube.report.baselines import DOES_NOT_FIT, baseline_of
from ecocompute_cube.report.comparisons import comparisons_of, trouble_of
from ecocompute_cube.report.findings import arm_findings, findings_of
from ecocompute_cube.report.run import RunEvidence, by_block
from ecocompute_cube.report.schedule import schedule
from ecocompute_cube.report.stopping import stopping_of
from ecocompute_cube.report.trends import trends_of
from ecocompute_cube.report.why import why_of
from ecocompute_cube.units import Joule, mj_per_token, percent, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable


def build_report(run: RunEvidence) -> Report:
    """What this run claims."""
    known, plan = run.known, run.known.run.plan
    comparisons = comparisons_of(run)
    findings = {arm.id: arm_findings(run, arm) for arm in known.arms}
    arms = tuple(_arm_report(run, arm, comparisons, findings[arm.id]) for arm in known.arms)
    return Report(
        format=FORMAT,
        tool_version=known.run.tool_version,
        run_id=known.run.run_id,
        started_utc=run.journal.lines[0].utc,
        rehearsal=known.run.rehearsal,
        question=question((model.name for model in known.run.models), arms),
        answer=answer(known.run.rehearsal, arms, comparisons),
        plan=plan,
        plan_sha256=known.run.plan_sha256,
        arms=arms,
        comparisons=comparisons,
        stopping=stopping_of(run),
        trends=trends_of(run),
        schedule=schedule(run.journal.records),
        sessions=_sessions(run),
        findings=findings_of(run, findings),
        evidence=EvidenceReport(
            journal_sha256=run.journal.head,
            lines=len(run.journal.lines),
            torn_bytes=len(run.journal.torn),
            traces=sum(present(trace) for trace in run.traces.values()),
            visits=known.visits,
        ),
    )


def _arm_report(
    run: RunEvidence,
    arm: Arm,
    comparisons: tuple[Comparison, ...],
    findings: tuple[Finding, ...],
) -> ArmReport:
    manifest = run.manifest(arm)
    ready = run.known.ready.get(arm.id, ())
    never = Absent(reason="the arm never loaded")
    windows = run.counted(arm.id)
    decoded = windows or run.windows[arm.id]
    tokens = sum(window.tokens for window in decoded)
    took = sum(window.work_s for window in decoded)
    lowering = (f.code for f in findings if f.effect == "lowers the tier")
    return ArmReport(
        arm=arm.id,
        model=manifest.name,
        weights=manifest.weights,
        model_sha256=manifest.digest,
        params_b=manifest.parameters / 1e9,
        precision=arm.precision,
        runtime=arm.runtime,
        replica=arm.replica,
        workload=arm.workload,
        windows=len(windows),
        blocks=len(by_block(windows)),
        sessions=len({window.fact.session for window in windows}),
        output_tokens=tokens,
        tokens_per_s=tokens / took
        if tokens > 0 and took > 0
        else Absent(reason=trouble_of(run, arm.id) or "nothing was decoded"),
        time_to_first_token_s=_first_token_s(arm, decoded),
        energy=_energy(run, arm, windows),
        is_baseline=arm == baseline_of(run, arm),
        vs_baseline=vs_baseline(run, arm, comparisons),
        by_session=_by_session(run, arm, windows),
        perplexity=perplexity(run, arm),
        why=why_of(run, arm),
        certificate=ready[0].certificate if ready else never,
        load_s=seconds(ready[0].load.end_ns - ready[0].load.start_ns) if ready else never,
        lowered_by=tuple(lowering),
    )


def _by_session(
    run: RunEvidence, arm: Arm, windows: tuple[Judged, ...]
) -> tuple[SessionChange, ...]:
    partner = baseline_of(run, arm)
    mj = by_block(windows)
    pairs = (
        {} if partner == arm else paired_log_ratios(mj, by_block(run.counting.get(partner.id, ())))
    )
    return tuple(
        SessionChange(
            session=wanted,
            mj_per_token=statistics.geometric_mean(
                value for (session, _), value in mj.items() if session == wanted
            ),
            pairs_pct=tuple(
                percent(math.exp(log)) for (session, _), log in pairs.items() if session == wanted
            ),
        )
        for wanted in sorted({session for session, _ in mj})
    )


def _first_token_s(arm: Arm, windows: Iterable[Judged]) -> MaybeFloat:
    if arm.workload.phase is not Phase.PREFILL:
        return Absent(reason="measured in phase prefill alone")
    took = [
        seconds(end - start)
        for window in windows
        for start, end in pairwise((window.fact.work.start_ns, *window.fact.iteration_ends_ns))
    ]
    return statistics.median(took) if took else Absent(reason="nothing was measured")


def _energy(run: RunEvidence, arm: Arm, windows: tuple[Judged, ...]) -> Energy | Absent:
    measured = [(w, w.energy) for w in windows if present(w.energy)]
    if not measured:
        return Absent(reason=trouble_of(run, arm.id) or "no valid window")
    tokens = sum(window.tokens for window, _ in measured)
    total = Joule(sum(energy.energy for _, energy in measured))
    values, unit = replicates(by_block(windows))
    net = net_energy(windows)
    return Energy(
        source=worst_source(windows),
        total_j=total,
        mj_per_token=mj_per_token(total, tokens),
        interval_mj=log_interval(values, run.known.run.plan.protocol, unit),
        bound_mj=(
            mj_per_token(Joule(sum(energy.low for _, energy in measured)), tokens),
            mj_per_token(Joule(sum(energy.high for _, energy in measured)), tokens),
        ),
        mean_power_w=total / sum(window.work_s for window, _ in measured),
        idle=_idle(windows),
        net_mj_per_token=mj_per_token(net, tokens) if present(net) else net,
        blocks_mj=tuple(by_block(windows).values()),
    )


def _idle(windows: Iterable[Judged]) -> Idle | Absent:
    found = [window.idle for window in windows]
    around = [each for each in found if present(each)]
    if not around:
        return next(each for each in found if isinstance(each, Absent))
    return Idle(
        before_w=statistics.fmean(each.before for each in around),
        after_w=statistics.fmean(each.after for each in around),
        drift_w=statistics.fmean(each.drift for each in around),
        windows=len(around),
    )


def worst_source(windows: Iterable[Judged]) -> PowerKind:
    """The lowest rung of the ladder that any window stands on."""
    ladder = list(PowerKind)
    return max((window.source for window in windows), key=ladder.index, default=PowerKind.NONE)


def vs_baseline(
    run: RunEvidence, arm: Arm, comparisons: tuple[Comparison, ...]
) -> Comparison | Absent:
    """The arm against FP16 of the same model, workload and runtime, or against its stand-in."""
    partner = baseline_of(run, arm)
    if arm == partner:
        return Absent(reason="this arm is the baseline")
    if arm.is_baseline:
        return Absent(reason=f"{DOES_NOT_FIT}: {trouble_of(run, arm.id)}")
    if arm.replica > 1 and not arm.original.is_baseline:
        return Absent(reason="a replica is compared with its original only")
    for comparison in comparisons:
        if comparison.arm == arm.id and comparison.against == partner.id:
            return comparison
    return Absent(reason=f"the plan has no {BASELINE} arm to compare with")


def perplexity(run: RunEvidence, arm: Arm) -> Perplexity | Absent:
    """Exp of the token-weighted mean negative log-likelihood, and its change to the baseline's."""
    scored = run.known.quality.get(arm.id)
    if not isinstance(scored, QualityScored):
        return Absent(reason=scored.reason if scored else "the quality probe did not run")
    value = _perplexity(scored)
    partner = run.known.quality.get(arm.baseline.id)
    why = "this arm is the baseline" if arm.is_baseline else "the baseline has no perplexity"
    delta: MaybeFloat = Absent(reason=why)
    interval: Interval | Absent = Absent(reason=why)
    if isinstance(partner, QualityScored) and not same_windows(scored, partner):
        delta = interval = Absent(reason="FP16 was not scored on the same windows")
    elif isinstance(partner, QualityScored) and not arm.is_baseline:
        delta = (value / _perplexity(partner) - 1) * 100
        confidence = run.known.run.plan.protocol.confidence
        interval = delta_interval_pct(scored, partner, confidence)
    return Perplexity(
        value=value,
        delta_pct=delta,
        delta_interval_pct=interval,
        scored_tokens=sum(scored.scored_tokens),
    )


def _perplexity(scored: QualityScored) -> float:
    return math.exp(mean_nll(scored))


def _sessions(run: RunEvidence) -> tuple[SessionReport, ...]:
    opened = {
        line.record.session: line.utc
        for line in reversed(run.journal.lines)
        if line.record.kind == "session"
    }
    return tuple(
        SessionReport(
            session=session.session,
            opened_utc=opened[session.session],
            board=session.board,
            others=session.others or EARLY,
            tick=session.tick,
            host=session.host,
            python=session.python,
            packages=session.packages,
            resident=session.resident,
        )
        for session in run.known.sessions
    )
