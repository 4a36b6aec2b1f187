"""The census sees every weight that is multiplied, whatever class of module holds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    MixtralConfig,
    PretrainedConfig,
    Qwen3MoeConfig,
)

from ecocompute_cube.backends.census import certificate_of
from ecocompute_cube.backends.precision import RECIPES, check_certificate
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.journal import Certificate
from ecocompute_cube.model.plan import Precision

from .conftest import Load

WIDTH, WIDE, VOCABULARY = 64, 128, 264
LAYER: dict[str, Any] = {
    "hidden_size": WIDTH,
    "intermediate_size": WIDE,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 256,
}
MIXTRAL = MixtralConfig(**LAYER, num_local_experts=4, num_experts_per_tok=2)
QWEN3 = Qwen3MoeConfig(
    **LAYER, moe_intermediate_size=WIDE, num_experts=4, num_experts_per_tok=2, head_dim=16
)
GPT2 = GPT2Config(n_embd=WIDTH, n_layer=1, n_head=4, vocab_size=VOCABULARY, n_positions=256)
ATTENTION = 4 * WIDTH * WIDTH
EXPERTS = 4 * 3 * WIDTH * WIDE
ROUTER = 4 * WIDTH


def saved(config: PretrainedConfig, folder: Path) -> Path:
    AutoModelForCausalLM.from_config(config, dtype=torch.float16).save_pretrained(folder)
    return folder


def certified(load: Load, config: PretrainedConfig, folder: Path, named: Precision) -> Certificate:
    return load(saved(config, folder / "model"), named).certificate()


def counted(model: torch.nn.Module) -> Certificate:
    return certificate_of(model, Precision.FP16, Absent(reason="not on a board"), "none", {})


@pytest.mark.parametrize("config", [MIXTRAL, QWEN3], ids=["mixtral", "qwen3"])
@pytest.mark.parametrize("precision", [Precision.NF4, Precision.INT8])
def test_experts_that_were_left_in_fp16_are_refused_under_another_name(
    load: Load, tmp_path: Path, config: PretrainedConfig, precision: Precision
) -> None:
    certificate = certified(load, config, tmp_path, precision)
    assert certificate.linear_weights == {precision: ATTENTION, "FP16": EXPERTS + ROUTER}
    assert certificate.settings
    with pytest.raises(ArmFailed) as caught:
        check_certificate(precision, "cpu", certificate)
    assert caught.value.reason == "precision_not_as_named"


@pytest.mark.parametrize("config", [MIXTRAL, QWEN3], ids=["mixtral", "qwen3"])
def test_experts_in_fp16_are_an_fp16_arm(
    load: Load, tmp_path: Path, config: PretrainedConfig
) -> None:
    certificate = certified(load, config, tmp_path, Precision.FP16)
    check_certificate(Precision.FP16, "cpu", certificate)
    assert certificate.linear_weights == {"FP16": ATTENTION + EXPERTS + ROUTER}


@pytest.mark.parametrize(
    "precision", [Precision.FP16, Precision.NF4, Precision.NF4_DQ, Precision.INT8_T0]
)
def test_the_layers_of_gpt2_count_although_they_are_no_linear_modules(
    load: Load, tmp_path: Path, precision: Precision
) -> None:
    certificate = certified(load, GPT2, tmp_path, precision)
    check_certificate(precision, "cpu", certificate)
    assert certificate.linear_weights == {RECIPES[precision].held: ATTENTION + 8 * WIDTH * WIDTH}


def test_a_library_that_quantizes_linear_modules_alone_makes_no_such_arm_of_gpt2(
    load: Load, tmp_path: Path
) -> None:
    certificate = certified(load, GPT2, tmp_path, Precision.INT8_WO)
    with pytest.raises(ArmFailed) as caught:
        check_certificate(Precision.INT8_WO, "cpu", certificate)
    assert caught.value.reason == "precision_not_as_named"


def test_weights_of_another_dtype_show_in_what_is_computed_in(tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_config(MIXTRAL, dtype=torch.float16)
    experts = model.model.layers[0].mlp.experts
    experts.down_proj = torch.nn.Parameter(experts.down_proj.float())
    certificate = counted(model)
    assert certificate.compute_dtype == "mixed: float16, float32"
    assert certificate.linear_weights["FP32"] == EXPERTS // 3


@pytest.mark.parametrize("tied", [True, False])
def test_the_head_and_the_embeddings_count_apart_tied_or_not(tied: bool) -> None:
    config = LlamaConfig(**LAYER, tie_word_embeddings=tied)
    certificate = counted(AutoModelForCausalLM.from_config(config, dtype=torch.float16))
    assert certificate.linear_weights == {"FP16": ATTENTION + 3 * WIDTH * WIDE}
    norms = 3 * WIDTH
    assert certificate.other_weights == {"FP16": VOCABULARY * WIDTH * (1 if tied else 2) + norms}


class Bare(torch.nn.Module):
    """A decoder of somebody's own, which names no head."""

    def __init__(self) -> None:
        super().__init__()
        self.config = LlamaConfig(**LAYER)
        self.embed = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.layer = torch.nn.Linear(WIDTH, WIDE, bias=False)
        self.out = torch.nn.Linear(WIDE, VOCABULARY, bias=False)
        self.half()


class Unnamed(Bare):
    def get_output_embeddings(self) -> None:
        return None


@pytest.mark.parametrize("kind", [Bare, Unnamed])
def test_a_model_that_names_no_head_has_the_layer_that_ends_in_the_vocabulary(
    kind: type[Bare],
) -> None:
    certificate = counted(kind())
    assert certificate.linear_weights == {"FP16": WIDTH * WIDE}
    assert certificate.share_as_named == 1.0
    assert certificate.other_weights == {"FP16": VOCABULARY * (WIDTH + WIDE)}


def test_a_model_without_such_weights_is_nothing_by_name() -> None:
    certificate = counted(torch.nn.Embedding(4, 4))
    assert (certificate.linear_weights, certificate.share_as_named) == ({}, 0.0)
