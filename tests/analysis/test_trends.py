"""Place within the block and drift over the blocks: found where they are, and only there."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ecocompute_cube.analysis.trends import LEAST_BLOCKS, Cell, drift, position
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.claims import Effect

Truth = Callable[[int, int, int], float]  #: log energy by arm, block and place


def cells(truth: Truth, blocks: int = 10, arms: int = 3, seed: int = 0) -> list[Cell]:
    """Complete blocks in random orders."""
    draw = random.Random(seed)
    found = []
    for block in range(blocks):
        order = draw.sample(range(arms), arms)
        found += [
            Cell(f"arm{arm}", block, place, math.exp(truth(arm, block, place)))
            for place, arm in enumerate(order)
        ]
    return found


def noise(seed: int, size: float = 0.02) -> Callable[[], float]:
    draw = random.Random(seed)
    return lambda: draw.gauss(0, size)


def of(effect: Effect | Absent) -> Effect:
    assert present(effect)
    return effect


def test_a_place_that_costs_energy_is_found_and_tells_from_first_to_last() -> None:
    hum = noise(1, 0.001)
    warm = cells(lambda arm, block, place: arm + 0.3 * (block % 2) + 0.01 * place + hum())
    found = of(position(warm, 0.95))
    assert found.change_pct == pytest.approx(100 * math.expm1(0.02), abs=0.2)
    assert found.interval_pct.low < found.change_pct < found.interval_pct.high
    assert found.p < 1e-6


def test_a_drift_is_found_and_tells_from_the_first_block_to_the_last() -> None:
    hum = noise(2, 0.001)
    drifting = cells(lambda arm, block, place: arm + 0.01 * block + hum())
    found = of(drift(drifting, 0.95))
    assert found.change_pct == pytest.approx(100 * math.expm1(0.09), abs=0.3)
    assert found.p < 1e-6
    assert of(position(drifting, 0.95)).p > 0.01


@given(st.integers(0, 9), st.lists(st.floats(-3, 3), min_size=11, max_size=11))
def test_what_a_block_or_an_arm_has_of_its_own_is_no_effect_of_place(
    seed: int, own: list[float]
) -> None:
    hum = {(a, b): noise(seed * 999 + 9 * b + a)() for a in range(3) for b in range(8)}
    plain = of(position(cells(lambda a, b, p: hum[a, b], 8, seed=seed), 0.95))
    shifted = cells(lambda a, b, p: hum[a, b] + own[b] + own[8 + a], 8, seed=seed)
    found = of(position(shifted, 0.95))
    assert found.change_pct == pytest.approx(plain.change_pct, abs=1e-6)
    assert found.p == pytest.approx(plain.p, abs=1e-6)


@given(st.integers(0, 99))
def test_the_drift_is_the_regression_of_the_blocks_means(seed: int) -> None:
    hum = noise(seed)
    measured = cells(lambda arm, block, place: arm + hum(), 9, seed=seed)
    means = [
        sum(math.log(cell.mj) for cell in measured if cell.block == block) / 3 for block in range(9)
    ]
    oracle = stats.linregress(range(9), means)
    found = of(drift(measured, 0.95))
    assert found.change_pct == pytest.approx(100 * math.expm1(8 * oracle.slope), rel=1e-6)
    assert found.p == pytest.approx(oracle.pvalue, rel=1e-6)


@given(st.integers(0, 99))
def test_of_two_arms_the_effect_of_place_is_the_regression_of_their_differences(seed: int) -> None:
    hum = noise(seed)
    measured = cells(lambda arm, block, place: arm + hum(), 9, arms=2, seed=seed)
    by_key = {(cell.arm, cell.block): cell for cell in measured}
    pairs = [(by_key["arm1", block], by_key["arm0", block]) for block in range(9)]
    apart = [one.place - other.place for one, other in pairs]
    if len(set(apart)) == 1:
        assert isinstance(position(measured, 0.95), Absent)
        return
    oracle = stats.linregress(apart, [math.log(one.mj / other.mj) for one, other in pairs])
    found = of(position(measured, 0.95))
    assert found.change_pct == pytest.approx(100 * math.expm1(oracle.slope), rel=1e-6)
    assert found.p == pytest.approx(oracle.pvalue, rel=1e-6)


@pytest.mark.parametrize("test", [position, drift])
def test_where_there_is_nothing_it_is_found_as_often_as_p_says(
    test: Callable[[list[Cell], float], Effect | Absent],
) -> None:
    hum = noise(7)
    found = [of(test(cells(lambda a, b, p: a + hum(), 8, seed=seed), 0.95)) for seed in range(400)]
    assert stats.kstest([effect.p for effect in found], "uniform").pvalue > 0.01
    covered = sum(effect.interval_pct.low <= 0 <= effect.interval_pct.high for effect in found)
    assert 0.92 <= covered / len(found) <= 0.98


def test_too_few_blocks_give_a_reason() -> None:
    few = cells(lambda arm, block, place: 0.0, LEAST_BLOCKS - 1)
    for found in (position(few, 0.95), drift(few, 0.95)):
        assert isinstance(found, Absent)
        assert found.reason == "not enough blocks: 5 of 6"


def test_a_single_arm_has_a_drift_and_no_place() -> None:
    hum = noise(3)
    alone = cells(lambda arm, block, place: 0.1 * block + hum(), arms=1)
    assert isinstance(position(alone, 0.95), Absent)
    assert of(drift(alone, 0.95)).p < 0.01


def test_blocks_in_one_order_cannot_tell_place_from_arm() -> None:
    same = [Cell(f"arm{p}", block, p, 1.0 + p) for block in range(8) for p in range(2)]
    assert isinstance(position(same, 0.95), Absent)


def test_a_block_without_one_of_its_arms_is_no_step_of_the_drift() -> None:
    hum = noise(4)
    whole = cells(lambda arm, block, place: arm + hum(), 8)
    found = drift([cell for cell in whole if (cell.arm, cell.block) != ("arm2", 3)], 0.95)
    assert of(found).interval_pct.n == 7
