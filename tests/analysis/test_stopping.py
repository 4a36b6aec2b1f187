"""The adaptive rule ends a session when every interval is as narrow as asked, and not before."""

from __future__ import annotations

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.analysis.ratios import interval_of, t_interval
from ecocompute_cube.analysis.stopping import half_width_pct, look
from ecocompute_cube.model.base import present
from ecocompute_cube.model.plan import Protocol
from ecocompute_cube.model.stop import AdaptiveStop

QUIET = [0.1, 0.101] * 4
LOUD = [0.1, 0.3] * 4
log_ratios = st.lists(st.floats(-1, 1), min_size=8, max_size=40)


def protocol(**stop: object) -> Protocol:
    data = {"mode": "precise", "stop": {"rule": "adaptive", **stop}}
    return Protocol.model_validate_json(json.dumps(data))


def rule(asked: Protocol) -> AdaptiveStop:
    assert isinstance(asked.stop, AdaptiveStop)
    return asked.stop


def ended(asked: Protocol, *contrasts: list[float], blocks: int | None = None) -> str | None:
    count = max(map(len, contrasts), default=0) if blocks is None else blocks
    return look(asked, rule(asked), count, contrasts).ended


def test_narrow_intervals_end_it_at_the_least_number_of_blocks() -> None:
    assert ended(protocol(), QUIET) == "narrow enough"
    assert ended(protocol(), QUIET[:7]) is None
    assert ended(protocol(min_blocks=9), QUIET) is None


def test_one_wide_contrast_keeps_all_of_them_going() -> None:
    assert ended(protocol(), QUIET, LOUD) is None
    assert ended(protocol(), QUIET, QUIET) == "narrow enough"


def test_the_greatest_number_of_blocks_ends_it_however_wide() -> None:
    found = look(protocol(max_blocks=8), rule(protocol(max_blocks=8)), 8, [LOUD])
    assert found.ended == "maximum"
    assert present(found.widest_pct) and found.widest_pct > 2


def test_pairs_that_do_not_count_are_no_blocks_of_a_contrast() -> None:
    assert ended(protocol(), QUIET, QUIET[:7], blocks=8) is None


def test_where_nothing_is_compared_the_least_number_is_enough() -> None:
    assert ended(protocol(), blocks=8) == "nothing to wait for"
    assert ended(protocol(), blocks=7) is None


@given(log_ratios, st.floats(0.1, 20))
def test_it_ends_exactly_when_the_printed_interval_is_as_narrow_as_asked(
    values: list[float], asked_pct: float
) -> None:
    asked = protocol(half_width_pct=asked_pct, max_blocks=50)
    interval = interval_of(values, asked, "blocks")
    assert present(interval)
    half = (math.exp(interval.high) - math.exp(interval.low)) / 2
    centre = math.exp((interval.high + interval.low) / 2)
    narrow = half_width_pct(interval) <= asked_pct
    assert half_width_pct(interval) == pytest.approx(100 * half / centre, rel=1e-6, abs=1e-9)
    assert (ended(asked, values) == "narrow enough") is narrow


@given(log_ratios)
def test_looks_are_paid_for_with_a_wider_interval_of_the_same_name(values: list[float]) -> None:
    plain, paid = t_interval(values, 0.95, "blocks"), interval_of(values, protocol(), "blocks")
    assert present(plain) and present(paid)
    assert paid.confidence == plain.confidence
    assert paid.low <= plain.low and plain.high <= paid.high


@pytest.mark.parametrize("unit", ["blocks", "sessions"])
def test_only_looks_at_blocks_are_paid_for(unit: str) -> None:
    fixed = Protocol()
    assert interval_of(QUIET, fixed, "blocks") == t_interval(QUIET, 0.95, "blocks")
    assert interval_of(QUIET, protocol(), "sessions") == t_interval(QUIET, 0.95, "sessions")


@pytest.mark.parametrize("noise", [0.01, 0.025])
def test_the_interval_of_a_run_that_looked_covers_the_truth(noise: float) -> None:
    """The whole table is ``python -m benchmarks.coverage``."""
    draw, asked, runs, covered = random.Random(20260103), protocol(), 400, 0
    for _ in range(runs):
        values = [draw.gauss(0.1, noise * math.sqrt(2)) for _ in range(8)]
        while ended(asked, values) is None:
            values.append(draw.gauss(0.1, noise * math.sqrt(2)))
        found = interval_of(values, asked, "blocks")
        assert present(found)
        covered += found.low <= 0.1 <= found.high
    assert 0.92 <= covered / runs <= 0.985
