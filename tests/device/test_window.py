"""The measuring window on scripted boards: order, missing counters, garbage collection, ticks."""

from __future__ import annotations

import gc
from itertools import groupby

import pytest

from ecocompute_cube.device.base import PowerSource
from ecocompute_cube.device.scripted import Behaviour, ScriptedBoard, ScriptedClock
from ecocompute_cube.engine.window import Window, measure, measure_tick, wait_for_tick
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.readings import CounterReading, Tick

IDLE = Behaviour(idle_w=100.0, tick_s=0.1, call_s=0.003)
STUCK = Absent(reason="the energy counter did not move for 2 s")


class Diary(ScriptedBoard):
    """A scripted board that writes down what happens, and may lose its counter at one reading."""

    def __init__(self, clock: ScriptedClock, behaviour: Behaviour, lost_at: int = 0) -> None:
        super().__init__(clock, behaviour)
        self.events: list[str] = []
        self.readings = 0
        self._lost_at = lost_at

    def energy_mj(self) -> int | Absent:
        self.readings += 1
        if self.readings == self._lost_at:
            return Absent(reason="NVML: GPU is lost")
        energy = super().energy_mj()
        self.events.append(f"counter {energy}")
        return energy

    def work(self, duration_s: float, power_w: float) -> None:
        self.events.append("work")
        super().work(duration_s, power_w)

    def sync(self) -> None:
        self.events.append("sync")


class DiaryClock(ScriptedClock):
    """A clock that tells the diary of the pause before the work."""

    def __init__(self) -> None:
        super().__init__()
        self.diary: Diary | None = None

    def sleep(self, s: float) -> None:
        super().sleep(s)
        if self.diary is not None and s == DELAY_S:
            self.diary.events.append("delay")


DELAY_S = 0.04


def scene(behaviour: Behaviour = IDLE, lost_at: int = 0) -> tuple[Diary, DiaryClock]:
    clock = DiaryClock()
    board = Diary(clock, behaviour, lost_at)
    clock.diary = board
    clock.sleep(0.055)  # the middle of a tick
    return board, clock


def measured(board: Diary, clock: DiaryClock) -> Window:
    return measure(board, clock, board.sync, lambda: board.work(5.0, 300.0), DELAY_S)


def test_the_order_of_events() -> None:
    board, clock = scene()
    measured(board, clock)
    assert [event.split()[0] for event, _ in groupby(board.events)] == [
        "sync",
        "counter",
        "counter",  # previous: the first reading after a tick
        "counter",  # opening: the first after one more
        "delay",
        "work",
        "sync",
        "counter",  # closing
        "counter",  # next
        "counter",  # after next
    ]


def test_opening_and_previous_are_one_tick_apart_and_the_last_two_follow_the_work() -> None:
    board, clock = scene()
    window = measured(board, clock)
    bracket = window.counter
    assert present(bracket)
    assert bracket.opening.energy_mj - bracket.previous.energy_mj == 10_000
    assert bracket.opening.after_ns + 1e9 * DELAY_S == pytest.approx(window.work.start_ns)
    assert window.work.end_ns - window.work.start_ns == 5_000_000_000
    assert bracket.closing.before_ns == window.work.end_ns
    assert bracket.closing.energy_mj < bracket.next.energy_mj < bracket.after_next.energy_mj
    assert bracket.after_next.energy_mj - bracket.next.energy_mj == 10_000


@pytest.mark.parametrize("work_ms", range(5000, 5100, 4))
def test_next_is_one_tick_after_closing_also_when_a_tick_falls_into_the_reading(
    work_ms: int,
) -> None:
    board, clock = scene(IDLE._replace(call_s=0.024))
    window = measure(board, clock, board.sync, lambda: board.work(work_ms / 1e3, 100.0), DELAY_S)
    assert present(window.counter)
    assert window.counter.next.energy_mj - window.counter.closing.energy_mj == 10_000


@pytest.mark.parametrize("lost_at", [1, 2, 3, 40, 60])
def test_a_counter_lost_before_the_work_costs_the_counter_not_the_work(lost_at: int) -> None:
    board, clock = scene(lost_at=lost_at)
    window = measured(board, clock)
    assert window.counter == Absent(reason="NVML: GPU is lost")
    assert window.work.end_ns - window.work.start_ns == 5_000_000_000
    assert board.events.count("work") == 1


