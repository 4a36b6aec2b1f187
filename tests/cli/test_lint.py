"""``ecocompute lint`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ecocompute_cube.cli import main

EIGHT = (
    "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\n"
    "quant = BitsAndBytesConfig(load_in_8bit=True)\n"
)
DEAD = (
    "from transformers import BitsAndBytesConfig\nc = BitsAndBytesConfig(llm_int8_threshold=1.0)\n"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(EIGHT)
    return tmp_path


def test_findings_end_with_1_and_none_with_0(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint"]) == 1
    assert capsys.readouterr().out.startswith("app.py:2:28: warning ECO101")
    assert main(["lint", "--fail-on", "error"]) == 0
    assert main(["lint", "--fail-on", "never"]) == 0
    (project / "app.py").write_text("x = 1\n")
    assert main(["lint"]) == 0


def test_a_file_that_is_not_read_is_told_and_changes_no_status(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "app.py").write_text(EIGHT + "def f(:\n")
    assert main(["lint"]) == 0
    assert "not read: app.py: no Python 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["nowhere.py"],
        ["--gpu", "RTX 4095"],
        ["--fail-on", "often"],
        ["--format", "xml"],
        ["--diff", "main"],
        ["--baseline", "nowhere.json"],
        ["--config", "nowhere.toml"],
    ],
)
def test_a_mistake_ends_with_2(
    project: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists() and main(["lint", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("error: ")


def test_the_card_is_the_option_s_or_the_project_s(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text('[tool.ecocompute]\ngpu = "RTX 5090"\n')
    main(["lint", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["gpu"] == "NVIDIA GeForce RTX 5090"
    main(["lint", "--format", "json", "--gpu", "ada"])
    assert json.loads(capsys.readouterr().out)["gpu"] == "NVIDIA GeForce RTX 4090"
    main(["lint", "--format", "json", "--gpu", "unknown"])
    assert json.loads(capsys.readouterr().out)["gpu"] is None


def test_a_baseline_is_written_and_heeded(project: Path) -> None:
    assert main(["lint", "--write-baseline", "known.json"]) == 0
    assert main(["lint", "--baseline", "known.json"]) == 0
    (project / "more.py").write_text(EIGHT)
    assert main(["lint", "--baseline", "known.json"]) == 1


def test_fix_edits_and_looks_again(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "app.py").write_text(DEAD)
    assert main(["lint", "--fail-on", "note"]) == 1
    assert main(["lint", "--fail-on", "note", "--fix"]) == 0
    assert (project / "app.py").read_text().endswith("BitsAndBytesConfig()\n")
    assert "fixed: 1" in capsys.readouterr().err


def test_what_is_printed_can_go_to_a_file(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint", "--format", "sarif", "--output", "lint.sarif"]) == 1
    assert capsys.readouterr().out == ""
    assert json.loads((project / "lint.sarif").read_text())["version"] == "2.1.0"
