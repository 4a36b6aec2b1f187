"""The schemas that a page carries: no words, and no keyword that it would pass over."""

from __future__ import annotations

import json

import pytest

from ecocompute_cube.report.page_schemas import compact, page_schemas


def test_words_are_left_out_and_names_are_kept() -> None:
    schema = {
        "title": "A",
        "properties": {"title": {"type": "string", "description": "its title"}},
        "required": ["title"],
        "$defs": {"default": {"const": "title", "default": 1}},
    }
    assert compact(schema) == {
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
        "$defs": {"default": {"const": "title"}},
    }


def test_a_keyword_that_the_page_does_not_know_stops_the_build() -> None:
    with pytest.raises(ValueError, match="contains, uniqueItems"):
        compact({"properties": {"a": {"uniqueItems": True, "contains": {}}}})


def test_both_major_versions_are_there_and_small() -> None:
    assert set(page_schemas()) == {"1", "2"}
    assert len(json.dumps(page_schemas(), separators=(",", ":"))) < 40_000
