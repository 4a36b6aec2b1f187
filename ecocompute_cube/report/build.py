"""From a run folder to its Report: the journal, its traces, and nothing else."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.compare import compare
from ecocompute_cube.analysis.evidence import Evidence, Visit, evidence, judged_windows
from ecocompute_cube.analysis.gates import HOST_CHANGE, Judged, judge, valid
from ecocompute_cube.analysis.ratios import log_interval, replicates
from ecocompute_cube.analysis.traces import Trace, read_trace
from ecocompute_cube.model.base import Absent, MaybeFloat, present
from ecocompute_cube.model.claims import Comparison, Finding
from ecocompute_cube.model.journal import PowerKind, QualityScored, QualitySkipped, TraceStored
from ecocompute_cube.model.journal_file import JOURNAL_NAME, Journal, read_journal
from ecocompute_cube.model.manifest import Weights
from ecocompute_cube.model.plan import BASELINE, Arm, Selector
from ecocompute_cube.model.report import (
    ArmReport,
    Energy,
    Perplexity,
    Report,
    SessionReport,
)
from ecocompute_cube.model.report import (
    Evidence as EvidenceReport,
)
from ecocompute_cube.report.answer import answer, question
from ecocompute_cube.units import Joule, mj_per_token

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ecocompute_cube.model.manifest import Manifest

FORMAT: Final = "ecocompute-report/1"

#: What else must be said of weights that are not their maker's.
_NO_QUALITY: Final = {
    Weights.DEQUANTIZED: ", and the perplexity of quantizing them again (*) is not what a "
    "precision costs"
}


class RunEvidence(NamedTuple):
    """Everything a report of one run is made from."""

    journal: Journal
    known: Evidence
    windows: dict[str, tuple[Judged, ...]]
    findings: dict[str, tuple[Finding, ...]]  #: by arm, the windows' own
    traces: dict[Visit, Trace | Absent]

    def manifest(self, arm: Arm) -> Manifest:
        """The model an arm runs."""
        return next(m for m in self.known.run.models if m.reference == arm.model)

    def counted(self, arm: str) -> tuple[Judged, ...]:
        """The arm's windows that no finding forbids."""
        return tuple(window for window in self.windows[arm] if valid(judge(window)))


def read_run(folder: Path) -> RunEvidence:
    """Read a run folder. Raises JournalBroken as ``read_journal`` does."""
    journal = read_journal(folder / JOURNAL_NAME)
    known = evidence(journal.records)

    @cache
    def trace(visit: Visit) -> Trace | Absent:
        stored = known.traces.get(visit)
        if isinstance(stored, TraceStored):
            return read_trace(folder, stored)
        return Absent(reason=stored.reason if stored else "no trace was kept")

    windows = {arm.id: judged_windows(known, arm, trace) for arm in known.arms()}
    # A rehearsal has one finding of its own; gates on windows without a board would add noise.
    findings = {
        arm: _window_findings(found) if not known.run.rehearsal else ()
        for arm, found in windows.items()
    }
    return RunEvidence(journal, known, windows, findings, {v: trace(v) for v in known.traces})


def _window_findings(windows: tuple[Judged, ...]) -> tuple[Finding, ...]:
    """Each code once, with how many of the arm's windows it is about."""
    found = [finding for window in windows for finding in judge(window)]
    times = Counter(finding.code for finding in found)
    return tuple(
        finding.model_copy(
            update={"cause": f"{finding.cause} ({times[finding.code]} of {len(windows)} windows)"}
        )
        if len(windows) > 1
        else finding
        for finding in _distinct(found)
    )


def _distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    first: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        first.setdefault((finding.code, finding.subject), finding)
    return tuple(first.values())


