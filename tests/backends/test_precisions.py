"""Every row of the table: loaded for real where a CPU can, certified, refused if it is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig

from ecocompute_cube.backends.census import certificate_of
from ecocompute_cube.backends.precision import RECIPES, check_board, check_certificate
from ecocompute_cube.backends.probe import probe_error
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.plan import Precision, parse_arm

from .conftest import Load

#: With a width that groups and packings of every library take.
CONFIG = LlamaConfig(
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    vocab_size=300,
    max_position_embeddings=256,
    eos_token_id=2,
)
LINEAR = 2 * (4 * 128 * 128 + 3 * 128 * 256)
ON_A_CPU = [
    Precision.FP16,
    Precision.BF16,
    Precision.NF4,
    Precision.NF4_DQ,
    Precision.INT8,
    Precision.INT8_T0,
    Precision.FP8_WO,
    Precision.INT8_WO,
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("small")
    AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float16).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("precision", ON_A_CPU)
def test_a_precision_is_what_its_name_says(small: Path, load: Load, precision: Precision) -> None:
    session = load(small, precision)
    certificate = session.certificate()
    check_certificate(precision, "cpu", certificate)
    assert certificate.linear_weights == {RECIPES[precision].held: LINEAR}
    assert certificate.compute_dtype == RECIPES[precision].dtype
    assert present(certificate.probe_error)
    session.prepare("Energy is not power. " * 20, 1)
    assert session.ledger([session.generate(0, 4)]).rows[0].output_tokens == 4


@pytest.mark.parametrize("precision", ON_A_CPU)
@pytest.mark.parametrize("named", ON_A_CPU)
def test_no_precision_passes_under_the_name_of_another(
    small: Path, load: Load, precision: Precision, named: Precision
) -> None:
    if named is precision:
        return
    loaded = load(small, precision)._model
    seen_as = certificate_of(loaded, named, Absent(reason="not on a board"), "any", {})
    with pytest.raises(ArmFailed):
        check_certificate(named, "cpu", seen_as)


def test_scales_count_among_the_bytes_of_weights(small: Path, load: Load) -> None:
    """To the byte: what the linear weights take beside their elements."""
    bytes_of = {p: load(small, p).certificate().weight_bytes for p in ON_A_CPU}
    rest = bytes_of[Precision.FP16] - 2 * LINEAR
    matrices, rows, blocks = 14, 2 * (4 * 128 + 2 * 256 + 128), LINEAR // 64
    code = 16 * 4  # the 16 values that four bits stand for, in FP32, once a matrix
    assert bytes_of[Precision.NF4] - rest == LINEAR // 2 + 4 * blocks + matrices * code
    assert bytes_of[Precision.INT8] - rest == LINEAR + 4 * rows
    assert bytes_of[Precision.INT8_WO] - rest == LINEAR + 4 * rows
    nested = bytes_of[Precision.NF4_DQ] - rest - LINEAR // 2 - matrices * code
    assert blocks < nested < 4 * blocks


def test_pr_dtype_every_floating_parameter_has_the_precisions_dtype(
    small: Path, load: Load
) -> None:
    """PR-DTYPE, PR-NF4DTYPE."""
    for precision, other in ((Precision.FP16, "FP16"), (Precision.INT8_WO, "BF16")):
        certificate = load(small, precision).certificate()
        assert set(certificate.other_weights) == {other}


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.FP8_WO, Precision.FP8_DYN])
def test_pr_bf16emu_pr_fp8cc_a_board_that_would_emulate_it_is_refused_by_capability(
    precision: Precision,
) -> None:
    """PR-BF16EMU, PR-FP8CC: by number, never by a library's word."""
    with pytest.raises(ArmFailed, match=re.escape("7.5")) as refused:
        check_board(precision, (7, 5))
    assert refused.value.reason == "precision_not_native"
    check_board(precision, (9, 0))


def test_what_a_library_has_for_gpus_alone_is_refused_in_a_rehearsal_with_a_reason() -> None:
    gpu_alone = {precision for precision in Precision if not RECIPES[precision].on_cpu}
    assert gpu_alone == {Precision.FP8_DYN, Precision.INT4_WO}
    for precision in Precision:
        if precision not in gpu_alone:
            check_board(precision, None)
            continue
        with pytest.raises(ArmFailed, match="needs a GPU") as refused:
            check_board(precision, None)
        assert refused.value.reason == "precision_not_native"


