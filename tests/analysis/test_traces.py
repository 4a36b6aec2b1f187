"""Integrals of traces: exact where power is linear, refused where samples are missing."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ecocompute_cube.analysis.traces import Trace, integrate, parse_trace, rate_hz, read_trace
from ecocompute_cube.model.base import Absent, present, sha256_hex
from ecocompute_cube.model.journal import TraceStored
from ecocompute_cube.model.readings import PowerKind, Span

HEADER = "t_ns,power_w,temperature_c,sm_clock_mhz,memory_clock_mhz\n"
MS = 1_000_000


def span(start_ms: float, end_ms: float) -> Span:
    return Span(start_ns=round(start_ms * MS), end_ns=round(end_ms * MS))


def trace(*samples: tuple[float, float]) -> Trace:
    return Trace(tuple(round(t * MS) for t, _ in samples), tuple(w for _, w in samples), ())


def reason(found: object) -> str:
    assert isinstance(found, Absent)
    return found.reason


# Integrals


def test_constant_power_by_hand() -> None:
    """100 W for 0.25 s."""
    found = integrate(trace((0, 100), (100, 100), (400, 100)), span(100, 350))
    assert found == pytest.approx(25)


def test_a_step_is_a_slope_between_two_samples() -> None:
    """100 W, then up to 300 W within 100 ms: 100·0.1 + 200·0.1 + 300·0.1 = 60 J."""
    found = integrate(trace((0, 100), (100, 100), (200, 300), (300, 300)), span(0, 300))
    assert found == pytest.approx(60)


times = st.lists(st.integers(1, 100), min_size=2, max_size=20)


@given(times, st.floats(0, 500), st.floats(0, 500), st.floats(0, 1), st.floats(0, 1))
def test_linear_power_integrates_exactly(
    steps: list[int], at_start: float, at_end: float, a: float, b: float
) -> None:
    end = sum(steps)
    moments = [sum(steps[:n]) for n in range(len(steps) + 1)]

    def power(t: float) -> float:
        return at_start + (at_end - at_start) * t / end

    within = span(min(a, b) * end, max(a, b) * end)
    found = integrate(trace(*((t, power(t)) for t in moments)), within)
    start_s, end_s = within.start_ns / 1e9, within.end_ns / 1e9
    if start_s == end_s:
        assert reason(found) == "the window has no length"
        return
    middle = power((start_s + end_s) / 2 * 1e3)
    assert found == pytest.approx(middle * (end_s - start_s), rel=1e-9, abs=1e-9)


@given(
    st.lists(st.tuples(st.integers(1, 100), st.floats(0, 700)), min_size=3, max_size=20), st.data()
)
def test_an_integral_is_the_sum_of_its_parts(
    steps: list[tuple[int, float]], data: st.DataObject
) -> None:
    moments = [sum(t for t, _ in steps[: n + 1]) for n in range(len(steps))]
    kept = trace(*((t, w) for t, (_, w) in zip(moments, steps, strict=True)))
    first, last = kept.t_ns[0], kept.t_ns[-1]
    cut = data.draw(st.integers(first + 1, last - 1))
    whole = integrate(kept, Span(start_ns=first, end_ns=last))
    parts = [integrate(kept, Span(start_ns=a, end_ns=b)) for a, b in ((first, cut), (cut, last))]
    assert present(whole) and present(parts[0]) and present(parts[1])
    assert whole == pytest.approx(parts[0] + parts[1], rel=1e-9, abs=1e-9)


def test_a_gap_of_half_a_second_is_the_longest_that_is_bridged() -> None:
    samples = ((0, 100.0), (100, 100.0), (600, 100.0), (700, 100.0))
    assert integrate(trace(*samples), span(0, 700)) == pytest.approx(70)
    wider = trace(*samples[:2], (600.001, 100.0), (700, 100.0))
    assert "gap of 0.50 s" in reason(integrate(wider, span(0, 700)))


@pytest.mark.parametrize(("late_ms", "held_up"), [(200, False), (300, True)])
def test_nv_gil_a_sampler_that_was_held_up_for_more_than_five_periods_gives_no_energy(
    late_ms: float, held_up: bool
) -> None:
    """NV-GIL."""
    steady = [(50.0 * n, 100.0) for n in range(20)]
    resumed = [(950 + late_ms + 50 * n, 100.0) for n in range(20)]
    energy = integrate(trace(*steady, *resumed), span(0, 1500))
    assert present(energy) is not held_up
    if held_up:
        assert "gap of 0.30 s" in reason(energy)


def test_a_gap_outside_the_window_does_no_harm() -> None:
    """NV-WINDOW: what lies outside is of no account."""
    kept = trace((0, 100), (5000, 100), (5100, 100), (9000, 100))
    assert integrate(kept, span(5000, 5100)) == pytest.approx(10)


@pytest.mark.parametrize(
    "samples",
    [(), ((50, 100.0),), ((10, 100.0), (100, 100.0)), ((0, 100.0), (99, 100.0))],
)
def test_samples_that_do_not_cover_the_window_give_no_energy(
    samples: tuple[tuple[float, float], ...],
) -> None:
    """NV-WINDOW, NV-GIL."""
    assert "does not cover" in reason(integrate(trace(*samples), span(0, 100)))


def test_samples_at_one_moment_are_a_step() -> None:
    kept = trace((0, 100), (100, 100), (100, 300), (200, 300))
    assert integrate(kept, span(0, 200)) == pytest.approx(40)


# Rates


def test_the_rate_is_that_within_the_window() -> None:
    kept = [round(t * MS) for t in (0, 50, 100, 150, 200, 900)]
    assert rate_hz(kept, span(50, 200)) == pytest.approx(20)


@pytest.mark.parametrize(
    ("moments", "why"), [((), "fewer"), ((50,), "fewer"), ((50, 50), "one moment")]
)
def test_no_rate_without_two_moments(moments: tuple[int, ...], why: str) -> None:
    assert why in reason(rate_hz([t * MS for t in moments], span(0, 100)))


# Files


def test_empty_cells_are_no_readings() -> None:
    kept = parse_trace(HEADER + "1,100,40,,\n2,,,,\n3,0,,1980,3201\n")
    assert kept == Trace((1, 3), (100.0, 0.0), ((1, 40.0),))
    assert parse_trace(HEADER) == Trace((), (), ())
    with pytest.raises(ValueError, match="other columns"):
        parse_trace("")


@pytest.mark.parametrize(
    "line", ["1", "1,100", "1,100,,,,", "x,100,,,", "1,watt,,,", "1,nan,,,", "1,inf,,,", ""]
)
def test_a_bad_line_spoils_the_trace(line: str) -> None:
    with pytest.raises(ValueError, match=r"cell|reading|invalid|convert"):
        parse_trace(f"{HEADER}{line}\n1,100,,,\n")


def test_time_that_runs_backwards_spoils_the_trace() -> None:
    with pytest.raises(ValueError, match="backwards"):
        parse_trace(f"{HEADER}2,100,,,\n1,100,,,\n")


def stored(packed: bytes, file: str = "traces/a.csv.gz") -> TraceStored:
    return TraceStored(
        arm="a",
        session=0,
        group=0,
        block=0,
        file=file,
        sha256=sha256_hex(packed),
        source=PowerKind.INSTANT,
        samples=2,
        failed_samples=0,
        achieved_hz=1.0,
        longest_gap_s=1.0,
        phases={},
    )


GOOD = gzip.compress(f"{HEADER}1,100,,,\n2,100,,,\n".encode(), mtime=0)


def put(folder: Path, packed: bytes) -> None:
    (folder / "traces").mkdir()
    (folder / "traces" / "a.csv.gz").write_bytes(packed)


def test_a_trace_file_is_read_back(tmp_path: Path) -> None:
    put(tmp_path, GOOD)
    assert read_trace(tmp_path, stored(GOOD)) == Trace((1, 2), (100.0, 100.0), ())


def test_a_missing_trace_is_a_reason_without_a_path(tmp_path: Path) -> None:
    why = reason(read_trace(tmp_path, stored(GOOD)))
    assert "No such file" in why and str(tmp_path) not in why


def test_another_file_in_its_place_is_refused(tmp_path: Path) -> None:
    put(tmp_path, GOOD + b"\0")
    assert "sha256 differs" in reason(read_trace(tmp_path, stored(GOOD)))


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"no gzip",
        GOOD[:-5],
        GOOD[:-8] + bytes(8),
        gzip.compress(b"\xff\xfe", mtime=0),
        gzip.compress(f"{HEADER}1,100".encode(), mtime=0),
        gzip.compress(f"{HEADER}1,nan,,,\n".encode(), mtime=0),
    ],
)
def test_a_damaged_trace_is_a_reason_and_never_a_number(tmp_path: Path, packed: bytes) -> None:
    put(tmp_path, packed)
    found = read_trace(tmp_path, stored(packed))
    if isinstance(found, Trace):
        assert found == Trace((), (), (), ())  # an empty file holds no sample: nothing is covered
    else:
        assert "damaged" in found.reason


@pytest.mark.parametrize(
    "file",
    [
        "a.csv.gz",
        "/etc/a.csv.gz",
        "../a.csv.gz",
        "traces/../../a.csv.gz",
        "traces/",
        "traces/.csv.gz",
        "traces/a.csv",
        "traces/a.csv.gz\n",
    ],
)
def test_a_journal_names_traces_of_its_own_folder_only(file: str) -> None:
    with pytest.raises(ValidationError, match="pattern"):
        stored(GOOD, file)


MIB = 2**20


def test_a_small_file_that_holds_more_than_256_mib_is_not_expanded(tmp_path: Path) -> None:
    line = b"1,100,,,\n"
    packed = gzip.compress(HEADER.encode()) + gzip.compress(line * 2**20) * 3
    put(tmp_path, packed)
    tracemalloc.start()
    try:
        why = reason(read_trace(tmp_path, stored(packed), 2 * MIB))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert why == "the trace file holds more than 2 MiB of text"
    assert peak < 64 * MIB


def test_a_line_that_never_ends_is_not_expanded(tmp_path: Path) -> None:
    packed = gzip.compress(bytes(64 * MIB)) * 8
    assert len(packed) < MIB
    put(tmp_path, packed)
    tracemalloc.start()
    try:
        why = reason(read_trace(tmp_path, stored(packed)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "longer than any sample" in why
    assert peak < 16 * MIB


def test_a_file_as_long_as_is_allowed_is_read(tmp_path: Path) -> None:
    text = HEADER + "1,100,,,\n" * 1000
    packed = gzip.compress(text.encode())
    put(tmp_path, packed)
    found = read_trace(tmp_path, stored(packed), len(text))
    assert isinstance(found, Trace)
    assert len(found.power_w) == 1000
    assert "more than" in reason(read_trace(tmp_path, stored(packed), len(text) - 1))


def test_lines_are_whole_wherever_a_piece_ends(tmp_path: Path) -> None:
    text = HEADER + "".join(f"{t},{t},,,\n" for t in range(200_000))  # more than two pieces
    packed = gzip.compress(text.encode())
    put(tmp_path, packed)
    found = read_trace(tmp_path, stored(packed))
    assert isinstance(found, Trace)
    assert found.t_ns == tuple(range(200_000))


def test_event_reasons_are_read_where_they_were_written() -> None:
    text = HEADER.strip() + ",event_reasons\n1,100,,,,-\n2,100,,,,\n3,100,,,,sw_thermal+gpu_idle\n"
    trace = parse_trace(text)
    assert trace.reasons_in(Span(start_ns=2, end_ns=4)) == frozenset({"sw_thermal", "gpu_idle"})
    assert trace.reasons_in(Span(start_ns=0, end_ns=1)) == frozenset()
    assert isinstance(trace.reasons_in(Span(start_ns=2, end_ns=2)), Absent)


def test_a_name_that_no_file_can_have_is_a_reason(tmp_path: Path) -> None:
    assert "cannot be read" in reason(read_trace(tmp_path, stored(GOOD, "traces/\0.csv.gz")))
