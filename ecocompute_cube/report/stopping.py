"""Which rule ended a session's blocks, looked at again from the evidence, block after block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.analysis.ratios import paired_log_ratios
from ecocompute_cube.analysis.stopping import Look, look
from ecocompute_cube.model.base import present
from ecocompute_cube.model.journal import BlockClosed, BlockOpened
from ecocompute_cube.model.stop import AdaptiveStop, Stopped, Stopping
from ecocompute_cube.report.baselines import contrasts_of
from ecocompute_cube.report.run import by_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.report.run import RunEvidence


def look_at(run: RunEvidence, session: int, group: int) -> Stopped | None:
    """What the adaptive rule says of the blocks so far: stopped, or nothing."""
    stop = run.known.run.plan.protocol.stop
    if not isinstance(stop, AdaptiveStop):
        return None
    found = _look(run, stop, session, group, complete_blocks(run, session, group))
    if found.ended is None:
        return None
    return Stopped(
        session=session,
        group=group,
        blocks=found.blocks,
        reason=found.ended,
        widest_pct=found.widest_pct,
    )


def complete_blocks(run: RunEvidence, session: int, group: int) -> tuple[int, ...]:
    """The numbers of a session's complete blocks, as they were closed."""
    closed = (fact for fact in run.journal.records if isinstance(fact, BlockClosed))
    return tuple(f.block for f in closed if f.complete and (f.session, f.group) == (session, group))


def _look(
    run: RunEvidence, stop: AdaptiveStop, session: int, group: int, blocks: Sequence[int]
) -> Look:
    plan = run.known.run.plan
    here = {
        arm.id
        for arm in run.known.arms
        if any(
            (w.fact.session, w.fact.group, w.fact.block) == (session, group, *blocks[-1:])
            for w in run.windows[arm.id]
        )
    }
    pairs = [
        _log_ratios(run, contrast.arm, contrast.against, session, blocks)
        for contrast in contrasts_of(run)
        if {contrast.arm, contrast.against} <= here
    ]
    return look(plan.protocol, stop, len(blocks), [values for values in pairs if values])


def _log_ratios(
    run: RunEvidence, arm: str, against: str, session: int, blocks: Sequence[int]
) -> list[float]:
    ratios = paired_log_ratios(by_block(run.counted(arm)), by_block(run.counted(against)))
    return [
        value for (number, block), value in ratios.items() if number == session and block in blocks
    ]


def stopping_of(run: RunEvidence) -> tuple[Stopping, ...]:
    """What ended the blocks of every session and group that was begun."""
    opened = (fact for fact in run.journal.records if isinstance(fact, BlockOpened))
    begun = dict.fromkeys((fact.session, fact.group) for fact in opened)
    if run.known.run.rehearsal:
        return ()
    return tuple(_stopping(run, session, group) for session, group in begun)


def _stopping(run: RunEvidence, session: int, group: int) -> Stopping:
    protocol = run.known.run.plan.protocol
    blocks = complete_blocks(run, session, group)
    ended, reason = len(blocks) >= protocol.blocks, f"{protocol.blocks} blocks were planned"
    if isinstance(protocol.stop, AdaptiveStop):
        looks = [
            _look(run, protocol.stop, session, group, blocks[:count])
            for count in range(protocol.stop.min_blocks, len(blocks) + 1)
        ]
        ended, reason = _told(protocol.stop, looks, len(blocks))
    return Stopping(
        session=session,
        group=group,
        rule=protocol.stop.rule,
        blocks=len(blocks),
        ended=ended,
        reason=reason,
    )


def _told(stop: AdaptiveStop, looks: Sequence[Look], blocks: int) -> tuple[bool, str]:
    """Whether the rule ended it where it ended, and how."""
    first = next((found for found in looks if found.ended is not None), None)
    asked = f"±{stop.half_width_pct:g} % of the ratio"
    if first is None:
        return False, f"the rule asks for {asked}, and had not ended it"
    if first.blocks < blocks:
        return False, f"the rule had ended it after {first.blocks} blocks: {first.ended}"
    if not present(first.widest_pct):
        return True, f"{first.ended}: {first.widest_pct.reason}"
    return True, f"{first.ended}: ±{first.widest_pct:.2g} %, where {asked} was asked for"
