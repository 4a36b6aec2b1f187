"""The command as it is typed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ecocompute_cube.cli import main

from .rig import ONE_BLOCK, ROOT, Desk


def typed(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    status = main(["bundle", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_bundle_is_made_and_checked(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    (desk.results / "notes.txt").write_text("x")
    made = (desk.results, "--report-dir", desk.report, "--out", desk.out, "--license", "CC0-1.0")
    people = ("--creator", "Doe, Jane", "--creator", "Roe, Richard")
    status, out, _ = typed(capsys, *made, *people)
    assert status == 0
    assert "1 run, " in out and "left out: notes.txt: it belongs to no run" in out
    assert f"ecocompute bundle --check {desk.out}" in out
    status, out, _ = typed(capsys, "--check", desk.out)
    assert (status, "all as it should be" in out) == (0, True)
    told = desk.check().manifest.about
    assert [each.name for each in told.creators] == ["Doe, Jane", "Roe, Richard"]
    assert told.license == "CC0-1.0"


def test_flags_win_over_the_file(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    about = desk.folder / "about.toml"
    about.write_text("title = 'Of the file'\nversion = '3'\n[[creators]]\nname = 'File'\n")
    words = (desk.results, "--out", desk.out, "--about", about, "--title", "Random weights: flag")
    assert typed(capsys, *words)[0] == 0
    told = desk.check().manifest.about
    assert (told.title, told.version) == ("Random weights: flag", "3")
    assert told.creators[0].name == "File"


def test_nobody_being_named_is_told(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nobody is named" in typed(capsys, desk.results, "--out", desk.out)[1]
    assert "creator_unnamed" in typed(capsys, "--check", desk.out)[1]


def test_a_bundle_that_is_found_wanting_ends_with_1_and_a_bad_document_with_6(
    bundled: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    (bundled.out / "extra").write_text("x")
    status, out, _ = typed(capsys, "--check", bundled.out)
    assert status == 1 and "foreign_file" in out
    next(bundled.out.rglob("energy.json")).write_text("{}")
    assert typed(capsys, "--check", bundled.out)[0] == 6


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["RESULTS"], 2, "--out"),
        (["RESULTS", "--check", "x"], 2, "makes none"),
        (["--check", "nowhere"], 2, "no bundle 'nowhere'"),
        (["nowhere", "--out", "OUT"], 2, "no results folder"),
        (["RESULTS", "--out", "OUT", "--license", "mine"], 2, "no licence"),
        (["RESULTS", "--out", "OUT", "--creator", " "], 2, "no name"),
        (["RESULTS", "--out", "OUT", "--about", "nowhere"], 2, "cannot be read"),
        (["RESULTS", "--out", "OUT", "--layout", "zenodo"], 2, "mlcommons"),
        (["RESULTS", "--out", "RESULTS"], 2, "lies in the results folder"),
        (["RESULTS", "--out", "/proc/x/bundle"], 7, "--out"),
        (["RESULTS", "--out", "/"], 7, "'/' is there already"),
        (["RESULTS", "--out", "x" * 300], 2, "too long"),
        (["x" * 300, "--out", "OUT"], 2, "too long"),
        (["--check", "x" * 300], 2, "too long"),
    ],
)
def test_a_mistake_is_answered_with_a_cause_and_a_remedy(
    desk: Desk,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    status: int,
    told: str,
) -> None:
    places = {"RESULTS": str(desk.results), "OUT": str(desk.out)}
    ended, out, err = typed(capsys, *(places.get(word, word) for word in words))
    assert (ended, out) == (status, ""), err
    *_, cause, fix = err.rstrip("\n").split("\n")
    assert cause.startswith("error: ") and told in f"{cause} {fix}", err
    assert not desk.out.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["bundle", ".", "--out", "../new"],
        ["bundle", "--check", "."],
        ["submit", ".", "--out", "../new"],
        ["compare", ".", "."],
    ],
)
def test_the_folder_where_one_is_has_a_name_too(
    desk: Desk,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:
    here = desk.folder / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert main(words) == 2
    assert "error: 'here' " in capsys.readouterr().err


def test_a_contribution_is_a_folder_and_no_zip_file(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    out = desk.folder / "new.zip"
    assert main(["submit", str(desk.results), "--out", str(out)]) == 2
    assert "error: 'new.zip' is the name of a zip file" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("command", ["bundle", "submit"])
@pytest.mark.parametrize("out", [".", "../here"])
def test_the_folder_where_one_is_is_not_taken_away(
    desk: Desk,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    out: str,
) -> None:
    here = desk.folder / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert main([command, str(desk.results), "--out", out]) == 7
    assert "error: 'here' is the folder in which this runs" in capsys.readouterr().err
    assert here.samefile(".") and not list(here.iterdir())


def test_what_is_heavy_loads_when_a_bundle_is_made() -> None:
    code = (
        "import sys, contextlib, ecocompute_cube.cli as cli\n"
        "with contextlib.suppress(SystemExit): cli.main(['bundle', '--help'])\n"
        "heavy = {'numpy', 'pydantic', 'yaml', 'zipfile', 'jsonschema', 'vl_convert', 'jinja2'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_report_says_how_to_archive_what_it_wrote(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", "--results_dir", str(desk.results), "--report_dir", str(desk.report)]
    assert main(words) == 0
    assert "ecocompute bundle" in capsys.readouterr().err
    made = (desk.results, "--report_dir", desk.report, "--out", desk.out)
    status, _, err = typed(capsys, *made)
    assert status == 0 and "making the report" not in err
    assert ONE_BLOCK in (desk.out / "README.md").read_text()
