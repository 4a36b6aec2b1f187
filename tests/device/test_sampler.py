"""The side sampler in a process of its own, on a scripted board."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple

import pytest

from ecocompute_cube.device.base import POLLED, RawTrace
from ecocompute_cube.device.sampler import ProcessTracer
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.journal import TRACE_COLUMNS, ClockAlignment
from ecocompute_cube.model.readings import PowerKind

from .conftest import ONE, ROOT, Stub

DEADLINE_S = 30.0


class Row(NamedTuple):
    """One line of a trace."""

    t_ns: int
    power: str
    temperature: str
    sm_clock: str
    memory_clock: str
    reasons: str


def rows(file: Path) -> list[Row]:
    """Every whole line after the heading."""
    if not file.exists():
        return []
    text = file.read_text(encoding="ascii")
    whole = text[: text.rfind("\n") + 1].splitlines()
    cells = (line.split(",") for line in whole[1:])
    return [Row(int(t), *others) for t, *others in cells]


def until(condition: Callable[[], object]) -> None:
    """Wait for something that will be so; a sampler has no other way to say it."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)


def ended(pid: int) -> bool:
    """Wait for the end of a process that is nobody's child here."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(handle):
        return bool(select.select([handle], [], [], DEADLINE_S)[0])


class Sampler:
    """The command itself."""

    def __init__(self, environment: dict[str, str], file: Path, uuid: str = ONE) -> None:
        self.file = file
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ecocompute_cube.device.sampler", uuid, str(file)],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def samples(self, count: int) -> list[Row]:
        until(lambda: len(rows(self.file)) >= count or self.process.poll() is not None)
        return rows(self.file)

    def end(self) -> tuple[str, str]:
        return self.process.communicate(timeout=DEADLINE_S)


@pytest.fixture
def start(stub: Stub) -> Iterator[Callable[..., Sampler]]:
    started: list[Sampler] = []

    def begin(**script: str) -> Sampler:
        started.append(Sampler(stub.environment(**script), stub.work / "trace.csv"))
        return started[-1]

    yield begin
    for sampler in started:
        sampler.process.kill()
        sampler.process.communicate()


Start = Callable[..., Sampler]


def test_a_trace_has_the_journals_columns_and_a_count(start: Start) -> None:
    sampler = start(power="99500", temperature="52", sm="1200", memory_clock="2400")
    sampler.samples(3)
    answer, complaint = sampler.end()
    kind, samples, failed = answer.split()
    assert complaint == ""
    assert (kind, int(failed)) == ("power-instant", 0)
    written = rows(sampler.file)
    assert len(written) == int(samples)
    assert sampler.file.read_text().splitlines()[0] == ",".join(TRACE_COLUMNS)
    assert written[0][1:] == ("150", "52", "1200", "2400", "-")
    assert written[1][1:] == ("150", "", "", "", "")  # slow readings once a second


def test_ten_samples_a_second_or_more_and_slow_readings_every_twentieth(start: Start) -> None:
    sampler = start()
    written = sampler.samples(42)
    sampler.end()
    times = [row.t_ns for row in written]
    assert times == sorted(times)
    assert (len(times) - 1) / ((times[-1] - times[0]) / 1e9) >= 10
    assert [number for number, row in enumerate(written[:42]) if row.temperature] == [0, 20, 40]


def test_the_last_sample_is_taken_after_the_end_was_asked_for(start: Start) -> None:
    sampler = start()
    sampler.samples(2)
    asked = time.monotonic_ns()
    sampler.end()
    assert rows(sampler.file)[-1].t_ns >= asked


def test_fractions_of_a_watt_are_kept(start: Start) -> None:
    sampler = start(field_186="0:1:150125")
    assert sampler.samples(1)[0].power == "150.125"


def test_a_board_without_power_leaves_empty_cells_and_says_how_many(start: Start) -> None:
    sampler = start(rc="nvmlDeviceGetFieldValues=3 nvmlDeviceGetPowerUsage=3")
    sampler.samples(2)
    kind, samples, failed = sampler.end()[0].split()
    assert kind == "none" and samples == failed
    assert {row.power for row in rows(sampler.file)} == {""}


def test_nvml_that_vanishes_and_comes_back_leaves_a_gap_of_empty_cells(
    stub: Stub, start: Start
) -> None:
    gone = stub.work / "gone"
    sampler = start(gone=str(gone))
    sampler.samples(2)
    gone.touch()
    until(lambda: rows(sampler.file)[-1].power == "")
    gone.unlink()
    until(lambda: rows(sampler.file)[-1].power == "150")
    kind, samples, failed = sampler.end()[0].split()
    assert kind == "power-instant" and 0 < int(failed) < int(samples)


def test_nvml_that_stays_away_still_gives_the_trace_before(stub: Stub, start: Start) -> None:
    gone = stub.work / "gone"
    sampler = start(gone=str(gone))
    sampler.samples(2)
    gone.touch()
    answer, complaint = sampler.end()
    assert answer.startswith("power-instant ")
    assert complaint == ""
    assert sampler.process.returncode == 0


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ({"rc": "nvmlInitWithFlags=18"}, "library and kernel module are of different versions"),
        ({"boards": "GPU-other"}, "cannot be opened (NVML: Not Found)"),
    ],
)
def test_a_sampler_that_cannot_read_dies_with_one_sentence(
    start: Start, script: dict[str, str], sentence: str
) -> None:
    sampler = start(**script)
    answer, complaint = sampler.end()
    assert (answer, sampler.process.returncode) == ("", 3)
    assert sentence in complaint
    assert len(complaint.splitlines()) == 1


def test_a_sampler_that_cannot_write_dies_with_one_sentence(stub: Stub) -> None:
    sampler = Sampler(stub.environment(), stub.work / "no such folder" / "trace.csv")
    _, complaint = sampler.end()
    assert sampler.process.returncode == 7
    assert complaint == "Could not write the trace (No such file or directory).\n"


# The driver's own samples


def powered(written: list[Row]) -> list[Row]:
    return [row for row in written if row.power]


def test_the_drivers_samples_are_taken_where_they_come_and_never_beside_polled_ones(
    start: Start,
) -> None:
    sampler = start(samples="live 20")
    sampler.samples(60)
    asked = time.monotonic_ns()
    kind, samples, failed, *aligned = sampler.end()[0].split()
    written = rows(sampler.file)
    assert (kind, failed) == ("power-samples", "0")
    assert {row.power for row in powered(written)} == {"160"}  # field 186 would say 150
    assert len(powered(written)) == int(samples)
    assert len(aligned) == 3
    times = [row.t_ns for row in written]
    assert times == sorted(times)
    assert times[-1] >= asked  # and so covers all that came before


def test_no_sample_of_the_driver_is_lost_or_taken_twice(start: Start) -> None:
    sampler = start(samples="live 20")
    sampler.samples(80)
    sampler.end()
    times = [row.t_ns for row in powered(rows(sampler.file))]
    steps = [later - earlier for earlier, later in pairwise(times)]
    assert all(abs(step - 20_000_000) < 2_000_000 for step in steps)  # but for the clocks' drift


def test_samples_are_laid_on_the_clock_of_the_windows(start: Start) -> None:
    begun = time.monotonic_ns()
    sampler = start(samples="live 20")
    sampler.samples(20)
    _, _, _, offset, uncertainty, drift = sampler.end()[0].split()
    now = time.monotonic_ns()
    assert abs(int(offset) - (now - time.time_ns())) < 1_000_000_000
    assert 0 <= int(uncertainty) < 1_000_000_000
    assert int(drift) >= 0
    assert all(begun <= row.t_ns <= now for row in powered(rows(sampler.file)))


def test_slow_readings_stand_between_the_drivers_samples_without_a_power(start: Start) -> None:
    sampler = start(samples="live 20", temperature="52")
    sampler.samples(80)
    sampler.end()
    slow = [row for row in rows(sampler.file) if row.temperature]
    assert slow and {row.power for row in slow} == {""}
    assert slow[0][2:] == ("52", "1980", "3201", "-")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ({}, "samples of 1970"),
        ({"samples": "live 100"}, "coarser than polling"),
        ({"rc": "nvmlDeviceGetSamples=3"}, "not supported"),
        ({"samples": "live 20", "samples_end": "/"}, "samples that stand still"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_samples_that_cannot_be_used_leave_polling(
    start: Start, script: dict[str, str], why: str
) -> None:
    sampler = start(**script)
    written = sampler.samples(3)
    assert sampler.end()[0].startswith("power-instant "), why
    assert {row.power for row in written} == {"150"}


def test_samples_that_stop_coming_end_the_record_and_polling_does_not_take_over(
    stub: Stub, start: Start
) -> None:
    end = stub.work / "end"
    sampler = start(samples="live 20", samples_end=str(end))
    sampler.samples(20)
    end.touch()
    answer, _ = sampler.end()
    assert answer.startswith("power-samples ")
    assert {row.power for row in powered(rows(sampler.file))} == {"160"}


def test_a_tracer_hands_back_how_the_clocks_were_aligned(stub: Stub, tmp_path: Path) -> None:
    tracer = ProcessTracer(ONE, stub.environment(samples="live 20"))
    tracer.start(tmp_path / "visit.csv")
    until(lambda: len(rows(tmp_path / "visit.csv")) >= 5)
    trace = tracer.stop()
    assert isinstance(trace, RawTrace)
    assert trace.source is PowerKind.SAMPLES
    assert isinstance(trace.clock, ClockAlignment)


ORPHAN = """
import sys
from pathlib import Path
from ecocompute_cube.device.sampler import ProcessTracer
tracer = ProcessTracer(sys.argv[1])
tracer.start(Path(sys.argv[2]))
print(tracer._process.pid, flush=True)
sys.stdin.read()
"""


def line(pipe: IO[str] | None) -> str:
    assert pipe is not None
    return pipe.readline()


def test_a_sampler_ends_when_its_parent_is_killed(stub: Stub) -> None:
    file = stub.work / "trace.csv"
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, ONE, str(file)],
        env=stub.environment(),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        sampler = int(line(parent.stdout))
        until(lambda: len(rows(file)) >= 2)
    finally:
        parent.kill()
        parent.communicate()
    assert ended(sampler)


# ProcessTracer


@pytest.fixture
def tracer(stub: Stub) -> Iterator[ProcessTracer]:
    tracer = ProcessTracer(ONE, stub.environment())
    yield tracer
    tracer.stop()


def process_of(tracer: ProcessTracer) -> subprocess.Popen[str]:
    assert tracer._process is not None
    return tracer._process


def test_a_tracer_hands_back_its_file_and_counts(tracer: ProcessTracer, tmp_path: Path) -> None:
    """NV-GIL: by a process of its own."""
    file = tmp_path / "visit.csv"
    for _ in range(2):  # one visit after the other
        file.unlink(missing_ok=True)
        tracer.start(file)
        until(lambda: len(rows(file)) >= 2)
        trace = tracer.stop()
        assert isinstance(trace, RawTrace)
        assert trace == (file, PowerKind.INSTANT, len(rows(file)), 0, POLLED)


def test_stop_without_start_is_a_reason(tracer: ProcessTracer) -> None:
    assert tracer.stop() == Absent(reason="the side sampler was not started")


def test_stop_at_once_still_gives_a_trace(tracer: ProcessTracer, tmp_path: Path) -> None:
    tracer.start(tmp_path / "short.csv")
    trace = tracer.stop()
    assert isinstance(trace, RawTrace)
    assert trace.samples >= 1


def test_a_killed_sampler_is_a_reason(tracer: ProcessTracer, tmp_path: Path) -> None:
    tracer.start(tmp_path / "visit.csv")
    process_of(tracer).kill()
    assert tracer.stop() == Absent(
        reason=f"the side sampler died: killed by signal {signal.SIGKILL:d}"
    )


def test_a_sampler_without_a_board_is_a_reason(stub: Stub) -> None:
    tracer = ProcessTracer(ONE, stub.environment(rc="nvmlInitWithFlags=9"))
    tracer.start(stub.work / "visit.csv")
    trace = tracer.stop()
    assert isinstance(trace, Absent)
    assert trace.reason == (
        "the side sampler died: The NVIDIA driver is installed but its kernel module is not loaded."
    )


def test_a_sampler_that_cannot_be_started_is_a_reason(stub: Stub) -> None:
    tracer = ProcessTracer(ONE, stub.environment(), python=str(stub.work / "no-python"))
    tracer.start(stub.work / "visit.csv")
    assert tracer.stop() == Absent(
        reason="the side sampler cannot be started: No such file or directory"
    )
    assert tracer.stop() == Absent(reason="the side sampler was not started")


def test_a_sampler_that_says_nothing_is_a_reason(stub: Stub) -> None:
    tracer = ProcessTracer(ONE, stub.environment(), python="/bin/true")
    tracer.start(stub.work / "visit.csv")
    assert tracer.stop() == Absent(reason="the side sampler did not say what it recorded")


def test_starting_twice_ends_both_and_is_a_reason(tracer: ProcessTracer, tmp_path: Path) -> None:
    file = tmp_path / "first.csv"
    tracer.start(file)
    first = process_of(tracer)
    tracer.start(tmp_path / "second.csv")
    assert first.poll() is not None
    assert tracer.stop() == Absent(reason="the side sampler was started twice")
    tracer.start(file)
    until(lambda: len(rows(file)) >= 1)
    assert isinstance(tracer.stop(), RawTrace)
