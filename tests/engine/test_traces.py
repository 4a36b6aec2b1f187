"""A side sampler's record is kept small, hashed and the same every time, or its loss is named."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ecocompute_cube.device.base import RawTrace
from ecocompute_cube.engine.orders import Place
from ecocompute_cube.engine.traces import store_trace
from ecocompute_cube.errors import OutputError
from ecocompute_cube.model.base import Absent, sha256_hex
from ecocompute_cube.model.journal import TraceLost, TraceStored
from ecocompute_cube.model.readings import PowerKind

HEADER = "t_ns,power_w,temperature_c,sm_clock_mhz,memory_clock_mhz\n"
PLACE = Place(session=1, group=0, block=2, position=0)
SECOND = 1_000_000_000


def raw(folder: Path, text: str | None) -> RawTrace:
    file = folder / ".current.csv"
    if text is not None:
        file.write_text(text)
    return RawTrace(file, PowerKind.INSTANT, 3, 1)


def store(folder: Path, text: str | None) -> TraceStored | TraceLost:
    (folder / "traces").mkdir(exist_ok=True)
    return store_trace(raw(folder, text), folder, "arm", PLACE, {"measure_start": 1})


def samples(*times_s: float) -> str:
    return HEADER + "".join(f"{round(t * SECOND)},100,,,\n" for t in times_s)


def test_a_trace_is_described_and_kept_by_its_hash(tmp_path: Path) -> None:
    text = samples(1, 1.05, 1.15, 1.2)
    kept = store(tmp_path, text)
    assert isinstance(kept, TraceStored)
    packed = (tmp_path / kept.file).read_bytes()
    assert gzip.decompress(packed).decode() == text
    assert kept.sha256 == sha256_hex(packed)
    assert kept.file == "traces/s1-g0-b2_arm.csv.gz"
    assert kept.achieved_hz == pytest.approx(3 / 0.2)
    assert kept.longest_gap_s == pytest.approx(0.1)
    assert (kept.samples, kept.failed_samples, kept.phases) == (3, 1, {"measure_start": 1})
    assert not (tmp_path / ".current.csv").exists()


def test_the_same_samples_are_the_same_bytes(tmp_path: Path) -> None:
    assert store(tmp_path, samples(1, 2)) == store(tmp_path, samples(1, 2))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file"),
        ("", "fewer than two"),
        (HEADER, "fewer than two"),
        (samples(1), "fewer than two"),
        (samples(1, 2) + "\n", "cannot be used"),
        (HEADER + "1,1,,,\nx", "cannot be used"),
    ],
)
def test_a_record_that_is_no_record_is_lost_and_said_so(
    tmp_path: Path, text: str | None, reason: str
) -> None:
    lost = store(tmp_path, text)
    assert isinstance(lost, TraceLost)
    assert reason in lost.reason
    assert (lost.arm, lost.session, lost.group, lost.block) == ("arm", 1, 0, 2)
    assert list((tmp_path / "traces").iterdir()) == []


def test_a_dead_sampler_is_lost_with_its_last_word_but_no_path(tmp_path: Path) -> None:
    lost = store_trace(Absent(reason=f"died: {tmp_path}/x.py"), tmp_path, "arm", PLACE, {})
    assert isinstance(lost, TraceLost)
    assert lost.reason.startswith("died: ") and str(tmp_path) not in lost.reason


def test_samples_at_one_moment_have_no_rate(tmp_path: Path) -> None:
    kept = store(tmp_path, samples(1, 1))
    assert isinstance(kept, TraceStored)
    assert isinstance(kept.achieved_hz, Absent)


def test_a_folder_that_takes_no_file_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        store_trace(raw(tmp_path, samples(1, 2)), tmp_path / "nowhere", "arm", PLACE, {})
    assert caught.value.exit_status == 7
