"""When warm-up is over: the last passes alike, and the temperature at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ecocompute_cube.model.base import MaybeFloat, present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.around import Warmup

_TEMPERATURES: Final = 3  # readings that must agree, as in the published thermal block
_PASSES: Final = 2  # of the same length, the last ones
_TICKS_OFF: Final = 2  # a difference of two readings may miss a tick at either end


class Pass(NamedTuple):
    """One unmeasured pass."""

    seconds: float
    mj: MaybeFloat  #: energy per token, by the counter


def settled_by(
    passes: Sequence[Pass], rule: Warmup, tick_s: float | None
) -> Literal["energy", "time"]:
    """What tells whether passes are alike.

    The energy per token, where a pass is so long that the counter's ticks blur it by no more than
    the spread that is asked for; otherwise the time, for which there is no such limit.
    """
    last = passes[-_PASSES:]
    if tick_s is None or not all(present(each.mj) for each in last):
        return "time"
    long_enough = 100 * _TICKS_OFF * tick_s / rule.settled_pct
    return "energy" if all(each.seconds >= long_enough for each in last) else "time"


def settled(
    passes: Sequence[Pass], temperatures: Sequence[MaybeFloat], rule: Warmup, tick_s: float | None
) -> bool:
    """Whether the last passes were alike and the last temperatures as well, as the rule asks."""
    last = passes[-_PASSES:]
    levels = [each.seconds for each in last]
    if settled_by(passes, rule, tick_s) == "energy":
        levels = [each.mj for each in last if present(each.mj)]
    alike = len(levels) == _PASSES and (
        max(levels) - min(levels) <= rule.settled_pct / 100 * max(levels)
    )
    seen = [value for value in temperatures[-_TEMPERATURES:] if present(value)]
    return alike and (not seen or max(seen) - min(seen) <= rule.settled_c)
