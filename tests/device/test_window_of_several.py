"""A window over several boards: each board's energy lies within the bound of its own readings."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from ecocompute_cube.analysis.energy import WindowEnergy, counter_energy
from ecocompute_cube.analysis.idle import PowerReadings, idle_around
from ecocompute_cube.device.scripted import Behaviour, ScriptedBoard, ScriptedClock
from ecocompute_cube.engine.idle import read_idle
from ecocompute_cube.engine.window import Window, measure, measure_tick
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.readings import CounterBracket
from ecocompute_cube.units import Watt, seconds

ROUNDING_J = 0.005  # the counter counts whole millijoules


class Part(NamedTuple):
    """One board of a case."""

    behaviour: Behaviour
    phase_s: float  #: by which its ticks come later than the first board's
    load_w: float


class Case(NamedTuple):
    parts: list[Part]
    work_s: float
    delay_s: float


@st.composite
def cases(draw: st.DrawFn) -> Case:
    tick_s = draw(st.sampled_from([0.02, 0.1]))
    parts = [
        Part(
            Behaviour(
                idle_w=draw(st.floats(20, 150)),
                tick_s=tick_s,
                call_s=draw(st.floats(1e-4, 0.15 * tick_s)),
                lag_s=tick_s * draw(st.floats(0, 1)),
            ),
            phase_s=tick_s * draw(st.floats(0, 1)),
            load_w=draw(st.floats(150, 700)),
        )
        for _ in range(draw(st.integers(2, 3)))
    ]
    return Case(parts, draw(st.floats(0.5, 10)), tick_s * draw(st.floats(0, 1)))


class Stage:
    """The boards of a case, and time."""

    def __init__(self, case: Case) -> None:
        self.case, self.clock = case, ScriptedClock()
        self.boards: list[ScriptedBoard] = []
        for part in sorted(case.parts, key=lambda part: part.phase_s):
            self.clock.sleep(part.phase_s)
            self.boards.append(ScriptedBoard(self.clock, part.behaviour))
        self.clock.sleep(1.0)

    def work(self) -> None:
        start = self.clock.now_ns()
        self.clock.sleep(self.case.work_s)
        for board, part in zip(self.boards, self.case.parts, strict=True):
            board.drew(start, part.load_w)

    def measure(self) -> Window:
        first, *others = self.boards
        delay_s = self.case.delay_s
        return measure(first, self.clock, lambda: None, self.work, delay_s, others)

    def energies(self) -> list[tuple[WindowEnergy | Absent, float]]:
        """Of each board, by its readings and in truth."""
        ticks = [measure_tick(board, self.clock, ticks=3) for board in self.boards]
        window = self.measure()
        found: list[tuple[WindowEnergy | Absent, float]] = []
        for board, counter, tick in zip(
            self.boards, (window.counter, *window.others), ticks, strict=True
        ):
            assert present(counter) and present(tick)
            highest = Watt(max(part.load_w for part in self.case.parts))
            look_s = seconds(window.look_ns)
            energy = counter_energy(counter, window.work, tick, highest, look_s)
            true_j = board.true_energy_j(window.work.start_ns, window.work.end_ns)
            found.append((energy, true_j))
        return found


@given(cases())
@settings(max_examples=60, deadline=None)
def test_the_true_energy_of_every_board_and_so_their_sum_lies_within_the_bound(case: Case) -> None:
    for energy, true_j in Stage(case).energies():
        assert present(energy), energy
        assert energy.low - ROUNDING_J <= true_j <= energy.high + ROUNDING_J
        assert energy.low <= energy.energy <= energy.high


@given(cases())
@settings(max_examples=30, deadline=None)
def test_idle_power_of_every_board_is_known_within_its_slack(case: Case) -> None:
    stage = Stage(case)
    readings = read_idle(stage.boards, stage.clock, frozenset(), 1.0)
    none = PowerReadings(Absent(reason="no trace"), 0.0)
    for board, reading in zip(stage.boards, readings, strict=True):
        idle = idle_around(reading, reading, none)
        assert present(idle), idle
        assert abs(idle.mean - board.behaviour.idle_w) <= idle.slack + ROUNDING_J


TWO = Case([Part(Behaviour(), 0.0, 300.0), Part(Behaviour(), 0.037, 200.0)], 5.0, 0.03)


def test_no_board_is_read_within_the_work_and_ticks_that_were_seen_late_are_owned_up_to() -> None:
    stage = Stage(TWO)
    window = stage.measure()
    assert present(window.counter)
    for counter in (window.counter, *window.others):
        assert isinstance(counter, CounterBracket)
        assert counter.opening.after_ns <= window.work.start_ns
        assert counter.closing.before_ns >= window.work.end_ns
    calls_s = 2 * Behaviour().call_s
    assert calls_s <= seconds(window.look_ns) <= calls_s + 0.002


def test_a_single_board_has_no_look_to_own_up_to() -> None:
    alone = Stage(TWO._replace(parts=TWO.parts[:1])).measure()
    assert (alone.others, alone.look_ns) == ((), 0)


def test_a_board_whose_counter_stands_still_has_a_reason_and_the_other_its_readings() -> None:
    stuck = TWO.parts[1]._replace(behaviour=Behaviour(stuck_after_s=0.5))
    window = Stage(TWO._replace(parts=[TWO.parts[0], stuck])).measure()
    assert present(window.counter)
    assert window.counter.closing.energy_mj > window.counter.opening.energy_mj
    (other,) = window.others
    assert isinstance(other, Absent) and "did not move" in other.reason


def test_readings_of_a_window_are_those_of_its_own_board() -> None:
    (first, first_j), (second, second_j) = Stage(TWO).energies()
    assert present(first) and present(second)
    assert first_j == 1500.0 and second_j == 1000.0
    assert abs(first.energy / first_j - 1) < 0.02 and abs(second.energy / second_j - 1) < 0.02
