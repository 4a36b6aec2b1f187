"""How figures and counts are written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.report.table import counted, signed


@given(st.floats(-1e6, 1e6))
def test_a_change_is_written_to_a_tenth_and_nothing_has_no_sign(value: float) -> None:
    text = signed(value)
    assert math.isclose(float(text), value, abs_tol=0.05 + 1e-9)
    assert (text[0] in "+-") == (float(text) != 0)
    assert text == "0.0" or math.copysign(1, value) == (1 if text[0] == "+" else -1)


@pytest.mark.parametrize(("number", "words"), [(0, "0 blocks"), (1, "1 block"), (2, "2 blocks")])
def test_one_is_one(number: int, words: str) -> None:
    assert counted(number, "block") == words
