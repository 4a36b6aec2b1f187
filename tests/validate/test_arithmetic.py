from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ecocompute_cube.analysis.arithmetic import disagreements

Json = dict[str, Any]
Change = Callable[[Json, str, object], Json]


def _codes(document: Json) -> set[str]:
    return {each.code.removeprefix("arithmetic.") for each in disagreements(document)}


@pytest.mark.parametrize(
    ("place", "value", "codes"),
    [
        ("results.energy_per_token_mj", 3550.0, {"energy_per_token", "vs_fp16"}),
        ("results.vs_fp16_energy_pct", 3.7, {"vs_fp16"}),
        ("results.vs_fp16_energy_pct", -3.5, {"vs_fp16"}),
        ("results.avg_power_watts", 200.0, {"power"}),
        ("measurement.iterations", 9, {"tokens_generated"}),
        ("workload.batch_size", 2, {"tokens_generated"}),
    ],
)
def test_a_figure_that_does_not_fit_is_named(
    conformant: Json, changed: Change, place: str, value: object, codes: set[str]
) -> None:
    assert _codes(changed(conformant, place, value)) == codes


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("results.energy_per_token_mj", 3546.0),
        ("results.vs_fp16_energy_pct", 3.4),
        ("results.avg_power_watts", 100.0),
        ("results.total_energy_joules", None),
        ("results.tokens_generated", None),
        ("results.throughput_tokens_per_s", {"reason": "not timed"}),
        ("measurement.iterations", ...),
    ],
)
def test_rounding_and_absence_are_no_disagreement(
    conformant: Json, changed: Change, place: str, value: object
) -> None:
    assert _codes(changed(conformant, place, value)) == set()


def test_no_tokens_at_all_is_said_once(conformant: Json, changed: Change) -> None:
    assert _codes(changed(conformant, "results.tokens_generated", 0)) == {"tokens_generated"}


def test_an_estimate_has_no_figures_to_check(conformant: Json, changed: Change) -> None:
    estimate = changed(conformant, "results.basis", "extrapolated")
    assert _codes(changed(estimate, "results.energy_per_token_mj", 1.0)) == set()


@pytest.mark.parametrize("block", ["measurement", "results"])
def test_blocks_multiply_the_tokens(ours: Json, changed: Change, block: str) -> None:
    document = changed(changed(ours, "measurement.blocks", ...), f"{block}.blocks", 2)
    assert _codes(document) == set()
    assert _codes(changed(document, f"{block}.blocks", 3)) == {"tokens_generated"}


def test_precise_windows_may_hold_more_iterations_than_the_fewest(
    ours: Json, changed: Change
) -> None:
    document = changed(ours, "measurement.mode", "precise")
    assert _codes(changed(document, "measurement.iterations", 9)) == set()
    assert _codes(changed(document, "measurement.iterations", 11)) == {"tokens_generated"}


def test_over_blocks_the_ratio_may_differ_a_little_from_that_of_the_sums(
    ours: Json, changed: Change
) -> None:
    assert _codes(changed(ours, "results.vs_fp16_energy_pct", 3.9)) == set()
    assert _codes(changed(ours, "results.vs_fp16_energy_pct", 5.0)) == {"vs_fp16"}
