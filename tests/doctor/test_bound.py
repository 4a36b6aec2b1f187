"""The bound that is told beforehand is one that windows keep."""

from __future__ import annotations

import pytest

from ecocompute_cube.analysis.energy import counter_energy
from ecocompute_cube.device.scripted import Behaviour, ScriptedBoard, ScriptedClock
from ecocompute_cube.doctor.examine import bound_pct, quick_tick
from ecocompute_cube.engine.window import measure
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.doctor import WINDOW_S
from ecocompute_cube.model.readings import PowerKind
from ecocompute_cube.units import Watt


@pytest.mark.parametrize("tick_s", [0.02, 0.1, 0.2])
@pytest.mark.parametrize("call_s", [0.0001, 0.003, 0.033])
@pytest.mark.parametrize("delay_s", [0.0, 0.013, 0.09])
def test_a_window_at_the_limit_is_bounded_as_foretold(
    tick_s: float, call_s: float, delay_s: float
) -> None:
    clock = ScriptedClock()
    board = ScriptedBoard(clock, Behaviour(idle_w=700.0, tick_s=tick_s, call_s=call_s))
    tick = quick_tick(board, clock)
    assert present(tick)
    window = measure(board, clock, lambda: None, lambda: board.work(WINDOW_S, 700.0), delay_s)
    assert present(window.counter)
    found = counter_energy(window.counter, window.work, tick, Watt(700.0))
    assert present(found)
    foretold = bound_pct(PowerKind.COUNTER, tick)
    assert present(foretold)
    off = max(found.high - found.energy, found.energy - found.low)
    assert 100 * off / found.energy <= foretold * 1.02
    assert foretold <= 2.5


@pytest.mark.parametrize("tick_s", [0.005, 0.1, 0.7, 1.8])
def test_a_slow_counter_is_asked_less_often(tick_s: float) -> None:
    clock = ScriptedClock()
    begun = clock.now_ns()
    board = ScriptedBoard(clock, Behaviour(tick_s=tick_s, call_s=0.0001))
    tick = quick_tick(board, clock)
    assert present(tick) and tick.median_ms == pytest.approx(1e3 * tick_s, rel=0.25)
    assert (clock.now_ns() - begun) / 1e9 < 4.2


def test_a_counter_that_stands_still_is_given_up_soon() -> None:
    clock = ScriptedClock()
    begun = clock.now_ns()
    board = ScriptedBoard(clock, Behaviour(stuck_after_s=0.0))
    assert not present(quick_tick(board, clock))
    assert (clock.now_ns() - begun) / 1e9 < 2.5


def test_without_a_source_there_is_no_bound() -> None:
    assert not present(bound_pct(PowerKind.NONE, Absent(reason="nothing")))
    left_alone = Absent(reason="others have the board")
    assert bound_pct(PowerKind.COUNTER, left_alone) == left_alone
