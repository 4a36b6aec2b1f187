from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import pytest

from ecocompute_cube.download import Origins, download
from ecocompute_cube.download.random_weights import RandomWeights
from ecocompute_cube.errors import ModelError
from ecocompute_cube.model.architectures import ARCHITECTURES, Architecture
from ecocompute_cube.model.manifest import Weights
from ecocompute_cube.model.plan import Plan

PlanOf = Callable[..., Plan]

SHAPE = MappingProxyType(
    {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 300,
        "max_position_embeddings": 128,
        "tie_word_embeddings": True,
        "bos_token_id": 298,
        "eos_token_id": 299,
    }
)
#: Embedding; per layer: q, k, v with biases, o, three of the MLP, two norms; the last norm.
PARAMETERS = 300 * 32 + 2 * (32 * 33 + 2 * 16 * 33 + 32 * 32 + 3 * 32 * 48 + 2 * 32) + 32
TINY = Architecture("test/tiny", "qwen2", PARAMETERS, SHAPE)
END = "eos_token_id"
ORIGINS = Origins(architectures={"qwen2-0.5b": TINY})


def test_random_weights_are_built_and_labelled(
    plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    (manifest,) = download(plan_of("random:qwen2-0.5b"), models, lines.append, ORIGINS)
    assert (manifest.weights, manifest.seed) == (Weights.RANDOM, 0)
    assert (manifest.name, manifest.tokenizer) == ("qwen2-0.5b (random weights)", False)
    assert (manifest.parameters, manifest.max_context) == (PARAMETERS, 128)
    assert "test/tiny" in manifest.origin


def test_two_builds_are_the_same_to_the_byte(
    plan_of: PlanOf, tmp_path: Path, lines: list[str]
) -> None:
    plan = plan_of("random:qwen2-0.5b")
    first = download(plan, tmp_path / "a", lines.append, ORIGINS)
    assert download(plan, tmp_path / "b", lines.append, ORIGINS) == first


def test_shards_hold_the_same_weights_as_one_file(tmp_path: Path, lines: list[str]) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    loaded = []
    for name, limit in (("one", 10**9), ("many", 10_000)):
        folder = tmp_path / name
        folder.mkdir()
        RandomWeights("tiny", TINY, shard_bytes=limit).build(folder, lines.append)
        loaded.append(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float16))
    assert len(list((tmp_path / "many").glob("model-*-of-*.safetensors"))) > 2
    one, many = (model.state_dict() for model in loaded)
    assert all(torch.equal(one[name], many[name]) for name in one)


def test_the_built_model_is_initialised_and_decodes(
    plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    download(plan_of("random:qwen2-0.5b"), models, lines.append, ORIGINS)
    model, told = AutoModelForCausalLM.from_pretrained(
        models / "random-qwen2-0.5b", dtype=torch.float16, output_loading_info=True
    )
    assert not any(told.values())
    assert model.lm_head.weight is model.model.embed_tokens.weight
    layer = model.model.layers[1]
    assert layer.mlp.gate_proj.weight.float().std().item() == pytest.approx(0.02, rel=0.1)
    assert layer.self_attn.q_proj.bias.abs().max() == 0
    assert torch.all(model.model.norm.weight == 1)
    prompt = torch.arange(4)[None]
    output = model.generate(prompt, min_new_tokens=60, max_new_tokens=60, do_sample=False)
    assert output.shape == (1, 64)


def test_the_end_token_is_that_of_the_model_in_both_files_and_there_is_no_tokenizer(
    plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    (manifest,) = download(plan_of("random:qwen2-0.5b"), models, lines.append, ORIGINS)
    folder = models / "random-qwen2-0.5b"
    for file in ("config.json", "generation_config.json"):
        told = json.loads((folder / file).read_text())
        assert (told["bos_token_id"], told["eos_token_id"]) == (298, 299)
    assert not manifest.tokenizer
    assert not list(folder.glob("*token*"))


def test_a_folder_with_another_end_token_is_built_again(
    plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    plan = plan_of("random:qwen2-0.5b")
    shape = {key: value for key, value in SHAPE.items() if key not in ("bos_token_id", END)}
    endless = Origins(architectures={"qwen2-0.5b": TINY._replace(shape=MappingProxyType(shape))})
    download(plan, models, lines.append, endless)
    config = models / "random-qwen2-0.5b" / "config.json"
    assert json.loads(config.read_text())[END] is None
    lines.clear()
    download(plan, models, lines.append, ORIGINS)
    assert "Building it again" in "".join(lines)
    assert json.loads(config.read_text())[END] == 299


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_listed_model_has_the_end_token_of_the_model_that_it_is_like(name: str) -> None:
    shape = ARCHITECTURES[name].shape
    ends = {"qwen2": (151_643, 151_643), "llama": (1, 2)}
    found = (shape["bos_token_id"], shape["eos_token_id"])
    assert found == ends[ARCHITECTURES[name].model_type]


def test_a_damaged_folder_is_built_again(plan_of: PlanOf, models: Path, lines: list[str]) -> None:
    plan = plan_of("random:qwen2-0.5b")
    first = download(plan, models, lines.append, ORIGINS)
    (models / "random-qwen2-0.5b" / "model.safetensors").write_bytes(b"x")
    lines.clear()
    assert download(plan, models, lines.append, ORIGINS) == first
    assert "is truncated" in lines[0]
    assert "Building it again" in lines[0]


def test_a_folder_of_another_shape_is_built_again(
    plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    plan = plan_of("random:qwen2-0.5b")
    download(plan, models, lines.append, ORIGINS)
    shape = MappingProxyType({**SHAPE, "vocab_size": 301})
    larger = Origins(
        architectures={"qwen2-0.5b": TINY._replace(parameters=PARAMETERS + 32, shape=shape)}
    )
    (manifest,) = download(plan, models, lines.append, larger)
    assert manifest.vocab_size == 301


def test_a_library_that_builds_another_count_is_noticed(
    plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    origins = Origins(architectures={"qwen2-0.5b": TINY._replace(parameters=5)})
    with pytest.raises(ModelError, match=f"with {PARAMETERS} parameters instead of 5"):
        download(plan_of("random:qwen2-0.5b"), models, lines.append, origins)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_listed_parameter_counts_are_what_transformers_builds(name: str) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    listed = ARCHITECTURES[name]
    config = AutoConfig.for_model(listed.model_type, **listed.shape)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert sum(value.numel() for value in model.parameters()) == listed.parameters
