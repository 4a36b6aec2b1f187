"""What every document is made of: absent values, one text for one value, units."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ecocompute_cube import units
from ecocompute_cube.errors import EcoError
from ecocompute_cube.model.base import (
    Absent,
    Record,
    canonical_json,
    present,
    printable,
    without_paths,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


class Reading(Record):
    """A value or a reason."""

    value: float | Absent


def test_zero_is_there_and_a_reason_is_not() -> None:
    assert present(0.0) and present("") and present(None)
    assert not present(Absent(reason="gone"))


def test_an_absence_needs_a_reason() -> None:
    """OUT-NULL."""
    with pytest.raises(ValidationError):
        Absent(reason="")


@pytest.mark.parametrize("text", ["NaN", "Infinity", "null", "true", '"1"', "{}", '{"reason": ""}'])
def test_a_reading_is_a_finite_number_or_a_reason(text: str) -> None:
    with pytest.raises(ValidationError):
        Reading.model_validate_json(f'{{"value": {text}}}')


@given(json_values)
def test_canonical_json_is_one_text_for_one_value(value: object) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text


@given(st.dictionaries(st.text(), st.integers()), st.randoms())
def test_canonical_json_forgets_the_order_of_keys(value: dict[str, int], chance: object) -> None:
    del chance
    backwards = dict(reversed(value.items()))
    assert canonical_json(backwards) == canonical_json(value)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_canonical_json_refuses_what_is_no_number(number: float) -> None:
    """OUT-NAN."""
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"x": number})


@given(st.text())
def test_printable_text_has_nothing_that_a_terminal_obeys(text: str) -> None:
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


def test_printable_text_spells_the_rest_out() -> None:
    assert printable("a\x1b[31m\n\u202eé") == r"a\x1b[31m\n\u202eé"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("cannot read /home/me/models/m.bin", "cannot read …/m.bin"),
        ("File '/srv/a/b.py', line 3", "File '…/b.py', line 3"),
        ("at 3 mJ/token and/or less", "at 3 mJ/token and/or less"),
        ("see https://example.org/a/b", "see https://example.org/a/b"),
        ("local:m and ./a/b", "local:m and ./a/b"),
    ],
)
def test_a_sentence_keeps_its_words_and_loses_its_folders(text: str, kept: str) -> None:
    assert without_paths(text) == kept


# Units


def test_units_by_hand() -> None:
    assert units.mj_per_token(units.Joule(2.0), 500) == 4.0
    assert units.percent(0.85) == pytest.approx(-15.0)
    assert units.gib(2**31) == 2.0


def test_no_tokens_have_no_energy_each() -> None:
    with pytest.raises(ZeroDivisionError):
        units.mj_per_token(units.Joule(1.0), 0)


@given(st.integers(0, 10**18))
def test_time_survives_the_way_to_seconds_and_back(ns: int) -> None:
    assert units.nanoseconds(units.seconds(ns)) == pytest.approx(ns, rel=1e-12, abs=1)
    assert float(units.joules(ns)) == float(units.watts(ns))


def test_every_error_has_a_code_and_a_status_of_its_own() -> None:
    leaves: list[type[EcoError]] = []
    todo = [EcoError]
    while todo:
        kind = todo.pop()
        leaves.append(kind)
        todo += kind.__subclasses__()
    ours = [kind for kind in leaves if kind.__module__.startswith("ecocompute_cube.")]
    codes = [kind.code for kind in ours]
    assert len(set(codes)) == len(codes)
    assert {kind.exit_status for kind in ours} <= {1, 2, 3, 4, 5, 6, 7, 8, 130}
