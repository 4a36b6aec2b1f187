"""Simulated experiments: what the adaptive rule and the report's interval come to together."""

from __future__ import annotations

import random

import pytest

from benchmarks.coverage import (
    BESIDE,
    PROTOCOL,
    SESSIONS,
    World,
    covered,
    experiment,
    main,
    outcome,
)


@pytest.mark.parametrize("name", ["block noise 1 %", "block noise 3 %"])
def test_a_sessions_own_ratio_is_covered_as_often_as_the_interval_says(name: str) -> None:
    found = outcome(SESSIONS[name], 300, seed=5)
    assert 0.91 <= found.own <= 0.99


def test_one_session_does_not_cover_what_other_sessions_show() -> None:
    found = outcome(BESIDE["one session, sessions differ by 2 %"], 200, seed=5)
    assert found.everyones < 0.7 < found.own


def test_more_noise_takes_more_blocks_and_never_more_than_the_plan_allows() -> None:
    quiet, loud = (outcome(World(noise), 30, seed=5).blocks for noise in (0.01, 0.05))
    assert sum(quiet) < sum(loud)
    assert min(quiet) == PROTOCOL.least_blocks and max(loud) == PROTOCOL.most_blocks


def test_without_noise_the_interval_is_the_truth_and_its_neighbour_is_not_covered() -> None:
    cells, truth, (blocks,) = experiment(World(1e-9), random.Random(5))
    assert blocks == 8
    assert covered(cells, truth)
    assert not covered(cells, truth + 0.1)


def test_the_figures_are_printed_with_their_n(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--experiments", "20"])
    told = capsys.readouterr().out
    assert all(name in told for name in (*SESSIONS, *BESIDE))
    assert "n = 20 each" in told
