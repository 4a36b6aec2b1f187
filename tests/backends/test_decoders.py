"""Five ways to drive one step: the same ids, from the same arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, MistralConfig

from ecocompute_cube.backends.decoders import Steps, check_runtime
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.plan import Arm, Phase, Precision, Runtime, Workload

from .conftest import Load

TEXT = "The energy of a computation is not the energy of its answer. " * 20
ON_A_CPU = [Runtime.STATIC, Runtime.LOOP]


def ids(output: object) -> list[list[int]]:
    assert isinstance(output, torch.Tensor)
    found: list[list[int]] = output.tolist()
    return found


@pytest.mark.parametrize("runtime", ON_A_CPU)
@pytest.mark.parametrize(("batch", "prompt", "output"), [(1, 16, 12), (3, 5, 20), (2, 1, 2)])
def test_ids_are_those_of_generate(
    tiny: Path, load: Load, runtime: Runtime, batch: int, prompt: int, output: int
) -> None:
    shape = {"batch": batch, "prompt": prompt, "output": output}
    eager, other = load(tiny, **shape), load(tiny, runtime=runtime, **shape)
    assert eager.prepare(TEXT, 2) == other.prepare(TEXT, 2)
    for iteration in range(2):
        asked = eager.generate(iteration, output)
        assert ids(other.generate(iteration, output)) == ids(asked)
    assert len(ids(asked)[0]) == prompt + output


@pytest.mark.parametrize("runtime", ON_A_CPU)
def test_a_generation_leaves_nothing_behind_for_the_next(
    tiny: Path, load: Load, runtime: Runtime
) -> None:
    session = load(tiny, runtime=runtime)
    session.prepare(TEXT, 2)
    first = session.generate(0, 12)
    kept = ids(first)
    short = ids(session.generate(0, 4))
    session.generate(1, 12)
    assert ids(first) == kept, "what was handed out is not written over"
    assert ids(session.generate(0, 12)) == kept
    assert short == [row[: 16 + 4] for row in kept]


@pytest.mark.parametrize("precision", [Precision.NF4, Precision.INT8_T0, Precision.INT8])
def test_a_quantized_model_steps_through_the_loop(
    tiny: Path, load: Load, precision: Precision
) -> None:
    eager, loop = load(tiny, precision), load(tiny, precision, runtime=Runtime.LOOP)
    eager.prepare(TEXT, 1)
    loop.prepare(TEXT, 1)
    assert ids(loop.generate(0, 12)) == ids(eager.generate(0, 12))


@pytest.mark.parametrize("runtime", [Runtime.EAGER, *ON_A_CPU])
@pytest.mark.parametrize("batch", [1, 3])
def test_decoding_alone_goes_on_where_the_prompt_ended_as_often_as_is_asked(
    tiny: Path, load: Load, runtime: Runtime, batch: int
) -> None:
    whole = load(tiny, batch=batch, output=13)
    whole.prepare(TEXT, 1)
    said = ids(whole.generate(0, 13))
    alone = load(tiny, runtime=runtime, batch=batch, output=12, phase=Phase.DECODE)
    alone.prepare(TEXT, 1)
    for length in (12, 5, 12):
        output = alone.generate(0, length)
        assert [row[16:] for row in ids(output)] == [row[17 : 17 + length] for row in said]
    (row,) = alone.ledger([alone.generate(0, 12)]).rows
    assert (row.rows, row.prompt_tokens, row.output_tokens) == (batch, 16, 12)


@pytest.mark.parametrize("runtime", [Runtime.EAGER, *ON_A_CPU])
@pytest.mark.parametrize("phase", [Phase.GENERATE, Phase.DECODE])
def test_a_renewed_session_gives_the_ids_of_a_fresh_one(
    tiny: Path, load: Load, runtime: Runtime, phase: Phase
) -> None:
    session = load(tiny, runtime=runtime, output=12, phase=phase)
    session.prepare(TEXT, 1)
    fresh = ids(session.generate(0, 12))
    session.renew()
    assert ids(session.generate(0, 12)) == fresh


def test_renewing_captures_the_step_anew() -> None:
    config = MistralConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=50,
        sliding_window=None,
    )
    steps = Counted(AutoModelForCausalLM.from_config(config).eval(), (), captured=True)
    prompt = torch.tensor([[1, 2, 3, 4]])
    steps.prepare(prompt, 5)
    first = steps.generate(prompt, 5).tolist()
    steps.renew(prompt)
    assert steps.captures == 2 and steps.generate(prompt, 5).tolist() == first


@pytest.mark.parametrize("runtime", [Runtime.EAGER, *ON_A_CPU])
def test_a_prefill_ends_with_the_first_token(tiny: Path, load: Load, runtime: Runtime) -> None:
    session = load(tiny, runtime=runtime, phase=Phase.PREFILL)
    session.prepare(TEXT, 1)
    (row,) = session.ledger([session.generate(0, 1)]).rows
    assert (row.prompt_tokens, row.output_tokens, row.stop) == (16, 1, "length")


def test_the_end_token_is_masked_to_the_last(tiny: Path, load: Load) -> None:
    loop = load(tiny, runtime=Runtime.LOOP, output=40)
    loop.prepare(TEXT, 1)
    (ledger,) = loop.ledger([loop.generate(0, 40)]).rows
    assert (ledger.output_tokens, ledger.stop) == (40, "length")


def test_the_certificate_says_how_ids_are_decoded(tiny: Path, load: Load) -> None:
    told = {runtime: load(tiny, runtime=runtime).certificate().decoder for runtime in ON_A_CPU}
    assert told == {
        Runtime.STATIC: {
            "decoding": "generate()",
            "cache": "static",
            "compile": "no: not on a GPU",
        },
        Runtime.LOOP: {"decoding": "a step a token", "cache": "static"},
    }


def arm(precision: Precision, runtime: Runtime) -> Arm:
    return Arm(model="local:tiny", workload=Workload(), precision=precision, runtime=runtime)


@pytest.mark.parametrize("runtime", [Runtime.GRAPH, Runtime.COMPILED])
def test_outliers_that_are_looked_for_on_the_host_cannot_be_captured(runtime: Runtime) -> None:
    with pytest.raises(ArmFailed, match="INT8 looks for outliers") as refused:
        check_runtime(arm(Precision.INT8, runtime), "cuda:0")
    assert refused.value.reason == "not_capturable"
    assert f"INT8-T0/{runtime}" in refused.value.fix
    check_runtime(arm(Precision.INT8_T0, runtime), "cuda:0")
    check_runtime(arm(Precision.INT8, Runtime.STATIC), "cuda:0")


@pytest.mark.parametrize("runtime", [Runtime.GRAPH, Runtime.COMPILED])
def test_without_a_gpu_there_are_no_graphs_and_none_is_pretended(
    tiny: Path, load: Load, runtime: Runtime
) -> None:
    with pytest.raises(ArmFailed, match="CUDA graph") as refused:
        load(tiny, runtime=runtime)
    assert refused.value.reason == "not_capturable"
    assert "FP16/loop" in refused.value.fix


class Counted(Steps):
    """As if captured, on a CPU: what may not be is refused before anything is."""

    captures = 0

    def _capture(self, prompt: torch.Tensor) -> Callable[[], object]:
        self.captures += 1
        return self._launch


@pytest.mark.parametrize(("room", "refused"), [(16, False), (17, True)])
def test_attention_that_slides_within_a_generation_is_not_captured(
    room: int, refused: bool
) -> None:
    config = MistralConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=50,
        sliding_window=16,
    )
    steps = Counted(AutoModelForCausalLM.from_config(config).eval(), (), captured=True)
    prompt = torch.tensor([[1, 2, 3, 4]])
    if not refused:
        steps.prepare(prompt, room - 5)
        assert steps.generate(prompt, room - 5).shape == (1, room - 1)
        return
    with pytest.raises(ArmFailed, match="slides over 16 tokens"):
        steps.prepare(prompt, room - 5)


def test_outliers_in_a_checkpoint_as_it_was_shipped_are_found_in_the_loaded_layers(
    tiny: Path, load: Load
) -> None:
    model = load(tiny, Precision.INT8)._model
    with pytest.raises(ArmFailed, match="threshold 6") as caught:
        Counted(model, (), captured=True).prepare(torch.tensor([[1, 2]]), 4)
    assert caught.value.reason == "not_capturable"
