"""Visits before which the board did not get as cool as the plan asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.model.around import Cooled
from ecocompute_cube.model.claims import Finding

if TYPE_CHECKING:
    from ecocompute_cube.model.plan import Arm
    from ecocompute_cube.report.run import RunEvidence


def not_cooled(run: RunEvidence, arm: Arm) -> tuple[Finding, ...]:
    """Of an arm whose pauses ended at their ceiling, or without a temperature to go by."""
    pauses = [f for f in run.journal.records if isinstance(f, Cooled) and f.arm == arm.id]
    late = [pause for pause in pauses if not pause.reached]
    if not late or run.known.run.rehearsal:
        return ()
    return (
        Finding(
            code="not_cooled",
            subject=arm.id,
            cause=f"Before {len(late)} of {len(pauses)} visits the board was not as cool as the "
            f"plan asks, after at most {max(pause.waited_s for pause in late):.0f} s.",
            fix="Raise protocol.cooldown.max_s, or improve the cooling.",
            effect="lowers the tier",
        ),
    )
