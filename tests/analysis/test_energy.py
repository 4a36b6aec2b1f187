"""One window's energy by hand; tests/device recovers it from scripted boards."""

from __future__ import annotations

import pytest

from ecocompute_cube.analysis.energy import counter_energy
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.readings import (
    CounterBracket,
    CounterReading,
    Span,
    Tick,
)
from ecocompute_cube.units import Watt

TICK = Tick(
    median_ms=100.0,
    shortest_ms=100.0,
    longest_ms=100.0,
    ticks=20,
    call_median_ms=0.0,
    call_longest_ms=0.0,
)


def reading(at_ms: int, joule: int, call_ms: int = 0) -> CounterReading:
    start, end = at_ms * 1_000_000, (at_ms + call_ms) * 1_000_000
    return CounterReading(before_ns=start, energy_mj=joule * 1000, after_ns=end)


def bracket(*joules: int, call_ms: int = 0) -> CounterBracket:
    previous, opening, closing, following, last = joules
    return CounterBracket(
        previous=reading(900, previous),
        opening=reading(1000, opening, call_ms),
        closing=reading(2050, closing, call_ms),
        next=reading(2100, following),
        after_next=reading(2200, last),
    )


#: 80 W, and from 1.05 s to 2.05 s 200 W: at each tick the counter shows what has flowed by then.
BRACKET = bracket(0, 8, 202, 216, 224)
WORK = Span(start_ns=1_050_000_000, end_ns=2_050_000_000)


def test_a_window_by_hand() -> None:
    """202 − 8 J by the last tick; 80 W · 0.05 s of it before the work; 200 W · 0.05 s after it."""
    found = counter_energy(BRACKET, WORK, TICK, Watt(700))
    assert present(found)
    assert found.energy == pytest.approx(200)
    assert found.idle == pytest.approx(80)
    assert found.low == pytest.approx(190 - 8)
    assert found.high == pytest.approx(216 - 4)


def test_slow_calls_widen_the_bound_and_nothing_else() -> None:
    slow = bracket(0, 8, 202, 216, 224, call_ms=5)
    found = counter_energy(slow, WORK, TICK, Watt(700))
    assert present(found)
    assert found.energy == pytest.approx(200)
    assert found.low == pytest.approx(182 - 2 * 0.005 * 700)
    assert found.high == pytest.approx(212 + 2 * 0.005 * 700)


@pytest.mark.parametrize(
    ("joules", "reason"),
    [
        ((8, 0, 202, 216, 224), "counter_reset"),
        ((0, 8, 4, 216, 224), "counter_reset"),
        ((0, 8, 202, 0, 4), "counter_reset"),
        ((0, 8, 202, 216, 0), "counter_reset"),
        ((0, 8, 8, 216, 224), "counter_stuck"),
        ((0, 0, 0, 0, 0), "counter_stuck"),
    ],
)
def test_readings_of_no_running_counter_give_a_reason(
    joules: tuple[int, int, int, int, int], reason: str
) -> None:
    found = counter_energy(bracket(*joules), WORK, TICK, Watt(700))
    assert isinstance(found, Absent)
    assert found.reason.startswith(f"{reason}: ")
