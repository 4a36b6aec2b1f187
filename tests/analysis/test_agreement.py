"""Whether two arms say the same, token by token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.analysis.agreement import agreement

ids = st.lists(st.integers(0, 3), min_size=1, max_size=30)


@given(ids)
def test_an_output_agrees_with_itself_to_the_last_token(said: list[int]) -> None:
    found = agreement(said, said)
    assert found.tokens == found.alike == found.before_first_difference == len(said)


@given(ids, st.data())
def test_the_first_difference_ends_what_is_the_same_from_the_beginning(
    said: list[int], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(said) - 1))
    other = [*said[:at], said[at] + 10, *said[at + 1 :]]
    found = agreement(said, other)
    assert (found.before_first_difference, found.alike) == (at, len(said) - 1)
    assert agreement(other, said) == found


def test_outputs_of_two_lengths_are_not_compared() -> None:
    with pytest.raises(ValueError, match="zip"):
        agreement([1], [1, 2])
