"""The eager runtime on a real, tiny model: exactly the tokens asked for, greedily, and no more."""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ecocompute_cube.backends.base import Ledger
from ecocompute_cube.backends.precision import check_certificate
from ecocompute_cube.backends.transformers import TransformersSession
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.plan import Arm, Phase, Precision, Runtime, Workload

from ..cli.tiny import CONTEXT, END, write_tiny
from .conftest import Load

TEXT = "The energy of a computation is not the energy of its answer. " * 20
OUTPUT = 12


def rows(output: object) -> list[list[int]]:
    assert isinstance(output, torch.Tensor)
    found: list[list[int]] = output.tolist()
    return found


def greedy(folder: Path, prompt: list[int], count: int, masked: tuple[int, ...] = ()) -> list[int]:
    """Plain greedy decoding without a cache, by nothing but forward passes."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float16).eval()
    ids = list(prompt)
    with torch.inference_mode():
        for _ in range(count):
            logits = model(torch.tensor([ids])).logits[0, -1].float()
            for token in masked:
                logits[token] = -math.inf
            ids.append(int(logits.argmax()))
    return ids[len(prompt) :]


def variant(tiny: Path, folder: Path, file: str, **changes: object) -> Path:
    """A copy of the checkpoint with other keys in one of its JSON files."""
    shutil.copytree(tiny, folder)
    path = folder / file
    data = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(data | changes))
    return folder


def test_ids_are_those_of_plain_greedy_decoding(tiny: Path, load: Load) -> None:
    session = load(tiny)
    session.prepare(TEXT, 1)
    (row,) = rows(session.generate(0, OUTPUT))
    assert row[16:] == greedy(tiny, row[:16], OUTPUT, (END,))


@pytest.mark.parametrize(
    ("phase", "runtime", "tokens", "apart"),
    [
        (Phase.GENERATE, Runtime.EAGER, 32, True),
        (Phase.GENERATE, Runtime.STATIC, 40, False),
        (Phase.DECODE, Runtime.LOOP, 32, False),
        (Phase.PREFILL, Runtime.EAGER, 1, False),
    ],
)
def test_a_profile_is_short_and_has_the_prompt_apart_where_that_weighs_otherwise(
    tiny: Path, load: Load, phase: Phase, runtime: Runtime, tokens: int, apart: bool
) -> None:
    session = load(tiny, output=40, phase=phase, runtime=runtime)
    session.prepare(TEXT, 1)
    seen = session.profile()
    assert seen.tokens == tokens
    assert seen.busy_s == Absent(reason="not on a board")
    assert (seen.prompt_busy_s == seen.busy_s) == apart


def test_the_first_row_of_two_is_the_row_of_one(tiny: Path, load: Load) -> None:
    one, two = load(tiny), load(tiny, batch=2)
    one.prepare(TEXT, 1)
    two.prepare(TEXT, 1)
    (alone,) = rows(one.generate(0, OUTPUT))
    first, second = rows(two.generate(0, OUTPUT))
    assert first == alone
    assert second[:16] != first[:16]


def test_prompts_are_as_long_as_asked_and_follow_each_other_in_the_text(
    tiny: Path, load: Load
) -> None:
    session = load(tiny, batch=2, prompt=40, output=2)
    session.prepare(TEXT, 2)
    prompts = [row[:40] for number in (0, 1) for row in rows(session.generate(number, 2))]
    text = [ids for prompt in prompts for ids in prompt]
    characters = json.loads((tiny / "tokenizer.json").read_text())["model"]["vocab"]
    spelled = {number: character for character, number in characters.items()}
    assert "".join(spelled[each] for each in text).replace("Ġ", " ") == TEXT[:160]


@pytest.mark.parametrize(
    ("precision", "settings"),
    [
        (Precision.FP16, {}),
        (Precision.NF4, {"quant_type": "nf4", "blocksize": "64", "double_quant": "false"}),
        (Precision.INT8, {"outlier_threshold": "6.0"}),
    ],
)
def test_what_is_loaded_is_what_the_arm_is_called(
    tiny: Path, load: Load, precision: Precision, settings: dict[str, str]
) -> None:
    session = load(tiny, precision)
    certificate = session.certificate()
    check_certificate(precision, "cpu", certificate)
    assert certificate.share_as_named == 1.0
    assert set(certificate.linear_weights) == {precision}
    assert certificate.settings == settings
    session.prepare(TEXT, 1)
    ledger = session.ledger([session.generate(0, OUTPUT)])
    (row,) = ledger.rows
    assert (row.rows, row.prompt_tokens, row.output_tokens, row.stop) == (1, 16, OUTPUT, "length")


def test_the_end_token_is_masked_until_the_budget_is_used_up(
    tiny: Path, load: Load, tmp_path: Path
) -> None:
    session = load(tiny)
    session.prepare(TEXT, 1)
    likely = rows(session.generate(0, OUTPUT))[0][16]
    eager = variant(tiny, tmp_path / "eager", "config.json", eos_token_id=[likely, END])
    other = load(eager)
    other.prepare(TEXT, 1)
    output = other.generate(0, OUTPUT)
    (row,) = rows(output)
    assert len(row) == 16 + OUTPUT
    assert likely not in row[16:]
    assert row[16:] == greedy(tiny, row[:16], OUTPUT, (likely, END))
    assert other.ledger([output]).rows[0].output_tokens == OUTPUT


@pytest.mark.parametrize(
    "habits",
    [
        {"repetition_penalty": 1.8},
        {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20},
        {"no_repeat_ngram_size": 1},
        {"eos_token_id": [3, 4, 5], "pad_token_id": 3},
        {"max_length": 20},
        {"num_beams": 4},
    ],
)
def test_what_a_checkpoint_says_about_generating_is_not_followed(
    tiny: Path, load: Load, tmp_path: Path, habits: dict[str, object]
) -> None:
    spoiled = variant(tiny, tmp_path / "spoiled", "generation_config.json", **habits)
    session = load(spoiled)
    session.prepare(TEXT, 1)
    (row,) = rows(session.generate(0, OUTPUT))
    ends = habits.get("eos_token_id", [END])
    assert isinstance(ends, list)
    assert row[16:] == greedy(tiny, row[:16], OUTPUT, tuple(ends))


def test_a_model_without_end_and_pad_tokens_decodes_and_says_so_in_its_log(
    load: Load, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    endless = write_tiny(tmp_path / "endless", eos=None)
    session = load(endless, batch=2)
    session.prepare(TEXT, 1)
    output = session.generate(0, OUTPUT)
    assert session.ledger([output]).rows[0].output_tokens == OUTPUT
    assert "names no end token" in capfd.readouterr().err


def test_a_row_ends_with_its_first_end_token(tiny: Path, load: Load) -> None:
    session = load(tiny, batch=2, prompt=2, output=3)
    output = torch.tensor([[1, 2, 7, 7, 7], [1, 2, 7, END, 9]])
    found = {(row.output_tokens, row.stop, row.rows) for row in session.ledger([output]).rows}
    assert found == {(3, "length", 1), (2, "eos", 1)}
    assert isinstance(session.ledger([output]), Ledger)


def test_scores_are_those_of_a_plain_forward_pass(tiny: Path, load: Load) -> None:
    from transformers import AutoModelForCausalLM

    session = load(tiny)
    found = session.score(TEXT, 64, 2)
    tokens = session._encode(TEXT)[:128]
    model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float16).eval()
    for at, nll, count in zip((0, 64), found.nll, found.scored_tokens, strict=True):
        window = torch.tensor([tokens[at : at + 64]])
        with torch.inference_mode():
            chances = model(window).logits[0].double().log_softmax(-1)
        expected = -sum(float(chances[i, window[0, i + 1]]) for i in range(63))
        assert count == 63
        assert nll == pytest.approx(expected, rel=1e-4)


def test_a_window_of_the_text_is_never_longer_than_the_context(tiny: Path, load: Load) -> None:
    session = load(tiny)
    scores = session.score(TEXT, 100_000, 3)
    assert set(scores.scored_tokens) == {CONTEXT - 1}
    assert scores.window_tokens == CONTEXT
    assert session.score(TEXT, 64, 1).window_tokens == 64


def test_a_text_of_one_token_has_no_scores(tiny: Path, load: Load) -> None:
    assert load(tiny).score("x", 64, None).nll == ()


# A window holds the work and nothing else


def test_nothing_is_imported_printed_or_tokenized_by_a_warm_generation(
    tiny: Path, load: Load, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = load(tiny)
    session.prepare(TEXT, 2)
    session.generate(0, OUTPUT)
    capfd.readouterr()
    known = set(sys.modules)
    encoded: list[str] = []
    session._tokenizer = encoded.append  # it would be called
    output = session.generate(1, OUTPUT)
    assert set(sys.modules) == known
    assert encoded == []
    assert capfd.readouterr() == ("", "")
    assert len(rows(output)[0]) == 16 + OUTPUT


class Recorder:
    """In place of a model: keeps what ``generate`` was called with."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.config = SimpleNamespace(eos_token_id=None)
        self.generation_config = SimpleNamespace(eos_token_id=END)
        self.calls: list[dict[str, Any]] = []
        self._failure = failure

    def generate(self, **keywords: Any) -> torch.Tensor:  # noqa: ANN401 (whatever generate takes)
        self.calls.append(keywords)
        if self._failure is not None:
            raise self._failure
        return torch.zeros(1, 3, dtype=torch.int64)


