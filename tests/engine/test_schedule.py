"""The order of work: complete blocks, drawn from the plan's seed and nothing else."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ecocompute_cube.engine.schedule import block_order, groups, least_window_s, start_delay
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.model.readings import Tick

from ..run.rig import plan

TWO_MODELS = ["random:smollm2-135m", "random:qwen2-0.5b"]


def orders(asked: Plan, count: int) -> list[tuple[str, ...]]:
    arms = groups(asked)[0]
    return [block_order(asked, arms, 0, 0, block).order for block in range(count)]


def short(order: tuple[str, ...]) -> str:
    return " ".join(arm.split("_")[2] for arm in order)


@given(st.integers(0, 2**64), st.integers(0, 9), st.integers(0, 9), st.integers(0, 10**6))
def test_every_block_holds_every_arm_once(seed: int, session: int, group: int, block: int) -> None:
    asked = plan(protocol={"seed": seed})
    arms = groups(asked)[0]
    drawn = block_order(asked, arms, session, group, block)
    assert sorted(drawn.order) == sorted(arms)
    assert drawn == block_order(asked, arms, session, group, block)
    assert drawn[:3] == (session, group, block)


def test_the_order_of_a_seed_stays_what_it_was() -> None:
    """A journal's order can be drawn again from its plan: other orders here would deny old runs."""
    assert [short(order) for order in orders(plan(protocol={"seed": 7}), 4)] == GOLDEN


GOLDEN = ["INT8 FP16 NF4", "INT8 NF4 FP16", "NF4 FP16 INT8", "INT8 FP16 NF4"]


def test_another_seed_session_or_group_gives_another_order() -> None:
    asked = plan()
    arms = groups(asked)[0]
    here = orders(asked, 20)
    assert here != orders(plan(protocol={"seed": 1}), 20)
    assert here != [block_order(asked, arms, 1, 0, block).order for block in range(20)]
    assert here != [block_order(asked, arms, 0, 1, block).order for block in range(20)]


def test_the_plans_name_does_not_move_the_order() -> None:
    assert orders(plan(), 20) == orders(plan(name="another"), 20)


def test_every_order_is_as_likely_as_any_other() -> None:
    seen = Counter(orders(plan(), 600))
    every = [seen[order] for order in itertools.permutations(groups(plan())[0])]
    assert sum(every) == 600
    assert stats.chisquare(every).pvalue > 0.01


def test_every_arm_stands_in_every_place_alike_often() -> None:
    drawn = orders(plan(), 600)
    table = [
        [Counter(order[place] for order in drawn)[arm] for arm in groups(plan())[0]]
        for place in range(3)
    ]
    assert stats.chi2_contingency(table).pvalue > 0.01


@pytest.mark.parametrize("arm", ["a", "b"])
def test_delays_are_spread_evenly_below_one_tick(arm: str) -> None:
    drawn = [start_delay(plan(), 0, 0, block, arm) for block in range(600)]
    assert all(0 <= delay < 1 for delay in drawn)
    assert stats.kstest(drawn, "uniform").pvalue > 0.01


def test_the_delay_does_not_follow_the_order() -> None:
    asked = plan()
    arms = groups(asked)[0]
    first = [arms.index(block_order(asked, arms, 0, 0, block).order[0]) for block in range(600)]
    delays = [start_delay(asked, 0, 0, block, arms[0]) for block in range(600)]
    assert stats.spearmanr(first, delays).pvalue > 0.01


# Lengths


def tick(ms: float) -> Tick:
    same = {"shortest_ms": ms, "longest_ms": ms, "call_median_ms": 1.0, "call_longest_ms": 1.0}
    return Tick.model_validate({"median_ms": ms, "ticks": 20, **same})


@pytest.mark.parametrize(
    ("window_s", "tick_ms", "least_s"),
    [(20.0, 100.0, 20.0), (20.0, 150.0, 30.0), (60.0, 100.0, 60.0), (10.0, 150.0, 10.0)],
)
def test_a_precise_window_is_twenty_seconds_and_two_hundred_ticks_unless_the_plan_says_less(
    window_s: float, tick_ms: float, least_s: float
) -> None:
    asked = plan(protocol={"mode": "precise", "window_s": window_s}).protocol
    assert least_window_s(asked, tick(tick_ms)) == pytest.approx(least_s)
    assert least_window_s(asked, Absent(reason="no counter")) == window_s


@pytest.mark.parametrize("protocol", [{}, {"mode": "precise", "iterations": 3}])
def test_where_generations_are_counted_there_is_no_least_length(
    protocol: dict[str, object],
) -> None:
    assert least_window_s(plan(protocol=protocol).protocol, tick(100.0)) is None


# Groups


def test_arms_that_are_compared_share_a_block() -> None:
    assert groups(plan()) == (tuple(arm.id for arm in plan().expanded()),)


def test_models_that_are_not_compared_have_blocks_of_their_own() -> None:
    asked = plan(models=TWO_MODELS)
    found = groups(asked)
    assert [{arm.split("_")[0] for arm in group} for group in found] == [
        {"random-smollm2-135m"},
        {"random-qwen2-0.5b"},
    ]


def test_a_contrast_across_models_joins_their_groups() -> None:
    across = {
        "arm": {"model": TWO_MODELS[0], "precision": "NF4"},
        "against": {"model": TWO_MODELS[1]},
    }
    asked = plan(models=TWO_MODELS, contrasts=[across])
    assert groups(asked) == (tuple(arm.id for arm in asked.expanded()),)


def test_an_arm_that_nothing_is_compared_with_is_alone() -> None:
    asked = plan(models=TWO_MODELS, arms=["NF4", "INT8"])
    assert groups(asked) == tuple((arm.id,) for arm in asked.expanded())


@given(st.data())
def test_groups_are_the_connected_parts_of_the_contrasts(data: st.DataObject) -> None:
    arms = data.draw(st.lists(st.sampled_from(["FP16", "NF4", "INT8"]), min_size=2, unique=True))
    models = data.draw(st.sampled_from([TWO_MODELS, TWO_MODELS[:1]]))
    one, other = data.draw(st.permutations(arms))[:2]
    asked = plan(
        models=models,
        arms=arms,
        workloads=[{}],
        contrasts=[{"arm": {"precision": one}, "against": {"precision": other}}],
    )
    found = groups(asked)
    assert sorted(arm for group in found for arm in group) == sorted(a.id for a in asked.expanded())
    home = {arm: number for number, group in enumerate(found) for arm in group}
    for contrast in asked.expanded_contrasts():
        assert home[contrast.arm] == home[contrast.against]
    for group in found:
        linked = {group[0]}
        for _ in group:
            linked |= {
                s
                for c in asked.expanded_contrasts()
                for s in (c.arm, c.against)
                if {c.arm, c.against} & linked
            }
        assert linked == set(group)
