"""The change of perplexity, and what of it may be luck of the text."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecocompute_cube.analysis.quality import delta_interval_pct
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.journal import QualityScored


def scored(nll: Sequence[float], tokens: Sequence[int], text: str = "0" * 64) -> QualityScored:
    return QualityScored(
        arm="a",
        session=0,
        text="t",
        text_bytes=10,
        text_sha256=text,
        window_tokens=2000,
        nll=tuple(nll),
        scored_tokens=tuple(tokens),
    )


def test_the_same_harm_in_every_window_has_no_spread() -> None:
    tokens = (100, 100, 60)
    base = scored([300, 250, 170], tokens)
    harmed = scored([nll + 0.1 * n for nll, n in zip(base.nll, tokens, strict=True)], tokens)
    found = delta_interval_pct(harmed, base, 0.95)
    assert present(found)
    assert found.low == pytest.approx(100 * (math.exp(0.1) - 1)) == pytest.approx(found.high)
    assert (found.n, found.unit) == (3, "windows")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(1, 500), st.floats(1, 500)), min_size=2, max_size=12))
def test_the_interval_is_around_the_change(pairs: list[tuple[float, float]]) -> None:
    tokens = [100] * len(pairs)
    own, base = scored([a for a, _ in pairs], tokens), scored([b for _, b in pairs], tokens)
    found = delta_interval_pct(own, base, 0.95)
    change = 100 * (math.exp(sum(a - b for a, b in pairs) / sum(tokens)) - 1)
    assert present(found)
    assert found.low <= change * (1 + 1e-9) + 1e-6 and change <= found.high * (1 + 1e-9) + 1e-6


def test_it_covers_a_known_harm_as_often_as_it_says() -> None:
    """Windows differ in how hard they are, and in how much quantizing hurts there."""
    draw, harm, hits, trials = random.Random(7), 0.05, 0, 600
    for _ in range(trials):
        tokens = [draw.randint(500, 1000) for _ in range(12)]
        base = [n * draw.uniform(2, 4) for n in tokens]
        hurt = [b + n * draw.gauss(harm, 0.03) for b, n in zip(base, tokens, strict=True)]
        found = delta_interval_pct(scored(hurt, tokens), scored(base, tokens), 0.95)
        assert present(found)
        hits += found.low <= 100 * (math.exp(harm) - 1) <= found.high
    assert 0.92 <= hits / trials <= 0.98


def test_other_windows_or_one_give_a_reason() -> None:
    base = scored([300, 250], [100, 100])
    for other in (scored([300, 250], [100, 90]), scored([300, 250], [100, 100], "1" * 64)):
        assert isinstance(delta_interval_pct(other, base, 0.95), Absent)
    one = scored([300], [100])
    assert isinstance(delta_interval_pct(one, one, 0.95), Absent)
