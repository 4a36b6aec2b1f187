"""Every contrast of a run's plan, compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.analysis.agreement import output_of
from ecocompute_cube.analysis.compare import compare
from ecocompute_cube.report.baselines import contrasts_of
from ecocompute_cube.report.run import by_block

if TYPE_CHECKING:
    from ecocompute_cube.model.claims import Comparison
    from ecocompute_cube.report.run import RunEvidence


def comparisons_of(run: RunEvidence) -> tuple[Comparison, ...]:
    """Every contrast of the plan."""
    plan = run.known.run.plan
    mj = {arm.id: by_block(run.counted(arm.id)) for arm in run.known.arms}
    troubles = {arm.id: trouble for arm in run.known.arms if (trouble := trouble_of(run, arm.id))}
    return tuple(
        compare(contrast, plan.protocol, mj, troubles).model_copy(
            update={"output": output_of(run.known, contrast.arm, contrast.against)}
        )
        for contrast in contrasts_of(run)
    )


def trouble_of(run: RunEvidence, arm: str) -> str | None:
    """Why an arm has no counted window; None if it has one."""
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
