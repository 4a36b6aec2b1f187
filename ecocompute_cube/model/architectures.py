"""Architectures whose weights can be drawn from a seed: shapes as their makers publish them.

Each entry holds the keyword arguments of the ``transformers`` configuration class of its
``model_type``. Numbers are those of the public ``config.json`` of the named checkpoint. So are the
ids of the first and the end token: ``generate()`` does more for each token of a model that has an
end token, and decoding that waits for the host would not be that of the real model without it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

from ecocompute_cube.errors import PlanError


class Architecture(NamedTuple):
    """One decoder-only architecture: where its shape comes from, and the shape."""

    like: str  #: the public checkpoint whose shape this is
    model_type: str
    parameters: int  #: counted once, tied embeddings once
    shape: MappingProxyType[str, int | float | bool]


def _qwen2(like: str, parameters: int, **shape: int | float | bool) -> Architecture:
    common = {
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0,
        "max_position_embeddings": 32_768,
        "bos_token_id": 151_643,  # <|endoftext|>, as in all base models of Qwen2 and Qwen2.5
        "eos_token_id": 151_643,
    }
    return Architecture(like, "qwen2", parameters, MappingProxyType({**common, **shape}))


def _llama(like: str, parameters: int, **shape: int | float | bool) -> Architecture:
    common = {
        "rms_norm_eps": 1e-5,
        "bos_token_id": 1,
        "eos_token_id": 2,  # </s> of TinyLlama, <|im_end|> of SmolLM2 Instruct
    }
    return Architecture(like, "llama", parameters, MappingProxyType({**common, **shape}))


ARCHITECTURES: Final = MappingProxyType(
    {
        "smollm2-135m": _llama(
            "HuggingFaceTB/SmolLM2-135M-Instruct",
            134_515_008,
            hidden_size=576,
            intermediate_size=1536,
            num_hidden_layers=30,
            num_attention_heads=9,
            num_key_value_heads=3,
            vocab_size=49_152,
            max_position_embeddings=8192,
            rope_theta=100_000.0,
            tie_word_embeddings=True,
        ),
        "qwen2-0.5b": _qwen2(
            "Qwen/Qwen2-0.5B",
            494_032_768,
            hidden_size=896,
            intermediate_size=4864,
            num_hidden_layers=24,
            num_attention_heads=14,
            num_key_value_heads=2,
            vocab_size=151_936,
            tie_word_embeddings=True,
        ),
        "tinyllama-1.1b": _llama(
            "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
            1_100_048_384,
            hidden_size=2048,
            intermediate_size=5632,
            num_hidden_layers=22,
            num_attention_heads=32,
            num_key_value_heads=4,
            vocab_size=32_000,
            max_position_embeddings=2048,
            rope_theta=10_000.0,
            tie_word_embeddings=False,
        ),
        "qwen2-1.5b": _qwen2(
            "Qwen/Qwen2-1.5B",
            1_543_714_304,
            hidden_size=1536,
            intermediate_size=8960,
            num_hidden_layers=28,
            num_attention_heads=12,
            num_key_value_heads=2,
            vocab_size=151_936,
            tie_word_embeddings=True,
        ),
        "qwen2.5-3b": _qwen2(
            "Qwen/Qwen2.5-3B",
            3_085_938_688,
            hidden_size=2048,
            intermediate_size=11_008,
            num_hidden_layers=36,
            num_attention_heads=16,
            num_key_value_heads=2,
            vocab_size=151_936,
            tie_word_embeddings=True,
        ),
        "qwen2-7b": _qwen2(
            "Qwen/Qwen2-7B",
            7_615_616_512,
            hidden_size=3584,
            intermediate_size=18_944,
            num_hidden_layers=28,
            num_attention_heads=28,
            num_key_value_heads=4,
            vocab_size=152_064,
            tie_word_embeddings=False,
        ),
        "qwen2.5-14b": _qwen2(
            "Qwen/Qwen2.5-14B",
            14_770_033_664,
            hidden_size=5120,
            intermediate_size=13_824,
            num_hidden_layers=48,
            num_attention_heads=40,
            num_key_value_heads=8,
            vocab_size=152_064,
            tie_word_embeddings=False,
        ),
    }
)


def architecture(name: str) -> Architecture:
    """The named architecture.

    Raises PlanError, listing the known names, for an unknown one.
    """
    if name not in ARCHITECTURES:
        raise PlanError(
            f"Unknown architecture '{name}'.",
            f"Use one of: {', '.join(sorted(ARCHITECTURES))}.",
        )
    return ARCHITECTURES[name]
