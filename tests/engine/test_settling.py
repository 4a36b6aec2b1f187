"""Warm-up is over when the last passes cost the same and the temperature rests."""

from __future__ import annotations

import pytest

from ecocompute_cube.engine.settling import Pass, settled, settled_by
from ecocompute_cube.model.around import Warmup
from ecocompute_cube.model.base import Absent, MaybeFloat

RULE = Warmup(settled_pct=5.0, settled_c=2.0)
TICK_S = 0.1
CALM: list[MaybeFloat] = [40.0, 40.0, 41.0]


def long(mj: float, seconds: float = 4.0) -> Pass:
    """A pass of forty ticks: two of them are the five percent that are asked for."""
    return Pass(seconds, mj)


def over(*passes: Pass, temperatures: list[MaybeFloat] = CALM) -> bool:
    return settled(passes, temperatures, RULE, TICK_S)


def test_long_passes_are_judged_by_their_energy() -> None:
    assert settled_by([long(100), long(100)], RULE, TICK_S) == "energy"
    assert over(long(100), long(104))
    assert not over(long(100), long(106))
    assert not over(long(100, 8.0), long(110, 8.0)), "however equal their times are"
    assert over(long(100, 4.0), long(100, 9.0)), "however unequal their times are"


@pytest.mark.parametrize(
    ("passes", "tick_s"),
    [
        ([long(100, 3.9), long(100)], TICK_S),
        ([long(100), Pass(4.0, Absent(reason="no counter"))], TICK_S),
        ([long(100), long(100)], None),
        ([long(100), long(100)], 0.2),
    ],
    ids=["too short", "no energy", "no counter", "a slow counter"],
)
def test_where_the_counter_cannot_tell_the_time_does(
    passes: list[Pass], tick_s: float | None
) -> None:
    assert settled_by(passes, RULE, tick_s) == "time"


def test_short_passes_are_judged_by_their_time() -> None:
    assert over(Pass(1.0, 100.0), Pass(1.04, 200.0))
    assert not over(Pass(1.0, 100.0), Pass(1.06, 100.0))


def test_only_the_last_two_passes_are_compared() -> None:
    assert over(long(500), long(100), long(101))
    assert not over(long(100))


def test_a_board_that_still_warms_is_not_settled() -> None:
    assert not over(long(100), long(100), temperatures=[40.0, 42.0, 44.0])
    assert over(long(100), long(100), temperatures=[20.0, 42.0, 43.0, 44.0])


def test_a_board_without_temperature_is_judged_by_its_passes_alone() -> None:
    nothing: list[MaybeFloat] = [Absent(reason="not supported")] * 3
    assert over(long(100), long(100), temperatures=nothing)
