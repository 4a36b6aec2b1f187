"""``ecocompute estimate`` on the command line."""

from __future__ import annotations

import json

import pytest

from ecocompute_cube.cli import main


def test_it_answers_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--params_b", "7", "--arch", "ada", "--precision", "NF4"]) == 0
    said = capsys.readouterr().out
    assert "7B, NF4/eager, NVIDIA GeForce RTX 4090 (for ada)" in said
    assert "basis           measured" in said and "Modelled from" in said


def test_it_answers_programs_in_the_published_field_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["estimate", "--params-b", "7", "--gpu", "5090", "--ctx", "2048", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["input"] == {
        "params_b": 7.0,
        "gpu": "NVIDIA GeForce RTX 5090",
        "arch": "blackwell",
        "precision": "NF4",
        "runtime": "eager",
        "batch": 1,
        "ctx": 2048,
    }
    published = "delta_pct ci basis confidence recommendation verdict crossover_b anchors arch_used"
    more = "modelled weight_gb weight_gb_fp16 notes"
    assert {*published.split(), *more.split()} <= found.keys()
    assert {"N", "dE", "model", "gpu", "n", "session"} <= found["anchors"][0].keys()


def test_the_published_form_is_asked_for_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["estimate", "--params_b", "13", "--arch", "ampere", "--form", "published"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["form"], found["delta_pct"]) == ("published", -1.029)
    assert main(arguments) == 0
    assert "published three-parameter form" in capsys.readouterr().out


def test_a_plain_question_is_echoed_as_it_was_understood(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["estimate", "13B on A100, int8, batch 32, 8k context, 3 beams"]) == 0
    said = capsys.readouterr()
    first = "13B, INT8/eager, NVIDIA A100-SXM4-80GB, batch 32, context 8192\n"
    assert said.out.startswith(first)
    assert "No answer: nothing was measured beside FP16 at batch 32." in said.out
    assert said.err == "not understood: '3'\n"


def test_an_option_says_more_than_the_question(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "7B", "on", "4090", "int8", "--precision", "NF4"]) == 0
    assert capsys.readouterr().out.startswith("7B, NF4/eager, NVIDIA GeForce RTX 4090,")


def test_the_optimizer_recommends_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "7B on 4090", "--batch", "1"]) == 0
    said = capsys.readouterr().out
    assert "recommended  NF4/eager" in said and "3 of 3 combinations keep to the limits." in said


def test_the_optimizer_answers_programs(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["optimize", "--params_b", "7", "--arch", "ada", "--batches", "1", "2", "--json"]
    assert main([*arguments, "--objective", "carbon", "--grams_per_kwh", "400"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["input"]["gpu"] == "NVIDIA GeForce RTX 4090"
    assert found["recommended"]["co2_g_per_million"] > 0
    assert {"basis", "energy_mj_per_token", "latency_ms"} <= found["recommended"].keys()
    assert found["alternatives"][0]["vs_recommended"]["energy_mj_per_token"] > 0
    assert found["feasible_count"] == found["considered"] == 6


def test_the_optimizer_tells_what_is_in_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "70B on 4090", "--max_latency_ms", "1"]) == 0
    said = capsys.readouterr().out
    assert "No combination keeps to the limits." in said
    assert "memory_gb 24.0: it takes" in said and "max_latency_ms 1.00: it takes" in said


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["7B on 4090", "--objective", "speed"], "objective"),
        (["7B on 4090", "--objective", "cost"], "price_per_kwh"),
        (["7B on 4090", "--max_vram_gb", "inf"], "max_vram_gb"),
        (["7B on 4090", "--batches", "0"], "batch"),
        (["7B on 4090", "--precisions", "INT9"], "precision"),
        (["on 4090"], "params_b"),
    ],
)
def test_a_mistake_in_an_aim_ends_with_2_and_names_its_parameter(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == "" and named in said.err and "Traceback" not in said.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--params_b", "nan", "--arch", "ada"], "params_b"),
        (["--params_b", "1e9", "--arch", "ada"], "params_b"),
        (["--params_b=-7", "--arch", "ada"], "params_b"),
        (["--params_b", "sieben", "--arch", "ada"], "params_b"),
        (["--arch", "ada"], "params_b"),
        (["--params_b", "7"], "arch"),
        (["--params_b", "7", "--gpu", "RTX 4095"], "gpu"),
        (["--params_b", "7", "--arch", "ada", "--batch", "0"], "batch"),
        (["--params_b", "7", "--arch", "ada", "--batch", "1.5"], "batch"),
        (["--params_b", "7", "--arch", "ada", "--context", "9" * 30], "context"),
        (["--params_b", "7", "--arch", "ada", "--context", "9" * 5000], "context"),
        (["--params_b", "7", "--arch", "ada", "--precision", "\ud800"], "precision"),
    ],
)
def test_a_mistake_ends_with_2_and_names_its_parameter(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == "" and named in said.err and "Traceback" not in said.err
    assert len(said.err) < 500
