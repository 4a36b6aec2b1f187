"""What is ignored with a reason, known, or not of this change is left out; nothing else is."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.errors import UsageError
from ecocompute_cube.lint.baseline import baseline_text, read_baseline, unknown
from ecocompute_cube.lint.changed import added_lines, parse_diff
from ecocompute_cube.lint.settings import settings

from .rig import EIGHT, codes, found_in, looked, put

# Comments


def test_an_ignore_with_a_reason_is_heeded() -> None:
    line = EIGHT.rstrip() + "  # ecocompute: ignore[ECO101] the board has 8 GB\n"
    assert found_in(line) == []


def test_an_ignore_alone_speaks_of_the_next_line_of_code() -> None:
    head, config = EIGHT.splitlines()
    text = f"{head}\n# ecocompute: ignore[ECO101] the board\n# has 8 GB\n{config}\n{config}\n"
    assert [each.place.line for each in found_in(text)] == [5]


@pytest.mark.parametrize(
    ("comment", "why"),
    [
        ("# ecocompute: ignore[ECO101]", "no reason"),
        ("# ecocompute: ignore because", "names no rule"),
        ("# ecocompute: ignore[ECO999] because", "no rule ECO999"),
    ],
)
def test_an_ignore_without_reason_or_rule_does_nothing_and_is_told(comment: str, why: str) -> None:
    found = found_in(f"{EIGHT.rstrip()}  {comment}\n")
    assert sorted(codes(found)) == ["ECO001", "ECO101"]
    assert why in next(each.message for each in found if each.code == "ECO001")


def test_what_looks_like_an_ignore_within_a_text_is_none() -> None:
    text = EIGHT.rstrip() + '; s = "# ecocompute: ignore[ECO101] no"\n'
    assert codes(found_in(text)) == ["ECO101"]


def test_another_rule_s_ignore_is_not_heeded() -> None:
    text = EIGHT.rstrip() + "  # ecocompute: ignore[ECO104] other\n"
    assert codes(found_in(text)) == ["ECO101"]


def test_yaml_has_ignores_too() -> None:
    text = "load_in_8bit: true  # ecocompute: ignore[ECO103] tried\nload_in_4bit: true\n"
    assert codes(found_in(text, "yaml")) == ["ECO103"]
    text = "load_in_8bit: true\nload_in_4bit: true  # ecocompute: ignore[ECO103] tried\n"
    assert found_in(text, "yaml") == []


# pyproject.toml


def test_a_project_says_what_to_leave_alone(tmp_path: Path) -> None:
    put(
        tmp_path,
        pyproject__toml='[tool.ecocompute]\ngpu = "ada"\n[tool.ecocompute.lint]\n'
        'ignore = ["ECO117"]\nexclude = ["old/**"]\nfail-on = "note"\nbaseline = "known.json"\n'
        '[tool.ecocompute.lint.per-path-ignores]\n"examples/*" = ["ECO101"]\n',
    )
    ours = settings(tmp_path)
    assert (ours.gpu, ours.fail_on, ours.baseline) == ("ada", "note", tmp_path / "known.json")
    assert ours.excluded("old/x.py") and ours.excluded("old/") and not ours.excluded("older/x.py")
    assert ours.ignored("examples/a/b.py", "ECO101") and not ours.ignored("app.py", "ECO101")
    assert ours.ignored("app.py", "ECO117")


@pytest.mark.parametrize(
    "text",
    [
        "[tool.ecocompute.lint]\nignores = []\n",
        '[tool.ecocompute.lint]\nignore = ["ECO9"]\n',
        '[tool.ecocompute.lint]\nfail-on = "often"\n',
        "[tool.ecocompute]\ngpu = 4090\n",
        "[tool]\necocompute = 1\n",
        "[tool.ecocompute]\nlint = 1\n",
        "[tool.ecocompute.lint]\nper-path-ignores = 1\n",
        "[tool.ecocompute.lint]\nexclude = [1]\n",
        "[tool",
    ],
)
def test_a_slip_in_it_is_a_mistake(tmp_path: Path, text: str) -> None:
    put(tmp_path, pyproject__toml=text)
    with pytest.raises(UsageError):
        settings(tmp_path)


# Baseline


def test_what_is_known_is_not_told_again_wherever_it_moves(tmp_path: Path) -> None:
    put(tmp_path, app__py=EIGHT)
    known = tmp_path / "known.json"
    known.write_text(baseline_text(looked(tmp_path).findings))
    put(tmp_path, app__py="import os\n\n" + EIGHT)
    found = looked(tmp_path, known=read_baseline(known))
    assert found.findings == () and found.known == 1


def test_a_second_one_of_the_same_is_new() -> None:
    first = found_in(EIGHT)
    twice = found_in(EIGHT + EIGHT.splitlines()[1] + "\n")
    known = Counter(each.fingerprint() for each in first)
    assert len(twice) == 2 and len(unknown(twice, known)) == 1


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other"}', '{"format": 1}', "{" * 9])
def test_a_broken_baseline_is_a_mistake(tmp_path: Path, text: str) -> None:
    put(tmp_path, known__json=text)
    with pytest.raises(UsageError, match="baseline"):
        read_baseline(tmp_path / "known.json")


# Lines of a change


def git(folder: Path, *words: str) -> None:
    name = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *name, *words], check=True, capture_output=True)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    put(tmp_path, app__py=EIGHT)
    git(tmp_path, "init", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    return tmp_path


def test_only_what_a_change_adds_is_told(clone: Path) -> None:
    git(clone, "checkout", "-b", "topic")
    put(clone, app__py=EIGHT + "x = 1\nmore = BitsAndBytesConfig(load_in_8bit=True)\n")
    put(clone, **{"new file__py": EIGHT})
    found = looked(clone, changed=added_lines("main", clone))
    told = [(Path(each.path).name, each.place.line) for each in found.findings]
    assert told == [("app.py", 4), ("new file.py", 2)]


def test_what_others_merged_meanwhile_is_no_change_of_ours(clone: Path) -> None:
    git(clone, "checkout", "-b", "topic")
    put(clone, mine__py="x = 1\n")
    git(clone, "add", ".")
    git(clone, "commit", "-m", "mine")
    git(clone, "checkout", "main")
    put(clone, app__py="x = 1\n")
    git(clone, "commit", "-am", "removed")
    git(clone, "checkout", "topic")
    assert looked(clone, changed=added_lines("main", clone)).findings == ()


def test_a_finding_counts_when_any_of_its_lines_is_new(clone: Path) -> None:
    whole = "config = BitsAndBytesConfig(\n    **base,\n)\n"
    start = 'from transformers import BitsAndBytesConfig\nbase = {"load_in_8bit": True}\n'
    put(clone, app__py=start + whole)
    git(clone, "commit", "-am", "base")
    put(clone, app__py=start + whole.replace("    **base,\n", "    **base,  # moved\n"))
    assert codes(looked(clone, changed=added_lines("main", clone))) == ["ECO101"]


@pytest.mark.parametrize("reference", ["", "--output=x", "nowhere"])
def test_no_commit_is_a_mistake(clone: Path, reference: str) -> None:
    with pytest.raises(UsageError):
        added_lines(reference, clone)


def test_outside_a_clone_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="git"):
        added_lines("main", tmp_path)


def test_a_removed_line_that_looks_like_a_header_is_none() -> None:
    patch = (
        b"--- a/x.py\n+++ b/x.py\n@@ -3 +3,2 @@\n--- a/evil\n+++ b/evil\n+ok\n@@ -9,0 +11 @@\n+z\n"
    )
    assert parse_diff(patch) == {"x.py": [(3, 4), (11, 11)]}


def test_quoted_names_are_read() -> None:
    patch = b'+++ "b/sm\\303\\266rg \\"q\\".py"\n@@ -0,0 +1 @@\n+x\n'
    assert parse_diff(patch) == {'smörg "q".py': [(1, 1)]}


@given(st.binary(max_size=400))
def test_any_bytes_are_a_patch_or_none(told: bytes) -> None:
    assert isinstance(parse_diff(told), dict)
