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
