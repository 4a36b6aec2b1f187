"""Predictions are rough, but they grow with what is asked and never promise nothing."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.engine.predict import Prediction, Size, predict
from ecocompute_cube.forecast import forecast
from ecocompute_cube.model.plan import Plan

from ..run.rig import plan

MODELS = ("random:smollm2-135m", "random:qwen2-7b")
SMALL = Size(134_515_008, 30, 576, 49_152)
LARGE = Size(7_615_616_512, 28, 3584, 152_064)
SIZES = {MODELS[0]: SMALL, MODELS[1]: LARGE}


def of(asked: Plan) -> Prediction:
    return predict(asked, SIZES)


def by_precision(figures: dict[str, int]) -> dict[str, int]:
    return {name.split("_")[2]: value for name, value in figures.items()}


@given(
    blocks=st.integers(1, 50),
    sessions=st.integers(1, 5),
    tokens=st.integers(2, 4096),
    cooldown=st.floats(0, 100),
)
def test_every_figure_is_finite_and_more_than_nothing(
    blocks: int, sessions: int, tokens: int, cooldown: float
) -> None:
    protocol = {"mode": "precise", "blocks": blocks, "sessions": sessions, "cooldown_s": cooldown}
    asked = plan(models=MODELS, workloads=[{"output_tokens": tokens}], protocol=protocol)
    found = of(asked)
    arms = {arm.id for arm in asked.expanded()}
    assert set(found.arm_s) == set(found.load_s) == set(found.memory_bytes) == arms
    figures = (*found.arm_s.values(), *found.load_s.values(), *found.memory_bytes.values())
    assert all(math.isfinite(figure) and figure > 0 for figure in figures)
    assert found.disk_bytes > 0
    assert found.total_s >= blocks * sessions * sum(found.arm_s.values())
    assert found.first_block_s <= found.total_s + 4 * len(arms)
    assert found.together_bytes == sum(found.memory_bytes.values())


@pytest.mark.parametrize(
    "more",
    [
        {"protocol": {"blocks": 6}},
        {"protocol": {"sessions": 2}},
        {"protocol": {"cooldown_s": 10}},
        {"models": MODELS},
    ],
)
def test_more_work_takes_longer(more: dict[str, object]) -> None:
    assert of(plan(**more)).total_s > of(plan()).total_s


def test_twice_the_blocks_is_twice_the_work_but_one_loading() -> None:
    one, two = of(plan(protocol={"blocks": 1})), of(plan(protocol={"blocks": 2}))
    assert two.total_s - one.total_s == pytest.approx(sum(one.arm_s.values()))


def test_quantized_weights_take_less_memory() -> None:
    memory = by_precision(of(plan(models=[MODELS[1]])).memory_bytes)
    assert memory["NF4"] < memory["INT8"] < memory["FP16"]
    assert memory["FP16"] > 2 * LARGE.parameters


def test_a_precise_window_is_as_long_as_asked() -> None:
    protocol = {"mode": "precise", "window_s": 100.0}
    assert all(100 < s < 140 for s in of(plan(protocol=protocol)).arm_s.values())


def test_groups_are_loaded_one_after_the_other() -> None:
    both, large = of(plan(models=MODELS)), of(plan(models=[MODELS[1]]))
    assert both.first_block_s == large.first_block_s


def test_an_adaptive_rule_takes_from_its_least_to_its_most_blocks() -> None:
    adaptive = of(plan(protocol={"stop": {"rule": "adaptive", "max_blocks": 20}}))
    least, most = of(plan(protocol={"blocks": 8})), of(plan(protocol={"blocks": 20}))
    assert (adaptive.least_s, adaptive.total_s) == (least.total_s, most.total_s)
    assert least.least_s == least.total_s


def test_each_board_of_several_has_a_context_of_its_own_and_the_forecast_names_them(
    tmp_path: Path,
) -> None:
    one, two = (plan(arms=["FP16"], boards=boards) for boards in (1, 2))
    (small,), (large,) = (of(asked).memory_bytes.values() for asked in (one, two))
    assert small < large < small + 1e9
    assert "over 2 boards" in forecast(two, tmp_path).text()
    assert "boards" not in forecast(one, tmp_path).text()


def test_a_forecast_says_that_pauses_to_cool_down_come_on_top(tmp_path: Path) -> None:
    assert "pauses" not in forecast(plan(), tmp_path).text()
    cooled = plan(protocol={"cooldown": {"within_c": 3.0, "max_s": 90.0}})
    assert "of 90 s a visit at most" in forecast(cooled, tmp_path).text()


def test_the_forecast_of_an_adaptive_plan_tells_its_rule_and_a_range(tmp_path: Path) -> None:
    adaptive = plan(protocol={"stop": {"rule": "adaptive", "max_blocks": 20}})
    found = forecast(adaptive, tmp_path)
    told = found.text()
    guess = found.prediction
    assert "8 to 20 blocks a session" in told
    assert f"about {guess.least_s / 60:.0f} to {guess.total_s / 60:.0f} minutes" in told
    assert "  block 8: " in told and "  block 9, if needed: " in told and "block 20" in told
