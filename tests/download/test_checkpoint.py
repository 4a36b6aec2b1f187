from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ecocompute_cube.download.checkpoint import describe, read_header, weight_files
from ecocompute_cube.errors import ModelError

from .conftest import write_json

Checkpoint = Callable[..., Path]
EMBEDDING = {"model.embed_tokens.weight": (10, 4)}


def test_facts_come_from_config_and_headers(checkpoint: Checkpoint) -> None:
    facts = describe(checkpoint())
    assert (facts.architecture, facts.parameters, facts.layers) == ("llama", 44, 1)
    assert (facts.hidden_size, facts.vocab_size, facts.max_context) == (4, 10, 64)


@pytest.mark.parametrize(("tied", "parameters"), [(True, 40), (False, 80)])
def test_a_stored_output_head_counts_only_when_it_is_not_tied(
    checkpoint: Checkpoint, tied: bool, parameters: int
) -> None:
    folder = checkpoint(shapes=EMBEDDING | {"lm_head.weight": (10, 4)}, tie_word_embeddings=tied)
    assert describe(folder).parameters == parameters


def test_masks_and_rotary_tables_are_not_parameters(checkpoint: Checkpoint) -> None:
    buffers = {"h.0.attn.bias": (1, 1, 8, 8), "layers.0.rotary_emb.inv_freq": (2,)}
    biases = {"h.0.attn.c_attn.bias": (12,), "layers.0.self_attn.q_proj.bias": (4,)}
    assert describe(checkpoint(shapes=EMBEDDING | buffers | biases)).parameters == 40 + 16


def test_gpt2_names_its_shape_differently(checkpoint: Checkpoint) -> None:
    folder = checkpoint(n_layer=3, n_embd=4, n_positions=32)
    config = (folder / "config.json").read_text()
    for name in ("num_hidden_layers", "hidden_size", "max_position_embeddings"):
        config = config.replace(name, f"un{name}")
    (folder / "config.json").write_text(config)
    facts = describe(folder)
    assert (facts.layers, facts.hidden_size, facts.max_context) == (3, 4, 32)


def test_a_config_without_a_context_length_is_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(ModelError, match="does not say max_position_embeddings"):
        describe(checkpoint(max_position_embeddings=None))


def test_a_missing_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"holds no config\.json"):
        describe(tmp_path)


def test_the_single_file_is_taken_before_the_index(checkpoint: Checkpoint) -> None:
    folder = checkpoint()
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "gone"}}')
    assert weight_files(folder) == ("model.safetensors",)


def test_an_index_that_names_a_missing_shard_says_which(checkpoint: Checkpoint) -> None:
    folder = checkpoint()
    (folder / "model.safetensors").rename(folder / "model-1-of-2.safetensors")
    table = '{"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}'
    (folder / "model.safetensors.index.json").write_text(table)
    with pytest.raises(ModelError, match=r"names model-2-of-2\.safetensors, which is not there"):
        weight_files(folder)


def index_naming(folder: Path, shard: object) -> None:
    (folder / "model.safetensors").rename(folder / "decoy.safetensors")
    table = {"weight_map": {"a": "decoy.safetensors", "b": shard}}
    write_json(folder / "model.safetensors.index.json", table)


@pytest.mark.parametrize(
    "shard", ["../b.safetensors", "..", "sub/b.safetensors", "/b.safetensors", "./b.safetensors"]
)
def test_an_index_cannot_reach_outside_its_folder(checkpoint: Checkpoint, shard: str) -> None:
    folder = checkpoint()
    index_naming(folder, shard)
    with pytest.raises(ModelError, match=rf"names '{re.escape(shard)}'.*Take the checkpoint again"):
        weight_files(folder)


@pytest.mark.parametrize(
    "shard", ["pytorch_model.bin", "a.safetensors.pkl", "a.SAFETENSORS\x1b", "safetensors", "", 5]
)
def test_an_index_can_only_name_safetensors(checkpoint: Checkpoint, shard: object) -> None:
    folder = checkpoint()
    index_naming(folder, shard)
    with pytest.raises(ModelError, match=r"whose name does not end in \.safetensors") as caught:
        weight_files(folder)
    assert "convert it where you trust it" in caught.value.fix
    assert str(caught.value).isprintable()


def test_weights_without_parameters_are_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(ModelError, match=r"holds no parameters"):
        describe(checkpoint(shapes={}))


def test_a_safetensors_file_that_is_cut_short_is_told_in_bytes(checkpoint: Checkpoint) -> None:
    path = checkpoint() / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    with pytest.raises(ModelError, match=f"has {len(whole) - 5} of {len(whole)} bytes"):
        read_header(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (b"", "not a safetensors file"),
        (b"\xff" * 64, "not a safetensors file"),
        (b"\x02\0\0\0\0\0\0\0[]", "not a safetensors file"),
        (b"\x08\0\0\0\0\0\0\0" + b'{"a": 1}', "not a safetensors file"),
    ],
)
def test_what_is_not_safetensors_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=complaint):
        read_header(path)
