"""What a reference manager reads: CITATION.cff is whole and names this version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import ecocompute_cube

FILE = Path(__file__).parents[2] / "CITATION.cff"


@pytest.fixture
def citation() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def test_it_is_of_the_format_that_readers_know(citation: dict[str, Any]) -> None:
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"


def test_it_says_what_to_cite_and_how(citation: dict[str, Any]) -> None:
    for key in ("title", "message"):
        assert isinstance(citation[key], str) and citation[key].strip()
    assert citation["authors"]
    for author in citation["authors"]:
        assert author.get("name") or author.get("family-names"), author


def test_license_and_version_are_the_packages(citation: dict[str, Any]) -> None:
    assert citation["license"] == "Apache-2.0"
    assert citation["version"] == ecocompute_cube.__version__
