"""The parts of a step's energy against steps that another model has made."""

from __future__ import annotations

import random
import statistics

import pytest

from benchmarks.why import board, calibration, errors, kernels, main, run, truth

STEPS = 120


@pytest.fixture(scope="module")
def found() -> list[tuple[float, ...]]:
    draw = random.Random(7)
    return [errors(draw) for _ in range(STEPS)]


def test_errors_of_exclusive_parts_cancel(found: list[tuple[float, ...]]) -> None:
    assert all(sum(each) == pytest.approx(0, abs=1e-6) for each in found)


def test_another_model_is_not_taken_apart_without_error(found: list[tuple[float, ...]]) -> None:
    for part in range(5):
        assert statistics.pstdev(each[part] for each in found) > 0


def test_waiting_is_found_within_a_fifth_of_the_energy(
    found: list[tuple[float, ...]],
) -> None:
    sizes = sorted(abs(each[0]) for each in found)
    assert sizes[round(0.95 * STEPS)] < 20


def test_a_captured_step_takes_no_longer_where_its_kernels_do_not() -> None:
    draw = random.Random(3)
    for _ in range(20):
        on = board(draw)._replace(in_graph=1.0, more_gap_s=2e-6)
        step = kernels(draw, on)
        assert run(step, on, captured=True).step_s <= run(step, on, captured=False).step_s


def test_the_truth_adds_up() -> None:
    draw = random.Random(5)
    on = board(draw)
    true = truth(kernels(draw, on), on)
    assert sum(true.parts) == pytest.approx(true.eager.energy_j)
    assert calibration(on).joule_per_byte > on.byte_j


def test_it_prints_a_line_a_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--steps", "20"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        "idle_waiting",
        "idle_busy",
        "memory",
        "compute",
        "unattributed",
    ]