def test_pr_fp8cc_ada_has_it_and_ampere_has_not() -> None:
    """PR-FP8CC."""
    check_board(Precision.FP8_DYN, (8, 9))
    with pytest.raises(ArmFailed):
        check_board(Precision.FP8_DYN, (8, 6))


class Wrong(nn.Linear):
    """A layer whose kernel is broken."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 1.2 * super().forward(input)


class Nothing(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return float("nan") * super().forward(input)


@pytest.mark.parametrize(("layer", "least"), [(Wrong, 0.19), (Nothing, 1.0)])
def test_pr_bnbcpu_a_kernel_that_multiplies_wrongly_is_found(
    layer: type[nn.Linear], least: float, small: Path, load: Load
) -> None:
    """PR-BNBCPU: a product by the loaded layer against the product by its own weights."""
    error = probe_error([layer(64, 32)])
    assert present(error) and error >= least
    certificate = load(small).certificate().model_copy(update={"probe_error": error})
    with pytest.raises(ArmFailed, match="its own weights") as refused:
        check_certificate(Precision.FP16, "cpu", certificate)
    assert refused.value.reason == "wrong_product"


def test_a_right_kernel_is_within_rounding_with_and_without_bias() -> None:
    for bias in (True, False):
        error = probe_error([nn.Linear(64, 32, bias=bias)])
        assert present(error) and error < 1e-5
    assert isinstance(probe_error([]), Absent)


def test_a_checkpoint_that_is_quantized_is_taken_as_it_was_shipped_and_as_nothing_else(
    small: Path, load: Load, tmp_path: Path
) -> None:
    from transformers import BitsAndBytesConfig

    quantized: Any = AutoModelForCausalLM.from_pretrained(
        small,
        dtype=torch.float16,
        quantization_config=BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float16
        ),
    )
    quantized.save_pretrained(tmp_path)
    certificate = load(tmp_path, Precision.AS_SHIPPED).certificate()
    check_certificate(Precision.AS_SHIPPED, "cpu", certificate)
    assert certificate.linear_weights == {"NF4": LINEAR}
    assert certificate.kernels.startswith("bitsandbytes ")
    for other in (Precision.FP16, Precision.NF4):
        with pytest.raises(ArmFailed, match="bitsandbytes") as refused:
            load(tmp_path, other)
        assert refused.value.reason == "already_quantized"


def test_a_checkpoint_that_is_not_quantized_is_not_as_shipped(small: Path, load: Load) -> None:
    with pytest.raises(ArmFailed) as refused:
        load(small, Precision.AS_SHIPPED)
    assert refused.value.reason == "not_quantized"


def test_every_precision_has_a_row_and_can_be_asked_for_in_small_letters() -> None:
    assert set(RECIPES) == set(Precision)
    for precision in Precision:
        assert parse_arm(f"{precision.lower()}/loop").precision is precision


def test_the_precision_that_the_page_shows_how_to_add_is_what_the_page_says(small: Path) -> None:
    """docs/arms.md, "Adding a precision"."""
    from transformers import BitsAndBytesConfig

    config = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="fp4", bnb_4bit_compute_dtype=torch.float16
    )
    model: Any = AutoModelForCausalLM.from_pretrained(
        small, dtype=torch.float16, quantization_config=config
    )
    found = certificate_of(model, Precision.NF4, Absent(reason="none"), "any", {})
    assert found.linear_weights == {"FP4": LINEAR}
    assert found.settings["quant_type"] == "fp4"
    assert present(found.probe_error) and found.probe_error < 0.02


def test_a_layer_whose_scales_only_its_library_knows_is_not_tried() -> None:
    layer = nn.Linear(16, 8)
    layer.weight = nn.Parameter(layer.weight.to(torch.float8_e4m3fn), requires_grad=False)
    assert isinstance(probe_error([layer]), Absent)


class NoMemory(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_product_that_there_is_no_memory_for_refuses_nobody() -> None:
    assert isinstance(probe_error([NoMemory(16, 8)]), Absent)
