"""Parts of a token's energy, and what a token needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.analysis.cost import BoardCost
from ecocompute_cube.analysis.rates import MemoryUse
from ecocompute_cube.analysis.why import (
    Needs,
    bound_by,
    captured,
    needs,
    of_a_pass,
    split,
    waits,
)
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.cost import StepCost, Work
from ecocompute_cube.model.plan import Phase, Runtime, Workload

STEP = StepCost(layers=2, weights=Work(bytes=1000, flop=2000), position=Work(bytes=8, flop=16))
POSITIVE = st.floats(1e-6, 1e6)
SHARE = st.floats(0, 1)


@given(st.tuples(*[POSITIVE] * 7), SHARE)
def test_parts_add_up_to_the_energy_whatever_they_are(
    drawn: tuple[float, ...], waiting: float
) -> None:
    energy, took, idle, size, flop, byte_j, flop_j = drawn
    cost = BoardCost(byte_j, flop_j, 1.0, 1.0, Absent(reason="-"))
    parts = split(energy, took, idle, waiting, Needs(size, flop), cost)
    known = sum(parts) - parts.unattributed
    assert sum(parts) == pytest.approx(energy, abs=1e-9 * known)
    assert parts.idle_waiting + parts.idle_busy == pytest.approx(idle * took)


@given(POSITIVE, POSITIVE, POSITIVE)
def test_waiting_is_a_share_or_is_not_known(step: float, captured: float, busy: float) -> None:
    found = waits(step, captured, busy)
    if found is None:
        assert captured > step and busy > step
    else:
        assert 0 <= found.share <= 1
        assert found.by == ("captured step" if captured <= step else "profiler")


def test_neither_a_capture_nor_a_profile_tells_nothing() -> None:
    assert waits(1.0, None, None) is None


@given(POSITIVE, POSITIVE, st.integers(1, 100), st.integers(1, 100))
def test_a_prompts_pass_is_one_of_all_whatever_their_number(
    prompt: float, step: float, tokens: int, passes: int
) -> None:
    found = of_a_pass(prompt + (tokens - 1) * step, prompt, tokens, passes)
    if tokens > 1:
        assert found == pytest.approx((prompt + (passes - 1) * step) / passes)
    assert of_a_pass(prompt, None, tokens, passes) == prompt / tokens


def test_a_prompt_is_captured_by_no_runtime() -> None:
    def of(**workload: object) -> bool:
        return captured(Workload.model_validate(workload, strict=False), Runtime.GRAPH)

    assert of(phase="decode", output_tokens=2) and of(output_tokens=256)
    assert not of(phase="prefill") and not of(output_tokens=2)
    assert not captured(Workload(), Runtime.STATIC)


def needed(runtime: Runtime = Runtime.EAGER, **workload: object) -> Needs:
    found = needs(STEP, Workload.model_validate(workload, strict=False), runtime)
    assert present(found)
    return found


def test_weights_are_read_once_for_all_rows_and_multiplied_for_each() -> None:
    one = needed(prompt_tokens=10, output_tokens=100, phase="decode")
    eight = needed(prompt_tokens=10, output_tokens=100, phase="decode", batch=8)
    cached = 8 * (10 + 50)
    assert one.bytes == 1000 + cached
    assert eight.bytes == 1000 / 8 + cached
    assert one.flop == eight.flop == 2000 + 16 * 60


def test_a_static_cache_is_read_to_its_end() -> None:
    growing = needed(prompt_tokens=10, output_tokens=100)
    static = needed(Runtime.GRAPH, prompt_tokens=10, output_tokens=100)
    assert static.bytes - growing.bytes == 8 * (50 + 1)


def test_a_whole_generation_multiplies_its_prompt_too_and_attends_within_it() -> None:
    seen = range(1, 201)  # positions that each input attends to: 101 of the prompt, 99 after it
    found = needed(prompt_tokens=101, output_tokens=100)
    assert found.flop == 2 * 2000 + 16 * sum(seen) / 100


def test_a_prompt_reads_the_weights_once_for_all_its_tokens() -> None:
    found = needed(prompt_tokens=100, output_tokens=2, phase=Phase.PREFILL)
    assert found.bytes == 10
    assert found.flop == 2000 + 16 * 50.5


@pytest.mark.parametrize("field", ["weights", "position"])
def test_what_the_shapes_do_not_tell_is_a_reason(field: str) -> None:
    step = STEP.model_copy(update={field: Absent(reason="experts")})
    assert needs(step, Workload(), Runtime.EAGER) == Absent(reason="experts")


def test_what_an_arm_is_bound_by() -> None:
    assert bound_by(0.86, 0.1, 0.1) == "host"
    assert bound_by(0.1, 0.7, 0.2) == "memory"
    assert bound_by(0.1, 0.6, 0.8) == "compute"
    assert bound_by(0.1, 0.1, 0.1) == "kernels"


def test_a_rate_is_impossible_beyond_a_fifth_more_than_a_copy() -> None:
    use = MemoryUse(step_bytes=100.0, copy_bytes_per_s=1000.0)
    assert not use.impossible(steps=119, took_s=10.0)
    assert use.impossible(steps=121, took_s=10.0)
