"""Figures in messages are those of the packaged measurements."""

from __future__ import annotations

import pytest

from ecocompute_cube.analysis.curves import library
from ecocompute_cube.analysis.estimator import estimate
from ecocompute_cube.errors import UsageError
from ecocompute_cube.lint import evidence
from ecocompute_cube.lint.checks import Around
from ecocompute_cube.lint.rules import RULES

from .rig import EIGHT, codes, found_in

LOAD = 'AutoModelForCausalLM.from_pretrained("Qwen/Qwen2-7B", quantization_config=quant)\n'


def test_a_finding_says_what_the_estimator_says_for_its_card_and_size() -> None:
    (finding,) = found_in(EIGHT + LOAD, gpu="NVIDIA GeForce RTX 4090")
    said = estimate(7, gpu="rtx 4090", precision="INT8")
    (only,) = finding.evidence
    assert (only.delta_pct, only.interval, only.basis) == (said.delta_pct, said.ci, "measured")
    assert only.n == 3 and only.sources and not only.conditional
    assert "n = 3 sessions" in evidence.told(only)


def test_where_the_card_is_unknown_each_measured_one_is_a_condition() -> None:
    (finding,) = found_in(EIGHT + LOAD)
    boards = {each.gpu for each in finding.evidence}
    assert len(boards) > 1 and all(each.conditional for each in finding.evidence)


def test_a_board_without_measurements_is_answered_by_those_that_have_them() -> None:
    found = evidence.of_arm("FP8-WO", None, "NVIDIA H200")
    assert {each.gpu for each in found} == {"NVIDIA GeForce RTX 5090"}
    assert all(each.conditional and each.interval is None and each.n == 1 for each in found)
    assert all("one session, no interval" in evidence.told(each) for each in found)


def test_both_sides_of_the_threshold_are_told() -> None:
    (finding,) = found_in(EIGHT)
    costs = [each.delta_pct for each in library().quality["INT8-T0"]]
    assert "advise against" in finding.message
    assert f"{max(costs):+.1f} % on {len(costs)} published models" in finding.message


def test_capture_is_the_ratio_of_the_two_levels() -> None:
    (found,) = evidence.of_capture(None)
    assert found.gpu == "NVIDIA H200" and found.n == 2
    assert found.interval is not None and found.delta_pct is not None
    assert found.interval[0] < found.delta_pct < found.interval[1] < 0


SMALL = """\
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2-{}B", quantization_config=bnb)
"""


@pytest.mark.parametrize(
    ("size", "gpu", "severity"),
    [
        ("0.5", "NVIDIA H200", "warning"),  # its whole range is above zero
        ("0.5", "NVIDIA GeForce RTX 4090", "note"),  # its range holds zero
        ("7", "NVIDIA GeForce RTX 4090", None),  # it saves
        ("0.5", None, "note"),
    ],
)
def test_four_bits_are_judged_by_card_and_size(
    size: str, gpu: str | None, severity: str | None
) -> None:
    found = [each for each in found_in(SMALL.format(size), gpu=gpu) if each.code == "ECO102"]
    assert [each.severity for each in found] == ([severity] if severity else [])
    if gpu is None:
        assert "if it runs on" in found[0].message


def test_captured_decoding_is_judged_by_its_own_measurements() -> None:
    told = codes(found_in(SMALL.format("0.5"), gpu="NVIDIA H200", runtime="graph"))
    assert "ECO102" not in told  # as a graph it saves there


def test_auto_is_offload_where_the_card_is_too_small() -> None:
    text = (
        "from transformers import AutoModelForCausalLM\n"
        'm = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-70b-hf", device_map="auto")\n'
    )
    assert codes(found_in(text, gpu="NVIDIA H200")) == []
    assert codes(found_in(text, gpu="NVIDIA GeForce RTX 4090")) == ["ECO109"]
    assert codes(found_in(text)) == []


def test_a_board_goes_by_any_of_its_names() -> None:
    assert evidence.board("ada") == evidence.board("rtx 4090") == "NVIDIA GeForce RTX 4090"
    with pytest.raises(UsageError):
        evidence.board("RTX 4095")


def test_codes_and_names_are_one_each() -> None:
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)
    assert Around().gpu is None