def build_report(run: RunEvidence) -> Report:
    """What this run claims."""
    known, plan = run.known, run.known.run.plan
    comparisons = comparisons_of(run)
    arms = tuple(_arm_report(run, arm, comparisons) for arm in known.arms())
    return Report(
        format=FORMAT,
        tool_version=known.run.tool_version,
        run_id=known.run.run_id,
        started_utc=run.journal.lines[0].utc,
        rehearsal=known.run.rehearsal,
        question=question(model.name for model in known.run.models),
        answer=answer(known.run.rehearsal, arms, comparisons),
        plan=plan,
        plan_sha256=known.run.plan_sha256,
        arms=arms,
        comparisons=comparisons,
        sessions=_sessions(run),
        findings=findings_of(run),
        evidence=EvidenceReport(
            journal_sha256=run.journal.head,
            lines=len(run.journal.lines),
            torn_bytes=len(run.journal.torn),
            traces=sum(present(trace) for trace in run.traces.values()),
            visits=known.visits,
        ),
    )


def comparisons_of(run: RunEvidence) -> tuple[Comparison, ...]:
    """Every contrast of the plan."""
    plan = run.known.run.plan
    mj = {arm.id: by_block(run.counted(arm.id)) for arm in run.known.arms()}
    troubles = {arm.id: trouble for arm in run.known.arms() if (trouble := _trouble(run, arm.id))}
    return tuple(
        compare(contrast, plan.protocol, mj, troubles) for contrast in plan.expanded_contrasts()
    )


def by_block(windows: Iterable[Judged]) -> dict[tuple[int, int], float]:
    """Energy per token in mJ of each (session, block); windows of one block are summed first."""
    energy: dict[tuple[int, int], float] = defaultdict(float)
    tokens: dict[tuple[int, int], int] = defaultdict(int)
    for window in windows:
        key = window.fact.session, window.fact.block
        if present(window.energy):
            energy[key] += window.energy.energy
            tokens[key] += window.tokens
    return {key: mj_per_token(Joule(energy[key]), tokens[key]) for key in energy}


def _trouble(run: RunEvidence, arm: str) -> str | None:
    if run.counted(arm):
        return None
    if run.known.run.rehearsal:
        return "a rehearsal measures no energy"
    if refused := run.known.refused.get(arm):
        return f"{arm} was refused: {refused[0].cause}"
    forbidding = [f for f in run.findings[arm] if f.effect == "invalid"]
    if forbidding:
        return f"{arm}: {forbidding[0].cause}"
    return f"{arm} has no window in a complete block"


def _arm_report(run: RunEvidence, arm: Arm, comparisons: tuple[Comparison, ...]) -> ArmReport:
    manifest = run.manifest(arm)
    windows = run.counted(arm.id)
    decoded = windows or run.windows[arm.id]
    tokens = sum(window.tokens for window in decoded)
    took = sum(window.work_s for window in decoded)
    lowering = (f.code for f in arm_findings(run, arm) if f.effect == "lowers the tier")
    return ArmReport(
        arm=arm.id,
        model=manifest.name,
        weights=manifest.weights,
        params_b=manifest.parameters / 1e9,
        precision=arm.precision,
        runtime=arm.runtime,
        workload=arm.workload,
        windows=len(windows),
        blocks=len(by_block(windows)),
        sessions=len({window.fact.session for window in windows}),
        output_tokens=tokens,
        tokens_per_s=tokens / took
        if tokens > 0 and took > 0
        else Absent(reason=_trouble(run, arm.id) or "nothing was decoded"),
        energy=_energy(run, arm, windows),
        vs_baseline=vs_baseline(run, arm, comparisons),
        perplexity=perplexity(run, arm),
        lowered_by=tuple(lowering),
    )


