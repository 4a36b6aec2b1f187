"""Schemas that are read off annotations."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import pytest
from jsonschema import Draft202012Validator

from ecocompute_cube.service.parameters import PARAMETERS
from ecocompute_cube.service.schemas import schema_of


class Inner(NamedTuple):
    name: str
    size: float | None


class Outer(NamedTuple):
    inner: Inner | None
    pair: tuple[float, float]
    many: tuple[Inner, ...]
    word: Literal["a", "b"]
    by_name: dict[str, Inner]


GOOD: dict[str, Any] = {
    "inner": {"name": "x", "size": None},
    "pair": [1, 2.5],
    "many": [],
    "word": "a",
    "by_name": {"k": {"name": "y", "size": 1}},
}


def test_what_the_type_holds_is_valid() -> None:
    Draft202012Validator(schema_of(Outer)).validate(GOOD)
    Draft202012Validator(schema_of(Outer)).validate({**GOOD, "inner": None})


@pytest.mark.parametrize(
    "wrong",
    [
        {"inner": {"name": 7, "size": None}},
        {"inner": {"name": "x"}},
        {"pair": [1]},
        {"pair": [1, 2, 3]},
        {"many": [{"name": "x"}]},
        {"word": "c"},
        {"by_name": {"k": 1}},
        {"more": 1},
    ],
)
def test_what_it_does_not_is_not(wrong: dict[str, Any]) -> None:
    assert not Draft202012Validator(schema_of(Outer)).is_valid({**GOOD, **wrong})


def test_a_type_that_no_answer_has_is_refused() -> None:
    with pytest.raises(TypeError):
        schema_of(bytes)


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_parameter_has_a_sound_schema_and_a_word_of_explanation(name: str) -> None:
    Draft202012Validator.check_schema(PARAMETERS[name])
    assert PARAMETERS[name]["description"]
