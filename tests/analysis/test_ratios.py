"""Paired ratios, their interval, and what it says about a threshold."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ecocompute_cube.analysis.ratios import (
    as_percent,
    paired_log_ratios,
    replicates,
    t_interval,
    verdict,
)
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.claims import Interval, Verdict

energies = st.floats(1e-3, 1e6)
blocks = st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 9)), energies, max_size=12)


def interval(low: float, high: float) -> Interval:
    return Interval(low=low, high=high, confidence=0.95, n=3, unit="blocks")


# Ratios


def test_only_blocks_that_hold_both_are_paired() -> None:
    arm = {(0, 0): 2.0, (0, 1): 4.0, (0, 2): 8.0}
    against = {(0, 1): 1.0, (0, 2): 4.0, (1, 0): 1.0}
    assert paired_log_ratios(arm, against) == {(0, 1): math.log(4), (0, 2): math.log(2)}


@given(blocks, blocks)
def test_swapping_the_arms_only_turns_the_sign(
    arm: dict[tuple[int, int], float], against: dict[tuple[int, int], float]
) -> None:
    there, back = paired_log_ratios(arm, against), paired_log_ratios(against, arm)
    assert there.keys() == back.keys()
    assert all(there[key] == pytest.approx(-back[key], abs=1e-12) for key in there)
    values, unit = replicates(there)
    mirrored = replicates(back)
    assert mirrored.unit == unit
    assert mirrored.values == pytest.approx([-value for value in values], abs=1e-12)


@given(blocks, st.floats(0.5, 2))
def test_the_boards_gain_cancels(arm: dict[tuple[int, int], float], gain: float) -> None:
    against = {key: value * 1.25 for key, value in arm.items()}
    scaled = {key: value * gain for key, value in arm.items()}
    both = {key: value * gain for key, value in against.items()}
    assert list(paired_log_ratios(scaled, both).values()) == pytest.approx(
        list(paired_log_ratios(arm, against).values())
    )


# Replicates


def test_blocks_are_the_replicate_of_one_session() -> None:
    assert replicates({(0, 2): 3.0, (0, 0): 1.0}) == ((1.0, 3.0), "blocks")


def test_sessions_are_the_replicate_of_several() -> None:
    found = replicates({(0, 0): 1.0, (0, 1): 3.0, (4, 0): 10.0})
    assert found == ((2.0, 10.0), "sessions")


def test_nothing_is_no_replicate() -> None:
    assert replicates({}) == ((), "blocks")


# Intervals


def test_the_interval_is_students_by_hand() -> None:
    """Mean 2, s = 1, n = 3; with 2 degrees of freedom t = c·√(2 / (1 − c²)): 4.3027."""
    found = t_interval([1.0, 2.0, 3.0], 0.95, "blocks")
    assert present(found)
    half = 0.95 * math.sqrt(2 / (1 - 0.95**2)) / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half), rel=1e-12)
    assert (found.n, found.confidence, found.unit) == (3, 0.95, "blocks")


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30).filter(lambda v: len(set(v)) > 1),
    st.sampled_from([0.8, 0.9, 0.95, 0.99]),
)
def test_the_interval_is_scipys(values: list[float], confidence: float) -> None:
    found = t_interval(values, confidence, "sessions")
    assert present(found)
    error = statistics.stdev(values) / math.sqrt(len(values))
    expected = stats.t.interval(
        confidence, len(values) - 1, loc=statistics.fmean(values), scale=error
    )
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_the_interval_covers_the_truth_as_often_as_it_says(n: int) -> None:
    draw = random.Random(20260102)
    runs, covered = 2000, 0
    for _ in range(runs):
        found = t_interval([draw.gauss(0.1, 0.02) for _ in range(n)], 0.95, "blocks")
        assert present(found)
        covered += found.low <= 0.1 <= found.high
    assert 0.93 <= covered / runs <= 0.97


@pytest.mark.parametrize("values", [[], [1.0]])
def test_a_single_value_has_no_interval_but_a_reason(values: list[float]) -> None:
    found = t_interval(values, 0.95, "blocks")
    assert isinstance(found, Absent)
    assert f"{len(values)} of the blocks" in found.reason


def test_a_log_interval_in_percent() -> None:
    found = as_percent(interval(math.log(0.9), math.log(1.2)))
    assert present(found)
    assert (found.low, found.high) == pytest.approx((-10, 20))
    absent = Absent(reason="r")
    assert as_percent(absent) is absent


# Verdicts: τ = 2


UP, DOWN = math.nextafter(2, 9), math.nextafter(2, 0)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-9, -UP, Verdict.LOWER),
        (-9, -2, Verdict.INCONCLUSIVE),  # −τ itself is not below −τ
        (-9, -DOWN, Verdict.INCONCLUSIVE),
        (-UP, 0, Verdict.INCONCLUSIVE),
        (-2, 2, Verdict.SAME),  # the borders belong to "same"
        (-2, -2, Verdict.SAME),
        (2, 2, Verdict.SAME),
        (-DOWN, DOWN, Verdict.SAME),
        (0, UP, Verdict.INCONCLUSIVE),
        (DOWN, 9, Verdict.INCONCLUSIVE),
        (2, 9, Verdict.INCONCLUSIVE),  # τ itself is not above τ
        (UP, 9, Verdict.HIGHER),
        (-9, 9, Verdict.INCONCLUSIVE),
    ],
)
def test_the_verdict_is_where_the_whole_interval_lies(
    low: float, high: float, expected: Verdict
) -> None:
    assert verdict(interval(low, high), 2.0) is expected


def test_without_an_interval_nothing_is_decided() -> None:
    assert verdict(Absent(reason="n = 1"), 2.0) is Verdict.INCONCLUSIVE


@given(st.floats(-99, 99), st.floats(0, 50), st.floats(0.1, 10))
def test_mirrored_intervals_have_mirrored_verdicts(low: float, width: float, tau: float) -> None:
    mirror = {Verdict.LOWER: Verdict.HIGHER, Verdict.HIGHER: Verdict.LOWER}
    found = verdict(interval(low, low + width), tau)
    assert verdict(interval(-low - width, -low), tau) is mirror.get(found, found)