def _energy(run: RunEvidence, arm: Arm, windows: tuple[Judged, ...]) -> Energy | Absent:
    measured = [(w, w.energy) for w in windows if present(w.energy)]
    if not measured:
        return Absent(reason=_trouble(run, arm.id) or "no valid window")
    tokens = sum(window.tokens for window, _ in measured)
    total = Joule(sum(energy.energy for _, energy in measured))
    values, unit = replicates(by_block(windows))
    return Energy(
        source=worst_source(windows),
        total_j=total,
        mj_per_token=mj_per_token(total, tokens),
        interval_mj=log_interval(values, run.known.run.plan.protocol.confidence, unit),
        bound_mj=(
            mj_per_token(Joule(sum(energy.low for _, energy in measured)), tokens),
            mj_per_token(Joule(sum(energy.high for _, energy in measured)), tokens),
        ),
        mean_power_w=total / sum(window.work_s for window, _ in measured),
        blocks_mj=tuple(by_block(windows).values()),
    )


def worst_source(windows: Iterable[Judged]) -> PowerKind:
    """The lowest rung of the ladder that any window stands on."""
    ladder = list(PowerKind)
    return max((window.source for window in windows), key=ladder.index, default=PowerKind.NONE)


def vs_baseline(
    run: RunEvidence, arm: Arm, comparisons: tuple[Comparison, ...]
) -> Comparison | Absent:
    """The arm against FP16 of the same model, workload and runtime."""
    if arm.precision is BASELINE:
        return Absent(reason="this arm is the baseline")
    partner = arm.changed(Selector(precision=BASELINE)).id
    for comparison in comparisons:
        if comparison.arm == arm.id and comparison.against == partner:
            return comparison
    return Absent(reason=f"the plan has no {BASELINE} arm to compare with")


def perplexity(run: RunEvidence, arm: Arm) -> Perplexity | Absent:
    """Exp of the token-weighted mean negative log-likelihood, and its change to the baseline's."""
    scored = run.known.quality.get(arm.id)
    if not isinstance(scored, QualityScored):
        return Absent(reason=scored.reason if scored else "the quality probe did not run")
    value = _perplexity(scored)
    partner = run.known.quality.get(arm.changed(Selector(precision=BASELINE)).id)
    delta: MaybeFloat = Absent(reason="the baseline has no perplexity")
    if isinstance(partner, QualityScored):
        delta = (value / _perplexity(partner) - 1) * 100
    if arm.precision is BASELINE:
        delta = Absent(reason="this arm is the baseline")
    return Perplexity(value=value, delta_pct=delta, scored_tokens=sum(scored.scored_tokens))


def _perplexity(scored: QualityScored) -> float:
    return math.exp(mean_nll(scored))


def mean_nll(scored: QualityScored) -> float:
    """Nats per scored token."""
    return sum(scored.nll) / sum(scored.scored_tokens)


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
            tick=session.tick,
            host=session.host,
            python=session.python,
            packages=session.packages,
            resident=session.resident,
        )
        for session in run.known.sessions
    )


def findings_of(run: RunEvidence) -> tuple[Finding, ...]:
    """Every finding: of the run, of its models, of each arm."""
    arms = tuple(finding for arm in run.known.arms() for finding in arm_findings(run, arm))
    return _distinct((*_run_findings(run), *arms))


def arm_findings(run: RunEvidence, arm: Arm) -> tuple[Finding, ...]:
    """The findings that bear on one arm.

    Windows that do not count forbid nothing while others of the arm do count.
    """
    own = run.findings[arm.id]
    if run.counted(arm.id):
        own = tuple(_spared(finding) for finding in own)
    about_arm = (
        *_model_findings(run, arm),
        *_refusals(run, arm),
        *_no_perplexity(run, arm),
        *_unfinished(run, arm),
    )
    return _distinct((*about_arm, *own))


def _unfinished(run: RunEvidence, arm: Arm) -> tuple[Finding, ...]:
    """Fewer blocks than were planned before the run: a claim could have been stopped at will."""
    protocol = run.known.run.plan.protocol
    wanted = protocol.blocks * protocol.sessions
    done = len({(w.fact.session, w.fact.block) for w in run.windows[arm.id]})
    if done >= wanted or run.known.run.rehearsal:
        return ()
    return (
        Finding(
            code="unfinished",
            subject=arm.id,
            cause=f"Only {done} of the planned {wanted} blocks are complete.",
            fix="Run the same measure command again to finish them.",
            effect="lowers the tier",
        ),
    )


