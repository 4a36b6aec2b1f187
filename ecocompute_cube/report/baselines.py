"""What an arm is compared with: FP16, or the widest arm that fits a board that FP16 does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.claims import Finding
from ecocompute_cube.model.plan import BASELINE, Contrast

if TYPE_CHECKING:
    from ecocompute_cube.model.plan import Arm
    from ecocompute_cube.report.run import RunEvidence

DOES_NOT_FIT: Final = "baseline_does_not_fit"
_NO_ROOM: Final = "out_of_memory"  # the refusal's reason


def baseline_of(run: RunEvidence, arm: Arm) -> Arm:
    """The arm that carries this arm's ratio: FP16 of the same model, workload and runtime.

    Where the board had no room for that, the precision that the plan names, else of those that
    were measured the one with the most bytes of weights.
    """
    fp16 = arm.baseline
    if not _lacks_room(run, fp16):
        return fp16
    named = run.known.run.plan.baseline
    alike = [each for each in _measured(run) if each.baseline == fp16 and each != fp16]
    chosen = [each for each in alike if each.precision is named]
    return next(iter(chosen or sorted(alike, key=lambda each: -_bytes(run, each))), fp16)


def _lacks_room(run: RunEvidence, arm: Arm) -> bool:
    """Whether a plan's arm was refused for want of memory, and never measured."""
    refusals = run.known.refused.get(arm.id, ())
    wanted = any(each.reason == _NO_ROOM for each in refusals)
    return wanted and not run.counted(arm.id)


def _measured(run: RunEvidence) -> list[Arm]:
    return [arm for arm in run.known.arms if arm.replica == 1 and run.counted(arm.id)]


def _bytes(run: RunEvidence, arm: Arm) -> int:
    ready = run.known.ready.get(arm.id, ())
    return ready[0].certificate.weight_bytes if ready else 0


def contrasts_of(run: RunEvidence) -> tuple[Contrast, ...]:
    """The plan's contrasts, and each arm against what stands in for FP16."""
    pairs = dict.fromkeys((c.arm, c.against) for c in run.known.run.plan.expanded_contrasts())
    for arm in _measured(run):
        standing = baseline_of(run, arm)
        if standing not in (arm, arm.baseline):
            pairs[arm.id, standing.id] = None
    return tuple(Contrast(arm=arm, against=against) for arm, against in pairs)


def baseline_findings(run: RunEvidence, arm: Arm) -> tuple[Finding, ...]:
    """Of an arm that has another baseline than FP16."""
    standing = baseline_of(run, arm)
    if standing == arm.baseline or not run.counted(arm.id):
        return ()
    return (
        Finding(
            code="baseline_does_not_fit",
            subject=arm.id,
            cause=f"{BASELINE} does not fit this board: {standing.precision} is the baseline.",
            fix="Do not quote the change as one against FP16; a larger board can give that.",
            effect="lowers the tier",
        ),
    )
