"""What an arm against itself says of the run: any difference is the method's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.model.base import present
from ecocompute_cube.model.claims import Comparison, Finding, Verdict
from ecocompute_cube.model.plan import against_itself
from ecocompute_cube.report.comparisons import comparisons_of
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from ecocompute_cube.model.plan import Arm
    from ecocompute_cube.report.run import RunEvidence


def replica_findings(run: RunEvidence, arm: Arm) -> tuple[Finding, ...]:
    """Of an arm or its replica, where the interval of the two does not hold zero."""
    if all(each.replica == 1 for each in run.known.arms):
        return ()
    pairs = (each for each in comparisons_of(run) if against_itself(each.arm, each.against))
    return tuple(
        finding
        for pair in pairs
        if arm.id in (pair.arm, pair.against)
        if (finding := _finding(pair, arm)) is not None
    )


def _finding(pair: Comparison, arm: Arm) -> Finding | None:
    found = pair.interval_pct
    if not present(found) or found.low <= 0 <= found.high:
        return None
    far = pair.verdict in (Verdict.LOWER, Verdict.HIGHER)
    chance = f"{100 * (1 - found.confidence):.0f} %"
    return Finding(
        code="differs_from_itself",
        subject=arm.id,
        cause=f"An arm against itself gave {signed(found.low)} to {signed(found.high)} %, "
        f"without zero: by chance alone that happens in {chance} of such pairs.",
        fix="Repeat it; if it stays, believe no difference of that size from this machine.",
        effect="lowers the tier" if far else "note",
    )