def _no_perplexity(run: RunEvidence, arm: Arm) -> tuple[Finding, ...]:
    skipped = run.known.quality.get(arm.id)
    if not isinstance(skipped, QualitySkipped) or run.manifest(arm).weights is Weights.RANDOM:
        return ()
    return (
        Finding(
            code="no_perplexity",
            subject=arm.id,
            cause=f"The perplexity could not be scored: {skipped.reason}",
            fix="See the arm's log in the run folder.",
            effect="note",
        ),
    )


def _spared(finding: Finding) -> Finding:
    if finding.effect != "invalid":
        return finding
    cause = f"{finding.cause} Such windows do not count."
    return finding.model_copy(update={"effect": "lowers the tier", "cause": cause})


def _run_findings(run: RunEvidence) -> tuple[Finding, ...]:
    if run.known.run.rehearsal:
        return (
            Finding(
                code="rehearsal",
                subject="run",
                cause="This is a rehearsal without a board: tokens and perplexity are real, though "
                "of one short text; no energy was measured, and speeds say nothing about a board.",
                fix="Run the same command on a machine with an NVIDIA GPU.",
                effect="invalid",
            ),
        )
    return (*_host_uneven(run), *_sessions_differ(run))


def _sessions_differ(run: RunEvidence) -> tuple[Finding, ...]:
    """Sessions on other drivers or processors may be pooled, but it must be said."""
    drivers = {s.board.driver for s in run.known.sessions if present(s.board)}
    processors = {s.host.cpu for s in run.known.sessions if present(s.host.cpu)}
    differing = [sorted(each) for each in (drivers, processors) if len(each) > 1]
    return tuple(
        Finding(
            code="sessions_differ",
            subject="run",
            cause=f"The sessions ran on different drivers or processors ({', '.join(names)}).",
            fix="Trust the paired ratios more than the absolute figures.",
            effect="note",
        )
        for names in differing
    )


def _host_uneven(run: RunEvidence) -> tuple[Finding, ...]:
    """The host's own speed over all counted windows."""
    spins = [
        s
        for windows in run.windows.values()
        for window in windows
        if present(window.fact.host_spin_s)
        for s in window.fact.host_spin_s
        if s > 0
    ]
    change = max(spins) / min(spins) - 1 if spins else 0.0
    if change <= HOST_CHANGE:
        return ()
    return (
        Finding(
            code="host_uneven",
            subject="run",
            cause=f"The host's own speed, by a fixed loop, differed by {change:.0%} over the run; "
            "at batch 1 the board waits for the host.",
            fix="Trust the paired ratios more than the absolute figures, and measure more blocks.",
            effect="note",
        ),
    )


def _model_findings(run: RunEvidence, arm: Arm) -> tuple[Finding, ...]:
    manifest = run.manifest(arm)
    if manifest.weights is Weights.ORIGINAL:
        return ()
    return (
        Finding(
            code="weights_not_original",
            subject=arm.id,
            cause=f"The weights of {manifest.name} are {manifest.weights}, not its maker's: "
            f"not poolable with the named model{_NO_QUALITY.get(manifest.weights, '')}.",
            fix="Measure the original checkpoint from a local folder.",
            effect="note",
        ),
    )


def _refusals(run: RunEvidence, arm: Arm) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            code=refused.reason,
            subject=arm.id,
            cause=refused.cause,
            fix=refused.fix or "See the arm's log.",
            effect="lowers the tier" if run.counted(arm.id) else "invalid",
        )
        for refused in run.known.refused.get(arm.id, ())
    )
