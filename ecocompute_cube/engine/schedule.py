"""Order of work: randomised complete blocks. Pure; a seed decides everything."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.plan import PRECISE_S, PRECISE_TICKS, Mode
from ecocompute_cube.units import Second

if TYPE_CHECKING:
    from ecocompute_cube.model.plan import Plan, Protocol
    from ecocompute_cube.model.readings import Tick


class Block(NamedTuple):
    """One visit of every arm of a group, in this order."""

    session: int
    group: int
    block: int
    order: tuple[str, ...]


def groups(plan: Plan) -> tuple[tuple[str, ...], ...]:
    """Arms that must share a block: those linked by contrasts, in the plan's order."""
    home = {arm.id: arm.id for arm in plan.expanded()}
    for contrast in plan.expanded_contrasts():
        old, new = home[contrast.arm], home[contrast.against]
        home = {arm: new if place == old else place for arm, place in home.items()}
    return tuple(
        tuple(arm for arm, place in home.items() if place == found)
        for found in dict.fromkeys(home.values())
    )


def block_order(plan: Plan, arms: tuple[str, ...], session: int, group: int, block: int) -> Block:
    """The block with its arms shuffled by the plan's seed."""
    order = list(arms)
    chance(plan, "order", session, group, block).shuffle(order)
    return Block(session, group, block, tuple(order))


def start_delay(plan: Plan, session: int, group: int, block: int, arm: str) -> float:
    """A fraction of a tick, below one, by which a window's work is put off."""
    return chance(plan, "delay", session, group, block, arm).random()


def least_window_s(protocol: Protocol, tick: Tick | Absent) -> Second | None:
    """How long a window must be; None where its generations are counted instead.

    A plan that says less than 20 s has its way; the others also get 200 ticks of the counter.
    """
    if protocol.mode is not Mode.PRECISE or protocol.iterations is not None:
        return None
    if protocol.window_s < PRECISE_S or not present(tick):
        return Second(protocol.window_s)
    return Second(max(protocol.window_s, PRECISE_TICKS * tick.median_ms / 1e3))


def chance(plan: Plan, *purpose: object) -> random.Random:
    """A generator for one purpose, the same on every host and Python version (seeded by text)."""
    return random.Random(":".join(map(str, (plan.protocol.seed, *purpose))))
