"""What is typed, and what comes back when it is mistyped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ecocompute_cube.cli import main

from .rig import REAL, ROOT, assert_told, ecocompute, surroundings

COMMANDS = (
    "run",
    "download",
    "measure",
    "report",
    "plan",
    "doctor",
    "validate",
    "bundle",
    "upload",
    "submit",
    "compare",
)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit status and standard error of a mistake."""
    status = main(arguments)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ") and err.count("\n") == 2, err
    return status, err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"usage: ecocompute {command}") and err == ""


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert all(f"\n    {command} " in out for command in COMMANDS)
    assert "exit status" in out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("ecocompute 0.")


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["mesure"], ["There is no command 'mesure'.", "Did you mean measure?"]),
        (["frobnicate"], ["There is no command 'frobnicate'.", "Commands: run, download,"]),
        ([], ["COMMAND"]),
        (["--versoin"], ["no option --versoin", "Did you mean --version?"]),
        (["--quiet=1", "plan"], ["no option --quiet", "See: ecocompute --help."]),
        (["measure", "--outputdir", "x"], ["no option --outputdir", "Did you mean --output_dir?"]),
        (["measure", "--output-dri=x"], ["no option --output_dri.", "Did you mean --output_dir?"]),
        (["measure", "--frob"], ["no option --frob", "See: ecocompute measure --help."]),
        (["measure", "-x"], ["no option -x"]),
        (["measure", "plan.yaml"], ["takes no 'plan.yaml' there", "after their option"]),
        (["measure", "--rehearse=yes"], ["rehearse", "'yes'"]),
        (["measure", "--output_dir"], ["expected one argument"]),
        (["validate"], ["required", "PATH"]),
        (["validate", "x", "--profile", "v1"], ["v1.1-core"]),
        (["plan", "a", "b"], ["takes no 'b'"]),
        (["compare", "a"], ["one thing to compare with", "--against published"]),
        (["compare", "a", "b", "--against", "published"], ["one thing to compare with"]),
        (["compare", "a", "--against", "hearsay"], ["published"]),
        (["compare", "nowhere", "b"], ["'nowhere' cannot be read", "Give a report.json"]),
    ],
)
def test_a_slip_of_the_pen_is_answered_with_what_was_meant(
    typed: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, err = told(capsys, *typed)
    assert status == 2
    for word in words:
        assert word in err


@pytest.mark.parametrize("minutes", ["nan", "inf", "-inf", "1e308", "1e9", "0", "-1", "soon", ""])
def test_minutes_that_are_no_number_of_minutes(
    minutes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, err = told(capsys, "measure", f"--max_minutes={minutes}")
    assert status == 2
    assert f"'{minutes}' is not a number of minutes" in err


@pytest.mark.parametrize("option", ["--models_dir", "--models-dir"])
def test_options_may_be_written_with_underscores_or_hyphens(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("name: a plan with-hyphens\n")
    assert main(["plan", str(plan), option, str(tmp_path / "a_b-c")]) == 0
    assert capsys.readouterr().out.startswith("plan a plan with-hyphens")


def test_a_file_after_two_hyphens_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("--my-report.json").write_text("{}")
    assert main(["validate", "--", "--my-report.json"]) == 6
    assert "--my-report.json: schema-invalid" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [("--help",), ("plan",), ("validate", "data", "--json")])
def test_a_reader_who_has_seen_enough_is_no_fault(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        process = subprocess.run(
            [sys.executable, "-m", REAL, *arguments],
            env=surroundings(),
            cwd=ROOT,
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert process.stderr == ""
    assert process.returncode in (0, 1)


def test_a_full_disk_behind_standard_output_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [sys.executable, "-m", REAL, "plan"],
            env=surroundings(),
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert process.returncode == 7
    assert process.stderr.startswith("error: No room left on the disk")
    assert process.stderr.count("\n") == 2


@pytest.mark.parametrize(("arguments", "status"), [("plan >&-", 0), ("nonsense >&- 2>&-", 2)])
def test_closed_standard_streams_are_no_fault(arguments: str, status: int) -> None:
    command = f'exec "{sys.executable}" -m {REAL} {arguments}'
    process = subprocess.run(
        ["sh", "-c", command], env=surroundings(), cwd=ROOT, capture_output=True, check=False
    )
    assert (process.returncode, process.stderr) == (status, b"")


def test_a_terminal_that_knows_only_ascii_gets_a_table() -> None:
    results = ROOT / "data" / "h200"
    ended = ecocompute("validate", results, environment={"PYTHONIOENCODING": "ascii"})
    assert ended.err == ""
    assert ended.out


def test_the_module_starts_as_the_command_does() -> None:
    assert_told(ecocompute("mesure"), 2, "Did you mean measure?")
