"""Whether energy depends on an arm's place within the block, or drifts over the blocks.

Randomised complete blocks, additive in the logarithm: log energy = arm + block + β · place + noise.
β is estimated by least squares with arms and blocks taken out, as a covariate of a block design
(D. C. Montgomery, Design and Analysis of Experiments, chapters on randomised blocks and on analysis
of covariance; B. Jones and M. G. Kenward, Design and Analysis of Cross-Over Trials, call it the
period effect). Drift is the slope of the blocks' means, each over all arms, on their order: what
the arms of a block share is no noise between its arms. Both intervals are Student's t.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy import special

from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.claims import Effect, Interval
from ecocompute_cube.units import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Columns = NDArray[np.float64]

LEAST_BLOCKS: Final = (
    6  # below, Student's t leaves the slope of the blocks' means 3 degrees or fewer
)


class Cell(NamedTuple):
    """One arm's energy in one block."""

    arm: str
    block: int
    place: int  #: within the block's order, from 0
    mj: float


def position(cells: Sequence[Cell], confidence: float) -> Effect | Absent:
    """Change of energy from the first place of a block to the last, arms and blocks taken out."""
    arms, blocks = _names(cells)
    few = _too_few(arms, blocks)
    if few is not None:
        return few
    place = np.array([[float(cell.place)] for cell in cells])
    others = np.hstack([_indicators([cell.arm for cell in cells]), _indicators(_blocks(cells))])
    scale = max(cell.place for cell in cells)
    return _effect(_logs(cells), others, place, scale, (len(blocks), confidence))


def drift(cells: Sequence[Cell], confidence: float) -> Effect | Absent:
    """Change of energy from the first block to the last, over blocks that hold every arm."""
    arms, blocks = _names(cells)
    means = [_mean(cells, block) for block in blocks if _arms_in(cells, block) == len(arms)]
    if len(means) < LEAST_BLOCKS:
        return _not_enough(len(means))
    order = np.arange(float(len(means)))[:, None]
    return _effect(
        np.array(means), np.ones_like(order), order, len(means) - 1, (len(means), confidence)
    )


def _effect(
    y: Columns, others: Columns, column: Columns, scale: float, told: tuple[int, float]
) -> Effect | Absent:
    """The coefficient of ``column`` beside ``others``, times ``scale``."""
    n, confidence = told
    left_x, left_y = _taken_out(others, column)[:, 0], _taken_out(others, y[:, None])[:, 0]
    length = float(left_x @ left_x)
    freedom = len(y) - int(np.linalg.matrix_rank(others)) - 1
    if length < 1e-9 or freedom < 1:  # noqa: PLR2004 (rounding; the places themselves are whole)
        return Absent(reason="every block had the same order")
    slope = float(left_x @ left_y) / length
    rest = left_y - slope * left_x
    error = math.sqrt(float(rest @ rest) / freedom / length)
    half = float(special.stdtrit(freedom, 0.5 + confidence / 2)) * error
    interval = Interval(
        low=percent(math.exp(scale * (slope - half))),
        high=percent(math.exp(scale * (slope + half))),
        confidence=confidence,
        n=n,
        unit="blocks",
    )
    return Effect(
        change_pct=percent(math.exp(scale * slope)),
        interval_pct=interval,
        p=_p(slope, error, freedom),
    )


def _p(slope: float, error: float, freedom: int) -> float:
    if error == 0:
        return float(slope == 0)
    return float(2 * special.stdtr(freedom, -abs(slope) / error))


def _taken_out(others: Columns, values: Columns) -> Columns:
    """What of ``values`` the columns of ``others`` do not explain."""
    return values - others @ np.linalg.lstsq(others, values, rcond=None)[0]


def _indicators(names: Sequence[object]) -> Columns:
    known = list(dict.fromkeys(names))
    return np.array([[float(name == each) for each in known] for name in names])


def _names(cells: Sequence[Cell]) -> tuple[list[str], list[int]]:
    return sorted({cell.arm for cell in cells}), sorted(set(_blocks(cells)))


def _blocks(cells: Sequence[Cell]) -> list[int]:
    return [cell.block for cell in cells]


def _logs(cells: Sequence[Cell]) -> Columns:
    return np.log([cell.mj for cell in cells])


def _mean(cells: Sequence[Cell], block: int) -> float:
    return float(np.mean(_logs([cell for cell in cells if cell.block == block])))


def _arms_in(cells: Sequence[Cell], block: int) -> int:
    return len({cell.arm for cell in cells if cell.block == block})


def _too_few(arms: Sequence[str], blocks: Sequence[int]) -> Absent | None:
    if len(arms) < 2:  # noqa: PLR2004 (a place needs a neighbour)
        return Absent(reason="a single arm has no places to compare")
    return _not_enough(len(blocks)) if len(blocks) < LEAST_BLOCKS else None


def _not_enough(blocks: int) -> Absent:
    return Absent(reason=f"not enough blocks: {blocks} of {LEAST_BLOCKS}")