def test_a_counter_lost_at_any_later_reading_is_a_reason_too() -> None:
    whole, clock = scene()
    measured(whole, clock)
    opening = sum(1 for e in whole.events[: whole.events.index("work")] if e.startswith("counter"))
    for lost_at in range(opening + 1, whole.readings + 1):
        board, clock = scene(lost_at=lost_at)
        assert measured(board, clock).counter == Absent(reason="NVML: GPU is lost")


def test_a_board_without_a_counter_does_its_work() -> None:
    board, clock = scene(IDLE._replace(counter=False))
    window = measured(board, clock)
    assert window.counter == Absent(reason="NVML: Not Supported")
    assert [event for event in board.events if not event.startswith("counter")] == [
        "sync",
        "delay",
        "work",
        "sync",
    ]


def test_a_stuck_counter_is_waited_for_two_seconds_and_no_longer() -> None:
    board, clock = scene(IDLE._replace(stuck_after_s=0.0))
    start = clock.now_ns()
    assert wait_for_tick(board, clock) == STUCK
    assert 2.0 <= (clock.now_ns() - start) / 1e9 < 2.02


def test_a_counter_stuck_during_the_work_is_a_reason() -> None:
    board, clock = scene(IDLE._replace(stuck_after_s=1.0))
    assert measured(board, clock).counter == STUCK


def test_a_tick_is_the_first_reading_that_differs() -> None:
    board, clock = scene()
    reading = wait_for_tick(board, clock)
    assert present(reading)
    assert reading.energy_mj == 10_000
    assert reading.after_ns - reading.before_ns == 3_000_000


def test_a_counter_that_starts_again_ends_the_wait() -> None:
    board, clock = scene(IDLE._replace(reset_at_s=1.1))
    clock.sleep(1.0)
    reading = wait_for_tick(board, clock)
    assert present(reading)
    assert reading.energy_mj == 0


# Garbage collection


def run(board: Diary, clock: DiaryClock, seen: list[bool], fail: bool) -> None:
    def work() -> None:
        seen.append(gc.isenabled())
        if fail:
            raise ArmFailed("out_of_memory", "No memory.", "Use less.")

    measure(board, clock, board.sync, work, 0.0)


@pytest.mark.parametrize("before", [True, False], ids=["on before", "off before"])
@pytest.mark.parametrize("fail", [False, True], ids=["work ends", "work raises"])
def test_no_collection_in_the_window_and_afterwards_as_before(before: bool, fail: bool) -> None:
    board, clock = scene()
    seen: list[bool] = []
    was = gc.isenabled()
    (gc.enable if before else gc.disable)()
    try:
        if fail:
            with pytest.raises(ArmFailed):
                run(board, clock, seen, fail)
        else:
            run(board, clock, seen, fail)
        assert gc.isenabled() is before
        assert seen == [False]
    finally:
        (gc.enable if was else gc.disable)()


# The tick


def test_the_tick_is_measured_with_what_a_call_costs() -> None:
    board, clock = scene()
    tick = measure_tick(board, clock)
    assert isinstance(tick, Tick)
    assert tick.ticks == 20
    assert tick.median_ms == pytest.approx(100, abs=5)
    assert 95 <= tick.shortest_ms <= tick.median_ms <= tick.longest_ms <= 105
    assert (tick.call_median_ms, tick.call_longest_ms) == (3.0, 3.0)


@pytest.mark.parametrize("tick_s", [0.02, 0.05, 0.2])
def test_other_ticks_are_found(tick_s: float) -> None:
    """NV-TICK: measured on each board, never assumed."""
    board, clock = scene(IDLE._replace(tick_s=tick_s, call_s=0.001))
    tick = measure_tick(board, clock, ticks=10)
    assert isinstance(tick, Tick)
    assert tick.median_ms == pytest.approx(1e3 * tick_s, abs=2.5)
    assert tick.ticks == 10


def test_a_counter_that_does_not_move_has_no_tick() -> None:
    board, clock = scene(IDLE._replace(stuck_after_s=0.0))
    assert measure_tick(board, clock) == STUCK


def test_a_counter_that_stops_in_between_has_no_tick() -> None:
    board, clock = scene(IDLE._replace(stuck_after_s=1.0))
    assert measure_tick(board, clock) == STUCK


def test_a_scripted_board_is_a_power_source() -> None:
    board, clock = scene()
    source: PowerSource = board
    assert isinstance(wait_for_tick(source, clock), CounterReading)
