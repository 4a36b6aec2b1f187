"""The bound on scripted boards: the truth inside, resets refused, an unseen part outside."""

from __future__ import annotations

import pytest

from benchmarks.boards import (
    as_text,
    counts,
    locked_scene,
    main,
    outcome,
    scene,
    try_boards,
)
from ecocompute_cube.model.base import Absent, present

SEEDS = range(1, 101)


def test_the_truth_lies_within_the_bound_and_no_reset_gives_a_number() -> None:
    found = try_boards(SEEDS)
    assert len(found.plain) + found.short == len(SEEDS)
    assert found.missed == []
    assert found.resets > 90
    assert found.passed == []


def test_what_a_sensor_does_not_see_is_outside_the_bound() -> None:
    locked = [outcome(locked_scene(seed)) for seed in range(1, 9)]
    assert sum(each.inside for each in locked) <= 1
    assert max(abs(each.error_pct) for each in locked) > 20


def test_a_sensor_that_sees_everything_is_not_fooled_by_a_locked_load() -> None:
    for seed in range(1, 9):
        locked = locked_scene(seed)
        assert outcome(locked._replace(behaviour=locked.behaviour._replace(duty=1.0))).inside


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_counter_that_stops_before_the_work_gives_no_number(seed: int) -> None:
    drawn = scene(seed)
    calm = outcome(drawn)
    assert present(calm.window.counter)
    begun_s = (calm.window.work.start_ns - 1_000_000_000) / 1e9
    stuck = outcome(drawn._replace(behaviour=drawn.behaviour._replace(stuck_after_s=begun_s)))
    assert isinstance(stuck.judged.energy, Absent)
    assert stuck.judged.energy.reason.startswith("counter_stuck: ")
    assert not counts(stuck.judged)


def test_a_seed_is_a_scene() -> None:
    assert scene(7) == scene(7) != scene(8)


def test_the_figures_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--boards", "4"]) == 0
    printed = capsys.readouterr().out
    assert "true energy × gain within the bound: 4 of 4 (100.00 %)" in printed
    assert "outside the bound 1 of 1" in printed
    few = try_boards(range(1, 3))
    assert "boards: 2 with a number" in as_text(few, [few.plain[0]], 1.0)
