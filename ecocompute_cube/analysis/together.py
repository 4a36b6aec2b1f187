"""One window over several boards: each board judged by its own readings, and their sum.

    energy = Σ energy of the boards     low = Σ low     high = Σ high

No board starts or ends at another's readings: the bound of each covers that its counter is looked
at in turn with the others' (analysis/energy.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.analysis.energy import WindowEnergy
from ecocompute_cube.analysis.idle import IdlePower
from ecocompute_cube.analysis.traces import Bound
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.readings import PowerKind
from ecocompute_cube.units import Joule, Watt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.analysis.gates import Judged
    from ecocompute_cube.model.journal import Warmed, WindowMeasured


def window_at(window: WindowMeasured, board: int) -> WindowMeasured:
    """The window as a board saw it, by the board's place."""
    if board == 0:
        return window
    seen = window.others[board - 1]
    return window.model_copy(
        update={
            "counter": seen.counter,
            "before": seen.before,
            "after": seen.after,
            "idle": seen.idle,
        }
    )


def warmed_at(warmed: Warmed | None, board: int) -> Warmed | None:
    """The warm-up as a board saw it."""
    if warmed is None or board == 0:
        return warmed
    return warmed.model_copy(update={"idle": warmed.others_idle[board - 1]})


def together(parts: Sequence[Judged]) -> Judged:
    """A window by what its boards say; of one board that is all there is to say."""
    first, *others = parts
    if not others:
        return first
    ladder = list(PowerKind)
    limits = [part.power_limit_w for part in parts]
    lost = next((limit for limit in limits if isinstance(limit, Absent)), None)
    return first._replace(
        energy=_energy(parts),
        source=max((part.source for part in parts), key=ladder.index),
        integral=_integral(parts),
        integral_source=max((part.integral_source for part in parts), key=ladder.index),
        rate_hz=_slowest(parts),
        reasons=_reasons(parts),
        power_limit_w=lost or sum(limit for limit in limits if present(limit)),
        integral_bound=_bound(parts),
        tick_s=max(part.tick_s for part in parts),
        idle=_idle(parts),
        parts=tuple(parts),
    )


def _energy(parts: Sequence[Judged]) -> WindowEnergy | Absent:
    known: list[WindowEnergy] = []
    for part in parts:
        if not present(part.energy):
            return part.energy
        known.append(part.energy)
    idle = [each.idle for each in known]
    unknown = next((each for each in idle if isinstance(each, Absent)), None)
    return WindowEnergy(
        energy=Joule(sum(each.energy for each in known)),
        low=Joule(sum(each.low for each in known)),
        high=Joule(sum(each.high for each in known)),
        idle=unknown or Watt(sum(each for each in idle if present(each))),
    )


def _integral(parts: Sequence[Judged]) -> Joule | Absent:
    total = 0.0
    for part in parts:
        if not present(part.integral):
            return part.integral
        total += part.integral
    return Joule(total)


def _bound(parts: Sequence[Judged]) -> Bound | None:
    known = [part.integral_bound for part in parts if part.integral_bound is not None]
    if len(known) < len(parts):
        return None
    return Bound(Joule(sum(each.low for each in known)), Joule(sum(each.high for each in known)))


def _slowest(parts: Sequence[Judged]) -> float | Absent:
    rates = [part.rate_hz for part in parts]
    lost = next((rate for rate in rates if isinstance(rate, Absent)), None)
    return lost or min(rate for rate in rates if present(rate))


def _reasons(parts: Sequence[Judged]) -> frozenset[str] | Absent:
    """Of every board that told any."""
    told = [part.reasons for part in parts if present(part.reasons)]
    return frozenset().union(*told) if told else parts[0].reasons


def _idle(parts: Sequence[Judged]) -> IdlePower | Absent:
    known: list[IdlePower] = []
    for part in parts:
        if not present(part.idle):
            return part.idle
        known.append(part.idle)
    return IdlePower(
        before=Watt(sum(each.before for each in known)),
        after=Watt(sum(each.after for each in known)),
        slack=Watt(sum(each.slack for each in known)),
    )
