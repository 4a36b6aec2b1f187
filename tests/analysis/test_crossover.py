"""The size at which a change turns its sign: found, bounded, or refused with a reason."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ecocompute_cube.analysis.crossover import Measured, crossover
from ecocompute_cube.analysis.ratios import as_percent, t_interval
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.crossover import Crossover, SizeRange
from ecocompute_cube.model.published import published
from ecocompute_cube.units import percent

SIZES = (0.5, 1.1, 1.5, 3.0, 7.0, 14.0)


def sizes_with(
    changes: Sequence[float], sizes: Sequence[float] = SIZES, spread: float = 0.01, n: int = 3
) -> list[Measured]:
    """Sessions evenly around each log ratio, so that their mean is the ratio itself."""
    around = [spread * (2 * k / (n - 1) - 1) if n > 1 else 0.0 for k in range(n)]
    return [
        Measured(size, f"{size}B", {(k, 0): change + each for k, each in enumerate(around)})
        for size, change in zip(sizes, changes, strict=True)
    ]


def falling(zero: float, slope: float = 0.2) -> list[float]:
    return [-slope * math.log(size / zero) for size in SIZES]


def around(found: Crossover) -> tuple[float, float]:
    assert isinstance(found.size_range_b, SizeRange)
    low, high = found.size_range_b.low_b, found.size_range_b.high_b
    assert present(low) and present(high)
    return low, high


# Found


@given(zero=st.floats(0.6, 12), slope=st.floats(0.1, 1), rises=st.booleans())
def test_a_straight_truth_is_recovered_whichever_way_it_goes(
    zero: float, slope: float, rises: bool
) -> None:
    found = crossover(sizes_with(falling(zero, -slope if rises else slope), spread=1e-5), 0.95)
    assert found.status == "crosses"
    assert present(found.size_b) and found.size_b == pytest.approx(zero, rel=1e-3)
    assert found.direction == ("rises" if rises else "falls")
    low, high = around(found)
    assert low < zero < high < 1.01 * low


@given(
    steps=st.lists(st.floats(0.05, 0.5), min_size=len(SIZES) - 1, max_size=len(SIZES) - 1),
    start=st.floats(-1, 2),
)
def test_monotone_data_go_through_the_fit_unchanged(steps: list[float], start: float) -> None:
    changes = [start - sum(steps[:count]) for count in range(len(SIZES))]
    found = crossover(sizes_with(changes, spread=1e-4), 0.95)
    fitted = {point.params_b: point.change_pct for point in found.curve}
    for size, change in zip(SIZES, changes, strict=True):
        assert fitted[size] == pytest.approx(percent(math.exp(change)), rel=1e-9, abs=1e-9)
    drawn = [point.change_pct for point in found.curve]
    assert all(b <= a + 1e-9 for a, b in itertools.pairwise(drawn))


@given(order=st.permutations(range(len(SIZES))), zero=st.floats(1, 8))
def test_the_order_of_the_points_does_not_matter(order: list[int], zero: float) -> None:
    points = sizes_with(falling(zero))
    assert crossover([points[k] for k in order], 0.95) == crossover(points, 0.95)


@given(
    changes=st.lists(st.floats(-1, 1), min_size=3, max_size=len(SIZES)),
    spread=st.floats(0.001, 0.5),
    n=st.integers(1, 5),
)
@example(changes=[0.125, 0.0, 8e-75, -0.625], spread=0.5, n=1)  # almost flat where it crosses
def test_the_band_holds_the_fit_and_the_range_holds_the_size(
    changes: list[float], spread: float, n: int
) -> None:
    points = sizes_with(changes, SIZES[: len(changes)], spread, n)
    found = crossover(points, 0.95)
    for point in found.curve:
        if present(point.low_pct) and present(point.high_pct):
            assert point.low_pct <= point.change_pct <= point.high_pct
    if present(found.size_b):
        assert SIZES[0] <= found.size_b <= SIZES[len(changes) - 1]
    if present(found.size_b) and present(found.size_range_b):
        low, high = found.size_range_b.low_b, found.size_range_b.high_b
        assert not present(low) or SIZES[0] <= low <= found.size_b
        assert not present(high) or found.size_b <= high <= SIZES[-1]
    assert present(found.size_b) or found.status != "crosses"


def test_more_confidence_is_a_wider_range_and_more_sessions_a_narrower_one() -> None:
    low, high = around(crossover(sizes_with(falling(3)), 0.95))
    wide_low, wide_high = around(crossover(sizes_with(falling(3)), 0.99))
    near_low, near_high = around(crossover(sizes_with(falling(3), n=9), 0.95))
    assert wide_low < low < near_low < 3 < near_high < high < wide_high


def test_models_of_one_size_are_one_point_whose_difference_is_spread() -> None:
    points = sizes_with(falling(3))
    twin = Measured(3.0, "twin", {(0, 0): 0.05, (1, 0): 0.05})
    found = crossover([*points, twin], 0.95)
    (here,) = [point for point in found.points if point.params_b == 3.0]
    assert (here.models, here.n) == (("3.0B", "twin"), 5)
    alone = crossover(points, 0.95)
    assert present(found.spread_pct) and present(alone.spread_pct)
    assert found.spread_pct > alone.spread_pct


# Replicates


def test_blocks_are_the_replicate_until_a_size_has_several_sessions() -> None:
    blocks = [
        Measured(size, "m", {(0, block): change + 0.01 * block for block in range(3)})
        for size, change in zip(SIZES, falling(3), strict=True)
    ]
    found = crossover(blocks, 0.95)
    assert (found.unit, found.degrees) == ("blocks", 2 * len(SIZES))
    again = {**blocks[0].logs, (1, 0): blocks[0].logs[0, 0]}
    found = crossover([blocks[0]._replace(logs=again), *blocks[1:]], 0.95)
    assert (found.unit, found.degrees) == ("sessions", 1)
    assert [point.n for point in found.points] == [2, 1, 1, 1, 1, 1]


def test_a_point_has_an_interval_by_its_own_replicates_or_says_why_not() -> None:
    several = crossover(sizes_with(falling(2.0)), 0.95)
    for point, change in zip(several.points, falling(2.0), strict=True):
        assert present(point.interval_pct) and point.interval_pct.n == point.n == 3
        logs = [change - 0.01, change, change + 0.01]
        own = as_percent(t_interval(logs, 0.95, "sessions"))
        assert present(own)
        assert point.interval_pct.low == pytest.approx(own.low)
        assert point.interval_pct.high == pytest.approx(own.high)
    one = crossover(sizes_with(falling(2.0), n=1), 0.95)
    for point in one.points:
        assert isinstance(point.interval_pct, Absent)
        assert "a spread needs at least two" in point.interval_pct.reason


def test_one_replicate_a_size_has_a_fit_and_no_range() -> None:
    found = crossover(sizes_with(falling(3), n=1), 0.95)
    assert found.status == "undecided" and isinstance(found.size_range_b, Absent)
    assert "no spread to pool" in found.says
    assert present(found.size_b) and found.size_b == pytest.approx(3)
    assert not [point for point in found.curve if present(point.low_pct)]


# Not found


@pytest.mark.parametrize(("shift", "word"), [(2.0, "costs"), (-2.0, "saves")])
def test_a_sign_that_never_turns_is_not_in_this_range(shift: float, word: str) -> None:
    found = crossover(sizes_with([change + shift for change in falling(3)]), 0.95)
    assert found.status == "not in this range"
    assert found.says == f"{word} energy at every size from 0.5B to 14B"
    assert isinstance(found.size_b, Absent) and isinstance(found.size_range_b, Absent)


def test_nothing_is_said_of_sizes_that_were_not_measured() -> None:
    found = crossover(sizes_with(falling(14.2)), 0.95)
    assert found.status == "undecided" and isinstance(found.size_b, Absent)
    assert isinstance(found.size_range_b, SizeRange)
    assert present(found.size_range_b.low_b) and 10 < found.size_range_b.low_b < 14
    assert isinstance(found.size_range_b.high_b, Absent)
    assert max(point.params_b for point in found.curve) == 14.0
    assert "above the largest size measured" in found.says


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_sizes_are_refused(count: int) -> None:
    found = crossover(sizes_with(falling(3)[:count], SIZES[:count]), 0.95)
    assert found.status == "refused" and found.curve == ()
    assert found.says == f"too few sizes: {count}, and a curve takes 3"


def test_a_size_plainly_out_of_order_is_refused_and_named() -> None:
    changes = falling(20)
    changes[2] += 0.3
    found = crossover(sizes_with(changes), 0.95)
    assert found.status == "refused"
    assert found.says.startswith("not monotone: the change mostly falls with size, yet rises")
    assert "from 1.1B to 1.5B" in found.says


def test_a_size_out_of_order_by_less_than_the_spread_is_no_reason() -> None:
    changes = falling(20)
    changes[2] = changes[1] + 0.01
    assert crossover(sizes_with(changes, spread=0.05), 0.95).status != "refused"


def test_chance_alone_is_seldom_called_disorder() -> None:
    draw = random.Random(7)
    refused = 0
    for _ in range(200):
        logs = [{(k, 0): draw.gauss(0, 0.02) for k in range(3)} for _ in SIZES]
        points = [Measured(size, "m", each) for size, each in zip(SIZES, logs, strict=True)]
        refused += crossover(points, 0.95).status == "refused"
    assert refused <= 10  # 5 % at most: these sizes are all alike, the hardest case


# Published


def of_session(prefix: str, precision: str) -> list[Measured]:
    rows = [
        row
        for row in published()
        if row.session.startswith(prefix)
        and row.precision == precision
        and not {"trial_run", "lengths_differ"} & {*row.remarks}
    ]
    sizes: dict[tuple[float, str], dict[tuple[int, int], float]] = {}
    sessions = sorted({row.session for row in rows})
    for row in rows:
        logs = sizes.setdefault((row.params_b, row.model), {})
        logs[sessions.index(row.session), len(logs)] = row.log_ratio
    return [Measured(size, model, logs) for (size, model), logs in sizes.items()]


def test_two_published_sessions_cross_near_where_their_publisher_says() -> None:
    found = crossover(of_session("rtx5090-2026-09-20", "NF4"), 0.95)
    low, high = around(found)
    assert (found.status, found.unit) == ("crosses", "sessions")
    assert low < 1.8 < high  # the publisher's own crossover of this stack


def test_published_int8_is_out_of_order_and_refused() -> None:
    found = crossover(of_session("rtx5090-2026-09-20", "INT8"), 0.95)
    assert found.status == "refused" and "from 1.1B to 1.5B" in found.says


def test_published_fp8_rises_with_size_and_never_pays() -> None:
    found = crossover(of_session("rtx5090-fp8", "FP8-WO"), 0.95)
    assert found.direction == "rises" and isinstance(found.size_b, Absent)
