"""Numbers as people read them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.units import signed

PACKAGE: Final = Path(__file__).parents[1] / "ecocompute_cube"
FINITE: Final = st.floats(min_value=-1e9, max_value=1e9)


@given(FINITE, st.integers(min_value=0, max_value=4))
def test_a_change_has_its_sign_unless_it_is_none(value: float, digits: int) -> None:
    told = signed(value, digits)
    assert float(told) == pytest.approx(value, abs=0.5001 * 10**-digits)
    assert (told[0] in "+-") == (float(told) != 0)
    assert len(told.partition(".")[2]) == digits


@given(st.floats(min_value=-0.0499, max_value=0.0499))
def test_what_rounds_to_nothing_has_no_sign(value: float) -> None:
    assert signed(value) == "0.0"


def test_nothing_signs_a_number_in_another_way() -> None:
    own = re.compile(r"\+\.\d+f")
    found = {
        str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        if own.search(file.read_text(encoding="utf-8"))
    }
    assert found == set()
