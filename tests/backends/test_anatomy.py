"""What a decode step has to read and to multiply, counted from real modules."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen3NextConfig,
)

from ecocompute_cube.backends.anatomy import step_cost
from ecocompute_cube.backends.kernels import kernels
from ecocompute_cube.backends.profiler import covered, profiled
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.cost import Work

from .test_census import GPT2, LAYER, MIXTRAL, QWEN3, VOCABULARY, WIDE, WIDTH

TIED = LlamaConfig(**LAYER, tie_word_embeddings=True)
UNTIED = LlamaConfig(**LAYER, tie_word_embeddings=False)
GROUPED = LlamaConfig(**{**LAYER, "num_key_value_heads": 2, "num_hidden_layers": 3})
LINEAR = 4 * WIDTH * WIDTH + 3 * WIDTH * WIDE
HEAD = VOCABULARY * WIDTH
CONTEXT = 32
SLIDING = MistralConfig(**LAYER, sliding_window=CONTEXT)
SOME_SLIDE = Gemma3TextConfig(
    **{**LAYER, "num_hidden_layers": 6}, head_dim=16, sliding_window=CONTEXT
)
HYBRID = Qwen3NextConfig(**{**LAYER, "num_hidden_layers": 4}, num_experts=0)


def model(config: PretrainedConfig) -> PreTrainedModel:
    made: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.float16)
    return made


def held(of: PreTrainedModel) -> int:
    tensors = [*of.parameters(), *of.buffers()]
    return sum(each.numel() * each.element_size() for each in tensors)


def test_every_weight_is_multiplied_once_and_the_head_is_one_of_them() -> None:
    for config in (TIED, UNTIED):
        found = step_cost(model(config), CONTEXT).weights
        assert present(found)
        assert found.flop == 2 * (LINEAR + HEAD)


def test_a_table_that_is_no_head_is_looked_up_and_not_read() -> None:
    tied, untied = model(TIED), model(UNTIED)
    for of, table in ((tied, 0), (untied, 2 * HEAD)):
        found = step_cost(of, CONTEXT).weights
        assert present(found)
        assert found.bytes == held(of) - table


def test_keys_and_values_of_grouped_heads() -> None:
    found = step_cost(model(GROUPED), CONTEXT)
    size = WIDTH // 4
    assert found.layers == 3
    assert found.position == Work(bytes=2 * 3 * 2 * size * 2, flop=2 * 2 * 3 * 4 * size)


@pytest.mark.parametrize("config", [SLIDING, SOME_SLIDE])
def test_attention_that_slides_is_whole_as_long_as_its_window_holds_the_row(
    config: PretrainedConfig,
) -> None:
    made = model(config)
    assert present(step_cost(made, CONTEXT).position)
    longer = step_cost(made, CONTEXT + 1)
    assert isinstance(longer.position, Absent) and present(longer.weights)


def test_layers_that_keep_no_keys_are_not_counted_as_if_they_did() -> None:
    assert isinstance(step_cost(model(HYBRID), CONTEXT).position, Absent)


def test_a_model_with_names_of_its_own() -> None:
    found = step_cost(model(GPT2), CONTEXT)
    assert found.layers == 1
    assert present(found.weights) and present(found.position)


@pytest.mark.parametrize("config", [MIXTRAL, QWEN3])
def test_of_experts_a_token_meets_some(config: PretrainedConfig) -> None:
    found = step_cost(model(config), CONTEXT)
    assert isinstance(found.weights, Absent)
    assert "experts" in found.weights.reason


def test_a_cpu_has_no_kernels_to_calibrate_with_and_none_to_profile() -> None:
    assert isinstance(kernels("cpu"), Absent)
    launches, busy = profiled(lambda: None, torch.device("cpu"))
    assert isinstance(launches, Absent) and isinstance(busy, Absent)


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


@given(SPANS)
def test_time_with_a_kernel_is_counted_once(drawn: list[tuple[int, int]]) -> None:
    spans = [(start, start + length) for start, length in drawn]
    moments = {at for start, end in spans for at in range(start, end)}
    assert covered(spans) == len(moments)
