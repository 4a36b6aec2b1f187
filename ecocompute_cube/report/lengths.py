"""Windows of mode precise that are shorter than the mode is meant to have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.model.base import present
from ecocompute_cube.model.claims import Finding
from ecocompute_cube.model.plan import PRECISE_S, PRECISE_TICKS, Arm, Mode

if TYPE_CHECKING:
    from ecocompute_cube.analysis.gates import Judged
    from ecocompute_cube.report.run import RunEvidence


def short_windows(run: RunEvidence, arm: Arm) -> tuple[Finding, ...]:
    """Of an arm whose plan asked for less; early versions did not say what was asked."""
    protocol = run.known.run.plan.protocol
    windows = run.counted(arm.id)
    short = [
        window
        for window in windows
        if protocol.iterations is not None or window.fact.least_s is not None
        if window.work_s < _least_s(run, window)
    ]
    if protocol.mode is not Mode.PRECISE or not short:
        return ()
    return (
        Finding(
            code="short_window",
            subject=arm.id,
            cause=f"{len(short)} of {len(windows)} windows are shorter than {PRECISE_S:.0f} s or "
            f"{PRECISE_TICKS} ticks of the counter: the shortest took "
            f"{min(window.work_s for window in short):.1f} s.",
            fix="Take window_s and iterations out of the plan, or raise them.",
            effect="lowers the tier",
        ),
    )


def _least_s(run: RunEvidence, window: Judged) -> float:
    tick = next(s.slowest for s in run.known.sessions if s.session == window.fact.session)
    return max(PRECISE_S, PRECISE_TICKS * tick.median_ms / 1e3 if present(tick) else 0.0)
