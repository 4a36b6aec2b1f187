from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ecocompute_cube.model.plan import Plan

Shapes = Mapping[str, tuple[int, ...]]
Checkpoint = Callable[..., Path]

TINY_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "vocab_size": 10,
    "tie_word_embeddings": True,
}
TINY_SHAPES: Shapes = {"model.embed_tokens.weight": (10, 4), "model.norm.weight": (4,)}


def safetensors_bytes(shapes: Shapes) -> bytes:
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(at)


def write_json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data), encoding="utf-8")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """Makes a small but whole checkpoint folder; keyword arguments go into its config."""

    def make(name: str = "tiny", shapes: Shapes = TINY_SHAPES, **config: object) -> Path:
        folder = tmp_path / "mine" / name
        folder.mkdir(parents=True)
        write_json(folder / "config.json", TINY_CONFIG | config)
        write_json(folder / "tokenizer.json", {})
        (folder / "model.safetensors").write_bytes(safetensors_bytes(shapes))
        return folder

    return make


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def plan_of() -> Callable[..., Plan]:
    def make(*models: str | os.PathLike[str]) -> Plan:
        return Plan(name="test", models=tuple(os.fspath(model) for model in models))

    return make


@pytest.fixture
def other_disk() -> Iterator[Path]:
    memory = Path("/dev/shm")  # noqa: S108 (a new folder in it)
    if not memory.is_dir() or memory.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("there is no second file system here")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)
