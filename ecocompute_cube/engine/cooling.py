"""Leaving the board alone until it is cool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import MaybeFloat, present
from ecocompute_cube.units import Second, nanoseconds, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecocompute_cube.device.base import Clock
    from ecocompute_cube.model.around import Cooldown

_LOOK_S: Final = 1.0  # boards cool by a degree in seconds


class Pause(NamedTuple):
    """How a pause went."""

    target_c: MaybeFloat
    temperature_c: MaybeFloat
    waited_s: Second
    reached: bool


def cool(
    rule: Cooldown, first_c: MaybeFloat, read: Callable[[], MaybeFloat], clock: Clock
) -> Pause:
    """Wait until ``read`` gives the rule's temperature, or its ceiling has passed.

    Without a temperature there is nothing to wait for, and the rule is not kept.
    """
    target = first_c if rule.until_c is None else rule.until_c
    if present(target) and rule.within_c is not None:
        target += rule.within_c
    start, now_c = clock.now_ns(), read()
    ceiling = start + nanoseconds(rule.max_s)
    while present(target) and present(now_c) and now_c > target and clock.now_ns() < ceiling:
        clock.sleep(_LOOK_S)
        now_c = read()
    reached = present(target) and present(now_c) and now_c <= target
    return Pause(target, now_c, seconds(clock.now_ns() - start), reached)