def recording(failure: Exception | None = None) -> tuple[TransformersSession, Recorder]:
    workload = Workload(prompt_tokens=2, output_tokens=8)
    arm = Arm(
        model="local:tiny", workload=workload, precision=Precision.FP16, runtime=Runtime.EAGER
    )
    model = Recorder(failure)
    session = TransformersSession(model, None, arm, "cpu", CONTEXT)
    return session, model


def test_what_a_generation_takes_is_made_before_it() -> None:
    session, model = recording()
    session.prepare(TEXT, 2)
    for iteration in range(4):
        session.generate(iteration, 8)
    inputs = [id(call["inputs"]) for call in model.calls]
    assert inputs[:2] == inputs[2:] and inputs[0] != inputs[1]
    assert len({id(call["generation_config"]) for call in model.calls}) == 1
    assert len({id(call["attention_mask"]) for call in model.calls}) == 1


@pytest.mark.parametrize(
    "failure",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        MemoryError(),
    ],
)
def test_every_way_of_running_out_of_memory_has_one_name(failure: Exception) -> None:
    session, _ = recording(failure)
    session.prepare(TEXT, 1)
    with pytest.raises(ArmFailed) as caught:
        session.generate(0, 8)
    assert caught.value.reason == "out_of_memory"
    assert "\n" not in caught.value.cause


def test_other_faults_of_a_library_keep_their_own_name() -> None:
    session, _ = recording(RuntimeError("CUDA error: an illegal memory access was encountered"))
    session.prepare(TEXT, 1)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        session.generate(0, 8)


def test_a_loss_that_is_no_number_is_a_failure(load: Load, tmp_path: Path) -> None:
    wild = write_tiny(tmp_path / "wild", spread=6e3)  # FP16 ends at 65504
    with pytest.raises(ArmFailed) as caught:
        load(wild).score(TEXT, 64, 1)
    assert caught.value.reason == "perplexity_not_finite"
