"""The driver's samples on our clock: which buffers can be used, and what a set clock does."""

from __future__ import annotations

import pytest

from ecocompute_cube.device.drain import Bracketed, Drain, Sample, align
from ecocompute_cube.model.base import Absent

SECOND_US = 1_000_000
NOW_US = 1_800_000_000 * SECOND_US
OFFSET_NS = -1_799_999_000 * 1_000_000_000  #: our clock stands at 1000 s


class Driver:
    """Keeps the samples it is given."""

    def __init__(self, *ages_ms: float) -> None:
        self.samples = [Sample(NOW_US - round(1e3 * age), 100.0) for age in ages_ms]
        self.offsets = [Bracketed(OFFSET_NS, 50)]

    def read(self, since_us: int) -> list[Sample]:
        return [each for each in self.samples if each.at_us > since_us]

    def align(self) -> Bracketed:
        return self.offsets.pop(0) if len(self.offsets) > 1 else self.offsets[0]

    def drain(self) -> Drain:
        return Drain(self.read, self.align, lambda: NOW_US * 1000)

    def add(self, *after_ms: float) -> None:
        self.samples += [Sample(NOW_US + round(1e3 * after), 100.0) for after in after_ms]


GOOD = (100, 80, 60, 40, 20)


def times_ms(found: object) -> list[float]:
    assert isinstance(found, list)
    return [round((at - 1e12) / 1e6, 3) for at, _ in found]


def test_samples_are_taken_once_and_on_our_clock() -> None:
    driver = Driver(*GOOD)
    drain = driver.drain()
    assert drain.begin() is None
    driver.add(0, 20, 40)
    assert times_ms(drain.fresh()) == [0, 20, 40]
    driver.add(60)
    assert times_ms(drain.fresh()) == [60]
    assert drain.fresh() == []


@pytest.mark.parametrize(
    ("ages", "reason"),
    [
        ((), "holds 0 samples"),
        ((60, 40, 20), "holds 3 samples"),
        ((400, 300, 200, 100, 0), "every 100 ms"),
        ((20, 20, 20, 20, 20), "every 0 ms"),
        ((3080, 3060, 3040, 3020, 3000), "3 s old"),
        ((-100, -120, -140, -160, -180), "-0.18 s old"),
    ],
)
def test_a_buffer_that_cannot_be_used_says_why(ages: tuple[float, ...], reason: str) -> None:
    wrong = Driver(*ages).drain().begin()
    assert isinstance(wrong, Absent)
    assert reason in wrong.reason


def test_a_driver_that_does_not_answer_is_a_reason_at_once_and_later() -> None:
    gone = Absent(reason="NVML: Unknown Error")
    drain = Drain(lambda _: gone)
    assert drain.begin() == gone
    assert drain.fresh() == gone


def test_a_wall_clock_that_was_set_forward_keeps_its_samples_where_they_were() -> None:
    driver = Driver(*GOOD)
    drain = driver.drain()
    drain.begin()
    driver.add(0, 20)
    assert times_ms(drain.fresh()) == [0, 20]
    driver.offsets = [Bracketed(OFFSET_NS - 5_000_000_000, 80)]
    driver.add(5040, 5060)
    assert times_ms(drain.fresh()) == [40, 60]
    assert drain.alignment().drift_ns == 5_000_000_000
    assert drain.alignment().uncertainty_ns == 80
    assert drain.alignment().offset_ns == OFFSET_NS


def test_time_never_runs_backwards() -> None:
    driver = Driver(*GOOD)
    drain = driver.drain()
    drain.begin()
    driver.add(0, 20)
    drain.fresh()
    driver.offsets = [Bracketed(OFFSET_NS - 30_000_000, 50)]
    driver.add(40, 60)
    assert times_ms(drain.fresh()) == [30]


def test_the_narrowest_bracket_aligns_two_clocks() -> None:
    ours = iter((0, 900, 1000, 1010, 2000, 2500, 3000, 3600, 4000, 4800))
    found = align(lambda: next(ours), lambda: 100)
    assert found == Bracketed(offset_ns=905, half_ns=5)
