"""Title, creators, licence and the rest, from a file and from flags."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.archive.about import Wishes, about, parse_creator, read_wishes
from ecocompute_cube.errors import UsageError
from ecocompute_cube.model.bundle import Creator

WHOLE = """
title = "Three cards"
description = "What they cost."
license = "CC0-1.0"
version = "2.0"
keywords = ["energy", "cards"]
date = 2026-12-24

[[creators]]
name = "Doe, Jane"
orcid = "https://orcid.org/0000-0002-1825-0097"
affiliation = "A University"

[[creators]]
name = "The Group"
"""


def wishes(folder: Path, text: str) -> Wishes:
    path = folder / "about.toml"
    path.write_text(text)
    return read_wishes(path)


def test_a_file_says_all_of_it(tmp_path: Path) -> None:
    assert wishes(tmp_path, WHOLE) == Wishes(
        title="Three cards",
        description="What they cost.",
        creators=(
            Creator(name="Doe, Jane", orcid="0000-0002-1825-0097", affiliation="A University"),
            Creator(name="The Group"),
        ),
        license="CC0-1.0",
        version="2.0",
        keywords=("energy", "cards"),
        date="2026-12-24",
    )


def test_an_empty_file_wishes_nothing(tmp_path: Path) -> None:
    assert wishes(tmp_path, "") == Wishes()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("titel = 'x'", "'titel', which nothing reads"),
        ("title = 3", "'title' in about.toml is no text"),
        ("title = ' '", "is no text"),
        ("keywords = 'one'", "no list of words"),
        ("keywords = [1]", "no list of words"),
        ("creators = 'me'", "no list"),
        ("creators = ['me']", "no list of tables"),
        ("[[creators]]\nname = 'A'\nemail = 'x'", "'email'"),
        ("[[creators]]\norcid = '0000-0002-1825-0097'", "has no name"),
        ("[[creators]]\nname = 'A'\norcid = '0000-0002-1825-0098'", "is no ORCID"),
        ("title = ", "is not TOML"),
        ("\x00", "is not TOML"),
    ],
)
def test_what_nobody_meant_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        wishes(tmp_path, text)
    assert words in refused.value.cause


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_wishes(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("text", "creator"),
    [
        ("Doe, Jane", Creator(name="Doe, Jane")),
        (
            "Doe, Jane; 0000-0002-1825-0097; A University",
            Creator(name="Doe, Jane", orcid="0000-0002-1825-0097", affiliation="A University"),
        ),
        (
            "Doe, Jane;A; B;https://orcid.org/0000-0001-5109-3700",
            Creator(name="Doe, Jane", orcid="0000-0001-5109-3700", affiliation="A; B"),
        ),
        ("Doe, Jane; 0000-0002-1694-233X", Creator(name="Doe, Jane", orcid="0000-0002-1694-233X")),
    ],
)
def test_a_creator_is_a_name_and_what_follows_it(text: str, creator: Creator) -> None:
    assert parse_creator(text) == creator


@pytest.mark.parametrize(
    "text",
    [
        "",
        "; 0000-0002-1825-0097",
        "Doe; 0000-0002-1825-0000",
        "Doe; 0000-0002-1825-0097; 0000-0001-5109-3700",
    ],
)
def test_a_creator_without_a_name_or_with_a_mistyped_orcid_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_creator(text)


def test_digits_of_other_scripts_make_no_orcid(tmp_path: Path) -> None:
    other = "\u0660\u0660\u0660\u0660-0002-1825-0097"
    assert parse_creator(f"Doe, Jane; {other}") == Creator(name="Doe, Jane", affiliation=other)
    with pytest.raises(UsageError, match="is no ORCID"):
        wishes(tmp_path, f"[[creators]]\nname = 'A'\norcid = '{other}'")


def test_one_orcid_stands_for_one_creator() -> None:
    first, second = (parse_creator(f"{name}; 0000-0002-1825-0097") for name in ("Doe, J", "Roe, R"))
    with pytest.raises(UsageError, match="0000-0002-1825-0097"):
        about((), Wishes(creators=(first, second)))


@given(st.text())
def test_any_words_make_a_creator_or_are_refused_in_ours(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse_creator(text).name
