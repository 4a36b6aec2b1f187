"""What the side sampler costs, and what a day of its samples takes.

``python -m benchmarks.sampler [--seconds S] [--hours H] [--board UUID]`` runs the sampler against
a library that answers as an H200's does (compiled here; with ``--board``, against the driver), once
polling and once draining the driver's samples, and prints memory, share of one core and rate. Then
it makes a day of samples, 50 a second, with a board's noise, and prints their size as stored and
what reading them back takes. Status 1 when a figure is out of reach.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ecocompute_cube.analysis.traces import read_trace
from ecocompute_cube.device.base import RawTrace
from ecocompute_cube.engine.orders import Place
from ecocompute_cube.engine.traces import store_trace
from ecocompute_cube.model.base import present
from ecocompute_cube.model.journal import TRACE_COLUMNS, TraceStored
from ecocompute_cube.model.readings import PowerKind

_MOST_MIB: Final = 60.0
_MOST_SHARE: Final = 0.01  # of one core
_MOST_DAY_MB: Final = 50.0
_DAY_HZ: Final = 50
_STUB: Final = Path(__file__).parents[1] / "tests" / "device" / "stub" / "nvml.c"
_STUB_UUID: Final = "GPU-11111111-2222-3333-4444-555555555555"
_START_S: Final = 3.0  # imports are over by then, also on a busy machine


class Cost(NamedTuple):
    """What one sampler took."""

    kind: str
    rss_mib: float
    share: float  #: of one core, after start-up
    start_cpu_s: float
    rate_hz: float


def cost(uuid: str, environment: Mapping[str, str], file: Path, length_s: float) -> Cost:
    """Run the sampler for some seconds after its start-up."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ecocompute_cube.device.sampler", uuid, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(environment),
        text=True,
    )
    time.sleep(_START_S)
    started_s, begun, lines = _cpu_s(process.pid), time.monotonic(), _lines(file)
    time.sleep(length_s)
    used_s, took_s = _cpu_s(process.pid) - started_s, time.monotonic() - begun
    rate_hz = (_lines(file) - lines) / took_s
    rss_mib = _peak_mib(process.pid)
    answer, _ = process.communicate(timeout=30)
    return Cost(answer.split()[0], rss_mib, used_s / took_s, started_s, rate_hz)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # proc(5): utime, stime


def _peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024  # proc(5): most ever resident


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n")


def day(hours: float, seed: int = 1) -> Iterator[str]:
    """Samples as a board gives them: milliwatts that flicker, loads that change, uneven times."""
    draw = random.Random(seed)
    t, level = 123_456_789_012_345, 130.0
    for number in range(int(hours * 3600 * _DAY_HZ)):
        if number % 1500 == 0:  # another load every half a minute
            level = draw.choice((82.0, 130.0, 184.0, 401.0, 485.0))
        if number % _DAY_HZ == 0:
            yield f"{t + 10_000_000},,{draw.randint(30, 80)},{draw.choice((1980, 1965))},3201,-\n"
        t += 20_000_000
        at = t + round(draw.gauss(0, 200)) * 1000 + draw.randint(-60, 60)
        yield f"{at},{draw.gauss(level, level / 50):.3f},,,,\n"


class Day(NamedTuple):
    """A day of samples, stored."""

    samples: int
    text_mb: float
    stored_mb: float
    store_s: float
    read_s: float
    peak_mib: float  #: of this process, both ways


def stored_day(folder: Path, hours: float) -> Day:
    """Store samples as a run does, and read them back as the report does."""
    raw = folder / "raw.csv"
    with raw.open("w") as file:
        file.write(",".join(TRACE_COLUMNS) + "\n")
        file.writelines(day(hours))
    text_mb = raw.stat().st_size / 1e6
    (folder / "traces").mkdir()
    begun = time.monotonic()
    trace = RawTrace(raw, PowerKind.SAMPLES, 0, 0)
    stored = store_trace(trace, folder, "arm", Place(session=0, group=0, block=0, position=0), {})
    store_s = time.monotonic() - begun
    assert isinstance(stored, TraceStored)
    begun = time.monotonic()
    found = read_trace(folder, stored)
    read_s = time.monotonic() - begun
    assert present(found), found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # getrusage(2): kilobytes
    size = (folder / stored.file).stat().st_size / 1e6
    return Day(len(found.power_w), text_mb, size, store_s, read_s, peak)


def _stub(folder: Path) -> Path | None:
    compiler = shutil.which("cc")
    if compiler is None or not _STUB.exists():
        return None
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(_STUB)], check=True)
    return folder


def _boards(uuid: str | None, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    if uuid is not None:
        yield uuid, dict(os.environ)
        return
    library = _stub(folder)
    if library is None:
        sys.stdout.write("no C compiler here: the sampler itself is not measured\n")
        return
    for samples in ("1000000", "live 20"):
        yield _STUB_UUID, {**os.environ, "LD_LIBRARY_PATH": str(library), "STUB_SAMPLES": samples}


def main(arguments: Sequence[str]) -> int:
    """Print the figures; status 1 when one is out of reach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--board")
    options = parser.parse_args(arguments)
    within = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for uuid, environment in _boards(options.board, folder):
            found = cost(uuid, environment, folder / "trace.csv", options.seconds)
            within &= found.rss_mib <= _MOST_MIB and found.share <= _MOST_SHARE
            sys.stdout.write(
                f"{found.kind}: {found.rss_mib:.1f} MiB (at most {_MOST_MIB:.0f}), "
                f"{found.share:.2%} of one core (at most {_MOST_SHARE:.0%}) at "
                f"{found.rate_hz:.1f} lines a second over {options.seconds:.0f} s; "
                f"{found.start_cpu_s:.2f} s of CPU to start\n"
            )
            sys.stdout.flush()
        kept = stored_day(folder, options.hours)
    per_day = kept.stored_mb * 24 / options.hours
    within &= per_day <= _MOST_DAY_MB
    sys.stdout.write(
        f"{options.hours:g} h of {_DAY_HZ} samples a second: {kept.samples} samples, "
        f"{kept.text_mb:.0f} MB of text, {kept.stored_mb:.1f} MB stored (a day: {per_day:.1f}, at "
        f"most {_MOST_DAY_MB:.0f}); stored in {kept.store_s:.1f} s, read in {kept.read_s:.1f} s, "
        f"in at most {kept.peak_mib:.0f} MiB\n"
    )
    return 0 if within else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
