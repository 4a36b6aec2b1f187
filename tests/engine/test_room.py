"""What an arm needs of several boards at least: never more than it takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ecocompute_cube.engine.room import cache_bytes
from ecocompute_cube.model.architectures import architecture
from ecocompute_cube.model.plan import Workload

ROWS = Workload(prompt_tokens=100, output_tokens=28, batch=4)
PLAIN = {"num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 64}


def cache(folder: Path, config: object) -> int:
    (folder / "config.json").write_text(json.dumps(config))
    return cache_bytes(folder, ROWS)


def test_heads_that_share_keys_and_values_keep_fewer(tmp_path: Path) -> None:
    every = cache(tmp_path, PLAIN)
    assert (
        every == 2 * 2 * 2 * 8 * 8 * 4 * 128
    )  # keys and values, bytes, layers, heads, width, rows
    assert cache(tmp_path, {**PLAIN, "num_key_value_heads": 2}) == every / 4
    assert cache(tmp_path, {**PLAIN, "head_dim": 32}) == 4 * every


def test_layers_that_keep_less_than_every_token_are_not_counted(tmp_path: Path) -> None:
    every = cache(tmp_path, PLAIN)
    kinds = ["full_attention", "sliding_attention"]
    assert cache(tmp_path, {**PLAIN, "layer_types": kinds}) == every / 2
    assert cache(tmp_path, {**PLAIN, "sliding_window": 64}) == 0
    assert cache(tmp_path, {**PLAIN, "sliding_window": 64, "use_sliding_window": False}) == every


@pytest.mark.parametrize("config", [{}, {**PLAIN, "num_attention_heads": 0}, {"n_layer": 2}])
def test_a_checkpoint_that_does_not_tell_is_given_the_benefit(
    tmp_path: Path, config: object
) -> None:
    assert cache(tmp_path, config) == 0


def test_of_a_model_that_is_known_the_cache_is_what_its_shape_says(tmp_path: Path) -> None:
    shape = dict(architecture("qwen2-7b").shape)
    heads, width = (
        shape["num_key_value_heads"],
        shape["hidden_size"] // shape["num_attention_heads"],
    )
    layers = shape["num_hidden_layers"]
    assert cache(tmp_path, shape) == 4 * layers * heads * width * 4 * 128
