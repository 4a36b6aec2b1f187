"""The integral's own bound: by hand, and against boards whose true energy is known."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecocompute_cube.analysis.traces import Bound, Trace, integral_bound, integrate
from ecocompute_cube.device.scripted import Behaviour, ScriptedBoard, ScriptedClock
from ecocompute_cube.model.base import present
from ecocompute_cube.model.readings import Span
from ecocompute_cube.units import Joule

MS = 1_000_000


def trace(*samples: tuple[int, float]) -> Trace:
    return Trace(tuple(t * MS for t, _ in samples), tuple(w for _, w in samples), ())


def bound(of: Trace, start_ms: int, end_ms: int, stale_s: float) -> Bound:
    return integral_bound(of, Span(start_ns=start_ms * MS, end_ns=end_ms * MS), stale_s)


STEP = trace((0, 100), (100, 100), (200, 300), (300, 300), (400, 300))


def test_steady_power_is_known_exactly() -> None:
    assert bound(trace((0, 100), (50, 100), (400, 100)), 25, 275, 0) == pytest.approx((25, 25))


def test_a_step_may_have_come_anywhere_between_two_samples() -> None:
    """0.1 s of 100 or 300 W, beside 0.1 s of 100 W and 0.1 s of 300 W."""
    assert bound(STEP, 0, 300, 0) == pytest.approx((50, 70))


def test_a_reading_that_may_be_old_lets_the_step_have_come_before() -> None:
    """Read at 0.2 s as of 0.1 s ago: the step may have come from 0.1 s on, not before."""
    assert bound(STEP, 0, 300, 0.1) == pytest.approx((50, 90))


def test_a_gap_widens_the_bound_by_itself() -> None:
    narrow, wide = (
        bound(trace((0, 100), (gap, 200), (600, 200)), 0, 600, 0.0) for gap in (50, 500)
    )
    assert narrow.high - narrow.low == pytest.approx(5)
    assert wide.high - wide.low == pytest.approx(50)


def test_a_bound_is_widened_at_both_ends() -> None:
    assert Bound(Joule(10), Joule(20)).wider(3) == Bound(Joule(7), Joule(23))


pieces = st.lists(st.tuples(st.floats(0.5, 3), st.floats(5, 1000)), min_size=1, max_size=12)


@given(
    loads=pieces,
    refresh_s=st.floats(0.01, 0.1),
    period_s=st.floats(0.01, 0.1),
    gain=st.floats(0.9, 1.1),
    cut=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
)
@settings(max_examples=100, deadline=None)
def test_true_energy_lies_within_when_power_stays_longer_than_a_reading_takes(
    loads: list[tuple[float, float]],
    refresh_s: float,
    period_s: float,
    gain: float,
    cut: list[float],
) -> None:
    clock = ScriptedClock()
    board = ScriptedBoard(clock, Behaviour(refresh_s=refresh_s, gain=gain))
    clock.sleep(0.5)
    begun = clock.now_ns()
    for duration_s, power_w in loads:
        board.work(duration_s, power_w)
    length = clock.now_ns() - begun
    work = Span(start_ns=begun + int(cut[0] * length), end_ns=begun + 1 + int(cut[1] * length))
    clock.sleep(0.5)
    steps = [0, *[round(period_s * 1e9)] * (int((clock.now_ns() - 1e9) / 1e9 / period_s))]
    times = tuple(accumulate(steps, initial=1_000_000_000))
    seen = Trace(times, tuple(board.shown_w(t) for t in times), ())
    found = integral_bound(seen, work, refresh_s)
    true_j = gain * board.true_energy_j(work.start_ns, work.end_ns)
    assert found.low - 1e-6 <= true_j <= found.high + 1e-6
    trapezoids = integrate(seen, work)
    assert present(trapezoids)
    assert found.low - 1e-6 <= trapezoids <= found.high + 1e-6
