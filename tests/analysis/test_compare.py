"""One arm beside another: known truths, by hand arithmetic."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.analysis.compare import compare
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.claims import Comparison, Verdict
from ecocompute_cube.model.plan import Contrast, Protocol

PAIR = Contrast(arm="NF4", against="FP16")
ByBlock = dict[tuple[int, int], float]


def protocol(**changes: object) -> Protocol:
    return Protocol.model_validate_json(json.dumps(changes))


def of(arm: ByBlock, against: ByBlock, **changes: object) -> Comparison:
    return compare(PAIR, protocol(**changes), {"NF4": arm, "FP16": against}, {})


def session(number: int, *values: float) -> ByBlock:
    return {(number, block): value for block, value in enumerate(values)}


def test_the_change_is_the_geometric_mean_of_the_paired_ratios() -> None:
    """Ratios 0.5 and 2: the geometric mean is 1, the arithmetic mean would be 1.25."""
    found = of(session(0, 50, 200), session(0, 100, 100))
    assert present(found.change_pct)
    assert found.change_pct == pytest.approx(0, abs=1e-12)
    assert found.pairs_pct == pytest.approx((-50, 100))


def test_a_saving_by_hand() -> None:
    """Ratios 0.89, 0.90, 0.91 against the threshold of 2 %: lower, with n = 3 blocks."""
    found = of(session(0, 89, 180, 273), session(0, 100, 200, 300))
    assert present(found.change_pct) and present(found.interval_pct)
    mean = (math.log(0.89) + math.log(0.9) + math.log(0.91)) / 3
    assert found.change_pct == pytest.approx(100 * (math.exp(mean) - 1))
    assert found.interval_pct.low < found.change_pct < found.interval_pct.high < -2
    assert found.verdict is Verdict.LOWER
    assert (found.n, found.unit, found.blocks, found.sessions) == (3, "blocks", 3, 1)
    assert "below -2 %" in found.reason


@pytest.mark.parametrize(
    ("ratios", "verdict", "reason"),
    [
        ((1.20, 1.21, 1.22), Verdict.HIGHER, "above +2 %"),
        ((1.001, 1.000, 0.999), Verdict.SAME, "within ±2 %"),
        ((0.90, 1.00, 1.10), Verdict.INCONCLUSIVE, "crosses"),
        ((0.50,), Verdict.INCONCLUSIVE, "one block"),
    ],
)
def test_the_verdict_and_why(ratios: tuple[float, ...], verdict: Verdict, reason: str) -> None:
    found = of(session(0, *ratios), session(0, *(1.0 for _ in ratios)))
    assert found.verdict is verdict
    assert reason in found.reason


def test_one_block_has_a_change_and_no_interval() -> None:
    found = of({(0, 0): 80.0}, {(0, 0): 100.0})
    assert found.change_pct == pytest.approx(-20)
    assert isinstance(found.interval_pct, Absent)
    assert found.n == 1


def test_with_several_sessions_the_session_is_the_replicate() -> None:
    """Three blocks of two sessions: not six values but two, each the mean of its log ratios."""
    arm = session(0, 80, 80, 80) | session(1, 90, 90, 90)
    found = of(arm, session(0, 100, 100, 100) | session(1, 100, 100, 100))
    assert (found.n, found.unit, found.blocks, found.sessions) == (2, "sessions", 6, 2)
    assert found.change_pct == pytest.approx(100 * (math.sqrt(0.8 * 0.9) - 1))
    assert found.pairs_pct == pytest.approx((-20, -10))
    assert found.verdict is Verdict.INCONCLUSIVE  # two sessions that differ decide nothing


def test_a_session_without_a_pair_is_not_counted() -> None:
    found = of(session(0, 80, 80) | session(1, 70), session(0, 100, 100))
    assert (found.n, found.unit, found.sessions) == (2, "blocks", 1)


def test_the_threshold_and_the_confidence_are_the_plans() -> None:
    arm, against = session(0, 96, 97, 98), session(0, 100, 100, 100)
    narrow, wide = of(arm, against, confidence=0.9), of(arm, against, confidence=0.99)
    assert present(narrow.interval_pct) and present(wide.interval_pct)
    assert wide.interval_pct.low < narrow.interval_pct.low
    assert narrow.interval_pct.high < wide.interval_pct.high
    same = of(session(0, 99, 99, 99), against, threshold_pct=5)
    assert (same.threshold_pct, same.verdict) == (5, Verdict.SAME)


def test_an_arm_in_trouble_is_invalid_with_its_trouble_and_no_number() -> None:
    troubles = {"NF4": "NF4 was refused: no memory"}
    found = compare(PAIR, protocol(), {"NF4": {}, "FP16": session(0, 1, 1)}, troubles)
    assert found.verdict is Verdict.INVALID
    assert found.reason == troubles["NF4"]
    assert isinstance(found.change_pct, Absent) and isinstance(found.interval_pct, Absent)
    assert (found.n, found.blocks, found.pairs_pct) == (0, 0, ())


def test_arms_that_never_shared_a_block_are_not_compared() -> None:
    found = of(session(0, 1, 1), session(1, 1, 1))
    assert found.verdict is Verdict.INVALID
    assert "no complete block" in found.reason


@given(st.lists(st.tuples(st.floats(50, 200), st.floats(50, 200)), min_size=3, max_size=9))
def test_swapping_the_arms_inverts_the_change(pairs: list[tuple[float, float]]) -> None:
    arm, against = session(0, *(a for a, _ in pairs)), session(0, *(b for _, b in pairs))
    there, back = of(arm, against), of(against, arm)
    assert present(there.change_pct) and present(back.change_pct)
    assert (1 + there.change_pct / 100) * (1 + back.change_pct / 100) == pytest.approx(1)
    assert present(there.interval_pct) and present(back.interval_pct)
    low, high = there.interval_pct.low, there.interval_pct.high
    assert 1 + back.interval_pct.high / 100 == pytest.approx(1 / (1 + low / 100), rel=1e-5)
    assert 1 + back.interval_pct.low / 100 == pytest.approx(1 / (1 + high / 100), rel=1e-5)
