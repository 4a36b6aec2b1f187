"""What other tools got wrong about tokens and weights, on a real, tiny model; rows by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from ecocompute_cube.backends.census import certificate_of
from ecocompute_cube.backends.precision import check_certificate
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.plan import Precision, Runtime

from ..cli.tiny import END
from .conftest import Load

TEXT = "The energy of a computation is not the energy of its answer. " * 20
RUNTIMES = [Runtime.EAGER, Runtime.STATIC, Runtime.LOOP]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_tk_eos_a_row_of_seven_tokens_an_end_and_padding_counts_seven(
    tiny: Path, load: Load, runtime: Runtime
) -> None:
    """TK-EOS: from the ids, never from the budget."""
    session = load(tiny, runtime=runtime, prompt=3, output=64)
    ids = torch.tensor([[1, 2, 3, *range(10, 16), END, *[0] * 57]])
    (row,) = session.ledger([ids]).rows
    assert (row.prompt_tokens, row.output_tokens, row.stop) == (3, 7, "eos")


def test_tk_assume_n_tokens_are_one_pass_of_the_prompt_and_n_less_one_steps(
    tiny: Path, load: Load
) -> None:
    """TK-ASSUME."""
    from transformers import AutoModelForCausalLM

    from ecocompute_cube.backends.decoders import Steps

    model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32).eval()
    passes: list[int] = []
    model.register_forward_pre_hook(
        lambda _, __, words: passes.append(words["input_ids"].shape[1]), with_kwargs=True
    )
    steps = Steps(model, [END])
    prompt = torch.tensor([[5, 6, 7, 8]])
    steps.prepare(prompt, 9)
    steps.generate(prompt, 9)
    assert passes == [4, *[1] * 8]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_tk_pad_tk_batch_rows_prompt_and_output_are_counted_apart_and_none_is_padding(
    tiny: Path, load: Load, runtime: Runtime
) -> None:
    """TK-PAD, TK-BATCH."""
    session = load(tiny, runtime=runtime, batch=4, prompt=5, output=6)
    session.prepare(TEXT, 2)
    outputs = [session.generate(iteration, 6) for iteration in range(2)]
    (row,) = session.ledger(outputs).rows
    assert (row.rows, row.prompt_tokens, row.padding_tokens, row.output_tokens) == (8, 5, 0, 6)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_tk_nopad_the_first_row_of_many_says_what_it_says_alone(
    tiny: Path, load: Load, runtime: Runtime
) -> None:
    """TK-NOPAD: rows have one length, so that nothing is padded and no token is added."""
    alone, many = (load(tiny, runtime=runtime, batch=batch) for batch in (1, 3))
    alone.prepare(TEXT, 1)
    many.prepare(TEXT, 1)
    one, three = alone.generate(0, 12), many.generate(0, 12)
    assert isinstance(one, torch.Tensor) and isinstance(three, torch.Tensor)
    assert three[0].tolist() == one[0].tolist()


def test_pr_offload_weights_that_are_elsewhere_are_found_and_refused() -> None:
    """PR-OFFLOAD: on another device, or on none yet."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8, device="meta")).half()
    certificate = certificate_of(model, Precision.FP16, Absent(reason="none"), "torch", {})
    assert certificate.devices == ("cpu", "meta")
    with pytest.raises(ArmFailed) as refused:
        check_certificate(Precision.FP16, "cpu", certificate)
    assert refused.value.reason == "offload_detected"
