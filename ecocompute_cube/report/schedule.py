"""The blocks of a run as they went, off its journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.model.journal import BlockClosed, BlockOpened, Refused, WindowMeasured
from ecocompute_cube.model.report import ArmRefused, BlockReport

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ecocompute_cube.model.journal import Fact


def schedule(facts: Iterable[Fact]) -> tuple[BlockReport, ...]:
    """Every block that began, in the journal's order; one that was run again stands there twice."""
    found: list[BlockReport] = []
    for fact in facts:
        if isinstance(fact, BlockOpened):
            found.append(_begun(fact))
        elif found:
            found[-1] = _gone_on(found[-1], fact)
    return tuple(found)


def _begun(fact: BlockOpened) -> BlockReport:
    return BlockReport(
        session=fact.session,
        group=fact.group,
        block=fact.block,
        order=fact.order,
        measured=(),
        refused=(),
        counts=False,
        why="it was never closed",
    )


def _gone_on(block: BlockReport, fact: Fact) -> BlockReport:
    if isinstance(fact, WindowMeasured):
        return block.model_copy(update={"measured": (*block.measured, fact.arm)})
    if isinstance(fact, Refused):
        told = ArmRefused(
            arm=fact.arm, stage=fact.stage, reason=fact.reason, cause=fact.cause, fix=fact.fix
        )
        return block.model_copy(update={"refused": (*block.refused, told)})
    if isinstance(fact, BlockClosed):
        return block.model_copy(update={"counts": fact.complete, "why": fact.reason})
    return block
