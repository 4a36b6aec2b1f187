"""A whole checkpoint of two layers, written without torch: the same bytes for the same seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

END: Final = 256  #: the id of the end token; 0 to 255 are bytes
VOCABULARY: Final = 264
CONTEXT: Final = 256
HIDDEN: Final = 64  # the smallest that NF4's blocks of 64 divide
MIDDLE: Final = 128
LAYERS: Final = 2


def write_tiny(folder: Path, eos: int | list[int] | None = END, spread: float = 0.2) -> Path:
    """A Llama with a byte tokenizer; ``eos`` is what its config names, if anything.

    The weights are spread wider than usual, so that no two tokens are equally likely.
    """
    folder.mkdir(parents=True)
    _write_json(folder / "config.json", _config(eos))
    _write_tokenizer(folder)
    chance = np.random.default_rng(0)
    weights = {
        name: np.ones(shape, np.float16)
        if name.endswith("norm.weight")
        else chance.normal(0, spread, shape).astype(np.float16)
        for name, shape in _shapes().items()
    }
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def _config(eos: int | list[int] | None) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": MIDDLE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": eos,
        "pad_token_id": None,
    }


def _shapes() -> dict[str, tuple[int, ...]]:
    head = (VOCABULARY, HIDDEN)
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": head}
    for number in range(LAYERS):
        layer = {
            "self_attn.q_proj": (HIDDEN, HIDDEN),
            "self_attn.k_proj": (HIDDEN // 2, HIDDEN),
            "self_attn.v_proj": (HIDDEN // 2, HIDDEN),
            "self_attn.o_proj": (HIDDEN, HIDDEN),
            "mlp.gate_proj": (MIDDLE, HIDDEN),
            "mlp.up_proj": (MIDDLE, HIDDEN),
            "mlp.down_proj": (HIDDEN, MIDDLE),
            "input_layernorm": (HIDDEN,),
            "post_attention_layernorm": (HIDDEN,),
        }
        shapes |= {f"model.layers.{number}.{name}.weight": each for name, each in layer.items()}
    return {**shapes, "model.norm.weight": (HIDDEN,), "lm_head.weight": head}


def _write_tokenizer(folder: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: number for number, character in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>"},
    )


def _write_json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data), encoding="utf-8")
