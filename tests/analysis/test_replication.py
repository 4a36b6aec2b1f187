"""Whether two measurements of one arm agree."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.analysis.pooling import Group, Kind, Session, published_groups
from ecocompute_cube.analysis.replication import (
    Scatter,
    agreeing,
    difference,
    scattered,
    session_scatter,
    side,
    together,
)
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.plan import Workload
from ecocompute_cube.model.published import published
from ecocompute_cube.model.replication import DifferenceInterval

log = st.floats(-1, 1)
sessions = st.lists(st.lists(log, min_size=1, max_size=4), min_size=1, max_size=4)


def group(*logs: list[float]) -> Group:
    return Group(
        kind=Kind("m", "NF4", "eager", "b1-p10-o256"),
        params_b=1.0,
        workload=Workload(),
        keys={},
        sessions=tuple(Session(f"r{n}", 0, None, tuple(each)) for n, each in enumerate(logs)),
        thresholds=frozenset({2.0}),
        confidence=0.95,
        lowered_by=frozenset(),
    )


@given(here=sessions, there=sessions)
def test_the_difference_turns_over_with_the_sides(
    here: list[list[float]], there: list[list[float]]
) -> None:
    one, other = (difference(*pair, 0.95) for pair in _both(here, there))
    assert (1 + one.difference_pct / 100) * (1 + other.difference_pct / 100) == pytest.approx(1)
    if not present(one.interval_pct):
        assert not present(other.interval_pct)
        return
    assert present(other.interval_pct)
    ends = (1 + one.interval_pct.low / 100) * (1 + other.interval_pct.high / 100)
    assert ends == pytest.approx(1)
    assert one.interval_pct.low <= one.difference_pct <= one.interval_pct.high


def _both(here: list[list[float]], there: list[list[float]]) -> list[tuple[Group, Group]]:
    return [(group(*here), group(*there)), (group(*there), group(*here))]


@given(both=sessions)
def test_the_same_measurement_is_never_different_from_itself(both: list[list[float]]) -> None:
    found = difference(group(*both), group(*both), 0.95)
    assert found.difference_pct == pytest.approx(0, abs=1e-9)
    assert agreeing(found.interval_pct, 2.0) != "different"


def test_sessions_are_the_spread_where_either_side_has_several() -> None:
    found = difference(group([0.0] * 5), group([0.0], [0.02], [0.04]), 0.95).interval_pct
    assert present(found) and (found.unit, found.degrees) == ("sessions", 2)


def test_single_sessions_leave_their_blocks() -> None:
    found = difference(group([0.0, 0.01]), group([0.0, 0.01, 0.02]), 0.95).interval_pct
    assert present(found) and (found.unit, found.degrees) == ("blocks", 3)


def test_single_blocks_leave_nothing_unless_more_is_known() -> None:
    here, there = group([0.0]), group([0.1])
    assert isinstance(difference(here, there, 0.95).interval_pct, Absent)
    found = difference(here, there, 0.95, Scatter(7 * 0.02**2, 7)).interval_pct
    assert present(found)
    half = 2.3646 * 0.02 * math.sqrt(2)  # Student's t at 7 degrees of freedom
    assert math.log(1 + found.high / 100) == pytest.approx(-0.1 + half, rel=1e-4)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (-1.0, 1.5, "same"),
        (-2.0, 2.0, "same"),
        (1.0, 9.0, "consistent"),
        (-30.0, 30.0, "consistent"),
        (2.1, 5.0, "different"),
        (-9.0, -2.1, "different"),
    ],
)
def test_where_the_interval_lies(low: float, high: float, word: str) -> None:
    interval = DifferenceInterval(low=low, high=high, confidence=0.95, degrees=3, unit="sessions")
    assert agreeing(interval, 2.0) == word


def test_without_an_interval_nothing_is_decided() -> None:
    assert agreeing(Absent(reason="no spread"), 2.0) == "undecided"


@pytest.mark.parametrize(("ours", "theirs"), [(3, 3), (1, 4), (5, 2)])
def test_the_interval_holds_the_truth_as_often_as_it_says(ours: int, theirs: int) -> None:
    draw = random.Random(11)
    held = 0
    for _ in range(2000):
        here = group(*([draw.gauss(0.3, 0.03)] for _ in range(ours)))
        there = group(*([draw.gauss(0.1, 0.03)] for _ in range(theirs)))
        found = difference(here, there, 0.95).interval_pct
        assert present(found)
        held += found.low <= 100 * math.expm1(0.2) <= found.high
    assert 0.935 <= held / 2000 <= 0.965


def test_a_side_says_what_it_rests_on() -> None:
    told = side(group([0.0, 0.2], [0.1]))
    assert (told.runs, told.sessions, told.blocks) == (("r0", "r1"), 2, 3)
    assert told.change_pct == pytest.approx(100 * math.expm1(0.1))


def test_scatter_of_published_sessions_is_of_their_precision_alone() -> None:
    found = published_groups(published())
    nf4, int8 = (session_scatter(found, each) for each in ("NF4", "INT8"))
    assert nf4.degrees == 5 + 2  # five sizes twice on RTX 5090, one size three times on RTX 4090
    assert 0 < math.sqrt(nf4.squares / nf4.degrees) < 0.03
    assert int8.degrees >= 5
    assert session_scatter(found, "FP8-WO") == Scatter(0.0, 0)


@given(st.lists(st.lists(log, min_size=1, max_size=5), max_size=4))
def test_scatter_adds_up(parts: list[list[float]]) -> None:
    whole = together(map(scattered, parts))
    assert whole.degrees == sum(len(part) - 1 for part in parts)
    assert whole.squares >= 0
