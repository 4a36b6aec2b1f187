"""The mechanism says what a step should take, and follows physics where that is known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.analysis.cards import CARDS, Card, card
from ecocompute_cube.analysis.curves import library
from ecocompute_cube.analysis.mechanism import Model, Step, model, models, step
from ecocompute_cube.analysis.shapes import shape, weight_bytes

SIZES = st.floats(0.05, 500)
ON = st.sampled_from(CARDS)


def said(on: Card, params_b: float, precision: str = "NF4", runtime: str = "eager") -> Step:
    by = model()
    return step(by, by.board(on), on, shape(params_b), precision, runtime)


@given(SIZES, ON, st.integers(1, 512), st.integers(1, 100_000))
def test_a_step_never_draws_more_than_the_limit_nor_less_than_waiting(
    params_b: float, on: Card, batch: int, context: int
) -> None:
    by = model()
    board = by.board(on)
    found = step(by, board, on, shape(params_b), "FP16", "eager", batch=batch, context=context)
    assert board.wait_w <= found.watts <= on.power_limit_w * (1 + 1e-9)
    energy_j = found.mj_per_token * batch / 1e3
    assert energy_j == pytest.approx(found.watts * found.step_s)
    assert found.tokens_per_s == pytest.approx(batch / found.step_s)


@given(SIZES, ON)
def test_a_step_is_not_faster_than_memory_gives_its_weights(params_b: float, on: Card) -> None:
    size = weight_bytes(shape(params_b), "NF4")
    assert said(on, params_b).step_s >= size / (on.bandwidth_gb_s * 1e9)


@given(SIZES, ON)
def test_a_captured_step_takes_no_more_energy_where_the_host_is_the_slower(
    params_b: float, on: Card
) -> None:
    eager, captured = said(on, params_b), said(on, params_b, runtime="graph")
    if eager.bound_by == "host" and captured.step_s < eager.step_s:
        assert captured.mj_per_token < eager.mj_per_token


def test_a_small_model_waits_for_the_host_and_a_large_one_does_not() -> None:
    assert said(card("h200"), 0.5).bound_by == "host"
    assert said(card("t4"), 14, "FP16").bound_by != "host"


@pytest.mark.parametrize("gpu", ["NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090"])
def test_it_is_near_what_was_measured(gpu: str) -> None:
    """Within twice its own error; on the boards it was fitted to."""
    for anchor in library().ratios[gpu, "NF4", "eager"].anchors:
        if "unverified" in anchor.remarks:
            continue
        nf4, fp16 = said(card(gpu), anchor.N), said(card(gpu), anchor.N, "FP16")
        off = math.log(nf4.mj_per_token / fp16.mj_per_token) - math.log1p(anchor.dE / 100)
        assert abs(off) < 2 * model().seen["NF4"].half


def test_figures_of_a_board_that_was_not_measured_follow_from_its_data_sheet() -> None:
    by = model()
    l4 = by.board(card("l4"))
    assert not l4.fitted and l4.wait_w == pytest.approx(by.wait_share * 72)
    assert by.board(card("h200")).fitted


def test_what_it_has_no_figures_for_it_does_not_speak_of() -> None:
    by: Model = model()
    assert models(by, "NF4", "graph")
    assert not models(by, "NF4", "static") and not models(by, "FP8-WO", "eager")


def test_its_error_is_larger_on_a_board_that_was_left_out() -> None:
    by = model()
    for precision, seen in by.seen.items():
        assert by.unseen[precision].half > seen.half
