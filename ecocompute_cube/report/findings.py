"""What a reader must know before believing a run: of the run, of its models, of each arm."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from ecocompute_cube.analysis.gates import HOST_CHANGE
from ecocompute_cube.model.base import present
from ecocompute_cube.model.claims import Finding
from ecocompute_cube.model.journal import QualitySkipped
from ecocompute_cube.model.manifest import Weights
from ecocompute_cube.model.plan import Arm
from ecocompute_cube.model.stop import AdaptiveStop
from ecocompute_cube.report.baselines import baseline_findings
from ecocompute_cube.report.boards import board_findings
from ecocompute_cube.report.cooling import not_cooled
from ecocompute_cube.report.lengths import short_windows
from ecocompute_cube.report.replicas import replica_findings
from ecocompute_cube.report.run import RunEvidence, distinct
from ecocompute_cube.report.stopping import stopping_of
from ecocompute_cube.report.trends import trend_findings

if TYPE_CHECKING:
    from collections.abc import Mapping


#: What else must be said of weights that are not their maker's.
_NO_QUALITY: Final = {
    Weights.DEQUANTIZED: ", and the perplexity of quantizing them again (*) is not what a "
    "precision costs"
}


def findings_of(run: RunEvidence, by_arm: Mapping[str, tuple[Finding, ...]]) -> tuple[Finding, ...]:
    """Every finding: of the run, of its models, and ``by_arm`` those of each arm."""
    return distinct((*run_findings(run), *chain.from_iterable(by_arm.values())))


def arm_findings(run: RunEvidence, arm: Arm) -> tuple[Finding, ...]:
    """The findings that bear on one arm.

    Windows that do not count forbid nothing while others of the arm do count.
    """
    own = run.findings[arm.id]
    if run.counted(arm.id):
        own = tuple(_spared(finding) for finding in own)
    about_arm = (
        *_model_findings(run, arm),
        *board_findings(run, arm),
        *_refusals(run, arm),
        *baseline_findings(run, arm),
        *_no_perplexity(run, arm),
        *_unfinished(run, arm),
        *short_windows(run, arm),
        *not_cooled(run, arm),
        *replica_findings(run, arm),
    )
    return distinct((*about_arm, *own))


def _unfinished(run: RunEvidence, arm: Arm) -> tuple[Finding, ...]:
    """Not ended by the rule that was stored before the run: it could have been stopped at will."""
    protocol = run.known.run.plan.protocol
    if isinstance(protocol.stop, AdaptiveStop):
        return _against_the_rule(run, arm, protocol.sessions)
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


def _against_the_rule(run: RunEvidence, arm: Arm, sessions: int) -> tuple[Finding, ...]:
    own = {(w.fact.session, w.fact.group) for w in run.windows[arm.id]}
    stopping = [each for each in stopping_of(run) if (each.session, each.group) in own]
    ended = sum(each.ended for each in stopping)
    if ended >= sessions or run.known.run.rehearsal:
        return ()
    told = [f"session {each.session + 1}: {each.reason}" for each in stopping if not each.ended]
    return (
        Finding(
            code="unfinished",
            subject=arm.id,
            cause=f"The plan's stopping rule ended {ended} of {sessions} session(s)"
            f"{''.join(f'; {each}' for each in told)}.",
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
            cause=f"The perplexity could not be scored: {skipped.reason.rstrip('.')}.",
            fix="Give a longer text, or see the arm's log in the run folder.",
            effect="note",
        ),
    )


def _spared(finding: Finding) -> Finding:
    if finding.effect != "invalid":
        return finding
    cause = f"{finding.cause} Such windows do not count."
    return finding.model_copy(update={"effect": "lowers the tier", "cause": cause})


def run_findings(run: RunEvidence) -> tuple[Finding, ...]:
    """Those of the whole run, each once."""
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
    return distinct((*_host_uneven(run), *_sessions_differ(run), *trend_findings(run)))


def _sessions_differ(run: RunEvidence) -> tuple[Finding, ...]:
    """Sessions on other drivers or processors may be pooled, but it must be said."""
    drivers = {board.driver for s in run.known.sessions for board in s.boards}
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
