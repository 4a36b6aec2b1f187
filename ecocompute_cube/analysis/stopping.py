"""The adaptive rule: whether a session has enough blocks, from its blocks alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ecocompute_cube.analysis.ratios import interval_of
from ecocompute_cube.model.base import Absent, MaybeFloat, present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.claims import Interval
    from ecocompute_cube.model.plan import Protocol
    from ecocompute_cube.model.stop import AdaptiveStop, EndedBy


class Look(NamedTuple):
    """What the rule says of a session's complete blocks."""

    blocks: int
    ended: EndedBy | None  #: None: one more block
    widest_pct: MaybeFloat  #: half of the widest interval, in percent of its ratio


def half_width_pct(interval: Interval) -> float:
    """Half of a log ratio's interval, in percent of the ratio (of its geometric centre)."""
    return 100 * math.sinh((interval.high - interval.low) / 2)


def look(
    protocol: Protocol, stop: AdaptiveStop, blocks: int, contrasts: Sequence[Sequence[float]]
) -> Look:
    """Look at ``blocks`` complete blocks.

    ``contrasts`` holds the log ratios of every contrast that is worth waiting for: those whose arms
    are still measured. It ends at ``min_blocks`` if there is none.
    """
    if blocks < stop.min_blocks:
        return Look(blocks, None, Absent(reason=f"no look before {stop.min_blocks} blocks"))
    if not contrasts:
        return Look(blocks, "nothing to wait for", Absent(reason="no contrast was measured"))
    widest = _widest(protocol, contrasts)
    fewest = min(map(len, contrasts))  # a window that does not count leaves a pair out
    if present(widest) and widest <= stop.half_width_pct and fewest >= stop.min_blocks:
        return Look(blocks, "narrow enough", widest)
    return Look(blocks, "maximum" if blocks >= stop.max_blocks else None, widest)


def _widest(protocol: Protocol, contrasts: Sequence[Sequence[float]]) -> MaybeFloat:
    found = [interval_of(values, protocol, "blocks") for values in contrasts]
    lost = [interval for interval in found if isinstance(interval, Absent)]
    return lost[0] if lost else max(half_width_pct(each) for each in found if present(each))
