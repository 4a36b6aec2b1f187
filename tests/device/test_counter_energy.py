"""Energy by the counter against the scripted board's truth: within the printed bound, always."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ecocompute_cube.analysis.energy import WindowEnergy, counter_energy
from ecocompute_cube.device.scripted import Behaviour, ScriptedBoard, ScriptedClock
from ecocompute_cube.engine.window import measure, measure_tick
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.readings import (
    CounterBracket,
    Span,
    Tick,
)
from ecocompute_cube.units import Watt, joules

DRIVER_LOADED_W = 1000.0  # with this, for a day: a counter that stands far above any window
DAY_S = 86_400.0


class Case(NamedTuple):
    """A board, a moment, and a piece of work."""

    tick_s: float
    call_s: float
    lag: float  #: of a tick
    idle_w: float
    load_w: float
    phase_s: float  #: since the tick before the window was begun
    delay: float  #: of a tick
    work_s: float


def cases(longest_call_s: float = 0.040, lag: float = 1.0) -> st.SearchStrategy[Case]:
    watts = st.tuples(st.floats(5, 300), st.floats(5, 1000)).map(sorted)  # load is never below idle
    return st.builds(
        lambda w, **rest: Case(idle_w=w[0], load_w=w[1], **rest),
        watts,
        tick_s=st.floats(0.020, 0.200),
        call_s=st.floats(0, longest_call_s),
        lag=st.floats(0, lag),
        phase_s=st.floats(0, 0.2),
        delay=st.floats(0, 1, exclude_max=True),
        work_s=st.floats(1, 60),
    )


class Outcome(NamedTuple):
    """What was read and what was true."""

    bracket: CounterBracket
    work: Span
    tick: Tick
    highest: Watt
    true_j: float

    @property
    def energy(self) -> WindowEnergy | Absent:
        return counter_energy(self.bracket, self.work, self.tick, self.highest)


def outcome(case: Case, reset_s: float | None = None) -> Outcome | Absent:
    clock = ScriptedClock()
    behaviour = Behaviour(
        idle_w=case.idle_w,
        tick_s=case.tick_s,
        call_s=case.call_s,
        lag_s=case.lag * case.tick_s,
        reset_at_s=None if reset_s is None else DAY_S + reset_s,
    )
    board = ScriptedBoard(clock, behaviour)
    board.work(DAY_S, DRIVER_LOADED_W)
    tick = measure_tick(ScriptedBoard(clock, behaviour._replace(reset_at_s=None)), clock, ticks=3)
    assert present(tick)
    clock.sleep(case.phase_s)
    window = measure(
        board,
        clock,
        lambda: None,
        lambda: board.work(case.work_s, case.load_w),
        case.delay * case.tick_s,
    )
    if isinstance(window.counter, Absent):
        return window.counter
    true_j = board.true_energy_j(window.work.start_ns, window.work.end_ns)
    highest = Watt(max(case.idle_w, case.load_w))
    return Outcome(window.counter, window.work, tick, highest, true_j)


@given(cases())
@settings(max_examples=40, deadline=None)
def test_the_true_energy_lies_within_the_bound(case: Case) -> None:
    seen = outcome(case)
    assert isinstance(seen, Outcome)
    assert present(seen.energy)
    rounding = 0.005  # the counter counts whole millijoules
    assert seen.energy.low - rounding <= seen.true_j <= seen.energy.high + rounding
    assert seen.energy.low <= seen.energy.energy <= seen.energy.high


@given(cases(lag=0.0))
@settings(max_examples=40, deadline=None)
def test_without_lag_five_seconds_are_known_within_two_percent(case: Case) -> None:
    assume(case.work_s >= 5)
    seen = outcome(case)
    assert isinstance(seen, Outcome)
    assert present(seen.energy)
    assert abs(seen.energy.energy / seen.true_j - 1) <= 0.02


@given(cases(), st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_a_counter_that_starts_again_is_always_caught(case: Case, share: float) -> None:
    undisturbed = outcome(case)
    assert isinstance(undisturbed, Outcome)
    first, last = undisturbed.bracket.previous.after_ns, undisturbed.bracket.after_next.before_ns
    start_ns = 1_000_000_000 + int(DAY_S * 1e9)
    reset_s = (first + share * (last - first) - start_ns) / 1e9
    seen = outcome(case, reset_s)
    if isinstance(seen, Absent):
        return
    old = [joules(reading.energy_mj) > 1e6 for reading in seen.bracket.__dict__.values()]
    if all(old) or not any(old):
        return  # the reset came before the first tick that was read, or after the last
    assert isinstance(seen.energy, Absent)
    assert seen.energy.reason.startswith("counter_reset")
