"""How counts are written."""

from __future__ import annotations

import pytest

from ecocompute_cube.report.table import counted


@pytest.mark.parametrize(("number", "words"), [(0, "0 blocks"), (1, "1 block"), (2, "2 blocks")])
def test_one_is_one(number: int, words: str) -> None:
    assert counted(number, "block") == words
