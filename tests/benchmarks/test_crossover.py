"""Simulated curves: how often the range of a crossover holds the true size."""

from __future__ import annotations

import pytest

from benchmarks.crossover import FORMS, NO_ORDER, NO_ZERO, WORLDS, World, main, outcome


@pytest.mark.parametrize("form", FORMS)
def test_the_range_holds_the_truth_as_often_as_it_says(form: str) -> None:
    found = outcome(World(FORMS[form], 3), 120, seed=5)
    assert found.held >= 0.92 and abs(found.bias) < 0.03
    assert found.said["crosses"] > 0.95


def test_more_sessions_make_narrower_ranges() -> None:
    few, many = (outcome(World(FORMS["straight"], n), 40, seed=5).width for n in (2, 8))
    assert 1 < many < few


def test_no_zero_is_no_crossover_and_no_order_no_fit() -> None:
    (none,), (bent,) = NO_ZERO.values(), NO_ORDER.values()
    assert outcome(none, 30, seed=5).said["not in this range"] == 1
    assert outcome(bent, 30, seed=5).said["refused"] > 0.9


def test_the_figures_are_printed_with_their_n(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--experiments", "3"])
    told = capsys.readouterr().out
    assert all(name in told for name in (*WORLDS, *NO_ZERO, *NO_ORDER))
    assert "n = 3 each" in told and "nan" not in told
