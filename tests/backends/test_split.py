"""Which board holds which layers; what it takes two boards to show is in tests/gpu."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.big_modeling import check_device_map
from transformers import AutoConfig, AutoModelForCausalLM

from ecocompute_cube.backends.decoders import check_runtime
from ecocompute_cube.backends.precision import check_certificate
from ecocompute_cube.backends.split import places, split_over
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.plan import Arm, Precision, Runtime, Workload

from .conftest import Load


def model_of(kind: str, **changes: object) -> Any:  # noqa: ANN401 (any model of transformers)
    """A model of 6 layers, without weights."""
    shape = {"hidden_size": 32, "num_attention_heads": 4, "vocab_size": 64} | changes
    layers = {"num_hidden_layers": 6}
    config = AutoConfig.for_model(kind, **shape, **layers)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


KINDS: dict[str, dict[str, object]] = {
    "llama": {"intermediate_size": 64, "tie_word_embeddings": False},
    "qwen2": {"intermediate_size": 64, "tie_word_embeddings": True},
    "gpt2": {"tie_word_embeddings": True},
    "mixtral": {"intermediate_size": 64, "num_local_experts": 6},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("boards", [2, 3, 6])
def test_layers_are_dealt_evenly_in_their_order_and_every_tensor_has_a_place(
    kind: str, boards: int
) -> None:
    model = model_of(kind, **KINDS[kind])
    found = places(model, boards)
    check_device_map(model, found)
    layers = [place for name, place in found.items() if name.rpartition(".")[2].isdigit()]
    assert layers == sorted(layers)
    assert [layers.count(board) for board in range(boards)] == [6 // boards] * boards


def test_the_embedding_is_on_the_first_board_and_the_head_on_the_last_or_with_it() -> None:
    apart = places(model_of("llama", **KINDS["llama"]), 2)
    assert (apart["model.embed_tokens"], apart["lm_head"], apart["model.norm"]) == (0, 1, 1)
    tied = places(model_of("qwen2", **KINDS["qwen2"]), 2)
    assert (tied["model.embed_tokens"], tied["lm_head"], tied["model.norm"]) == (0, 0, 1)


def test_more_boards_than_layers_are_refused() -> None:
    with pytest.raises(ArmFailed, match=r"6 layers .* too few for 7 boards") as refused:
        places(model_of("llama", **KINDS["llama"]), 7)
    assert refused.value.reason == "board_unused"


def test_the_map_of_a_checkpoint_is_made_from_its_config_alone(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((tiny / "config.json").read_bytes())
    assert set(split_over(tmp_path, 2).values()) == {0, 1}


# Proof, and what cannot be


def test_weights_must_lie_on_every_board_and_nowhere_else(tiny: Path, load: Load) -> None:
    certificate = load(tiny).certificate()
    both = certificate.model_copy(update={"devices": ("cuda:0", "cuda:1")})
    check_certificate(Precision.FP16, "cuda:0,cuda:1", both)
    for devices, code in {
        ("cpu", "cuda:0", "cuda:1"): "offload_detected",
        ("cuda:0", "meta"): "offload_detected",
        ("cuda:0", "cuda:2"): "offload_detected",
        ("cuda:1",): "board_unused",
    }.items():
        with pytest.raises(ArmFailed) as refused:
            check_certificate(
                Precision.FP16,
                "cuda:0,cuda:1",
                certificate.model_copy(update={"devices": devices}),
            )
        assert refused.value.reason == code


@pytest.mark.parametrize("runtime", [Runtime.GRAPH, Runtime.COMPILED])
def test_what_runs_on_two_boards_is_not_captured_and_the_loop_is_named(runtime: Runtime) -> None:
    arm = Arm(model="embedded", workload=Workload(), precision=Precision.NF4, runtime=runtime)
    with pytest.raises(ArmFailed, match="split over 2") as refused:
        check_runtime(arm, "cuda:0,cuda:1")
    assert refused.value.reason == "not_capturable"
    assert "NF4/loop" in refused.value.fix


@pytest.mark.parametrize("runtime", [Runtime.EAGER, Runtime.STATIC, Runtime.LOOP])
def test_other_runtimes_may_be_split(runtime: Runtime) -> None:
    arm = Arm(model="embedded", workload=Workload(), precision=Precision.NF4, runtime=runtime)
    check_runtime(arm, "cuda:0,cuda:1")
