"""How long ``ecocompute bundle`` takes for a gigabyte of traces, and how much memory.

``python -m benchmarks.bundle [--mb MB]`` measures a plan on a scripted board, puts large traces in
place of its own, writes a report as ``report`` does, and then times the real command: a folder, a
zip file, a second time over the first, and ``--check`` of both, which also computes every figure
again. Status 1 when a bundle takes longer than it may, or when two of them differ.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

from ecocompute_cube.model.base import sha256_hex
from ecocompute_cube.model.journal import TRACE_COLUMNS, TraceStored
from ecocompute_cube.model.journal_file import JOURNAL_NAME, JournalWriter, read_journal
from ecocompute_cube.report.write import write_energy, write_report
from tests.run.rig import Scene, plan

_MOST_S: Final = 30.0
_MOST_MIB: Final = 150.0  # of resident memory: no trace is ever whole in it
_TRACE_MB: Final = 8.0
_ROW: Final = 32_768  # random hexadecimal digits a row: half of them survive compression
_ARMS: Final = 2


class Taken(NamedTuple):
    """What one command took."""

    seconds: float
    peak_mib: float  #: most ever resident


def large_trace(megabytes: float, seed: int = 1) -> bytes:
    """A trace file of this size that few samples fill: what costs time here is bytes."""
    draw = random.Random(seed)
    rows = max(2, round(megabytes * 1e6 / (_ROW / 2)))
    text = ",".join(TRACE_COLUMNS) + "\n"
    text += "".join(
        f"{i * 20_000_000},100.0,40,1980,2619,{draw.randbytes(_ROW // 2).hex()}\n"
        for i in range(rows)
    )
    return gzip.compress(text.encode(), compresslevel=1, mtime=0)


def results_with_large_traces(folder: Path, megabytes: float) -> Path:
    """A results folder whose traces have this size together."""
    visits = max(_ARMS, round(megabytes / _TRACE_MB))
    asked = plan(
        arms=["FP16", "NF4"],
        workloads=[{"output_tokens": 64}],
        protocol={"mode": "precise", "iterations": 1, "blocks": visits // _ARMS},
    )
    run = Scene(folder).measure(asked)
    packed = large_trace(megabytes / (visits // _ARMS * _ARMS))
    facts = read_journal(run / JOURNAL_NAME)
    (run / JOURNAL_NAME).unlink()
    times = iter(line.utc for line in facts.lines)
    with JournalWriter.create(run / JOURNAL_NAME, lambda: next(times), lambda _: None) as journal:
        for fact in facts.records:
            if isinstance(fact, TraceStored):
                (run / fact.file).write_bytes(packed)
                fact = fact.model_copy(update={"sha256": sha256_hex(packed)})  # noqa: PLW2901
            journal.append(fact)
    write_energy(run)
    write_report(run.parent, folder / "report", lambda _: None)
    return run.parent


def timed(*words: str | Path) -> Taken:
    """Run the command to its end."""
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "ecocompute_cube.cli", "bundle", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return Taken(time.monotonic() - start, used.ru_maxrss / 1024)  # getrusage(2): kilobytes


def digest(bundle: Path) -> str:
    """Of every name and byte of a folder or a file."""
    files = sorted(bundle.rglob("*")) if bundle.is_dir() else [bundle]
    found = hashlib.sha256()
    for path in files:
        found.update(path.relative_to(bundle).as_posix().encode())
        if path.is_file():
            with path.open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def main(arguments: Sequence[str]) -> int:
    """Print the figures; status 1 when one is out of reach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=float, default=1000)
    options = parser.parse_args(arguments)
    within = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
            # A process inherits the peak of the one that starts it, and this work is large.
            results = apart.submit(results_with_large_traces, folder, options.mb).result()
        size = sum(file.stat().st_size for file in results.rglob("*.csv.gz")) / 1e6
        sys.stdout.write(f"{size:.0f} MB of traces, {len(os.sched_getaffinity(0))} cores\n")
        for out in (folder / "bundle", folder / "bundle.zip"):
            made = (results, "--report_dir", folder / "report", "--out", out)
            first, before = timed(*made), digest(out)
            again, after = timed(*made), digest(out)
            checked = timed("--check", out)
            kind = "zip" if out.suffix else "folder"
            within &= max(first.seconds, again.seconds) <= _MOST_S and before == after
            within &= max(first.peak_mib, again.peak_mib) <= _MOST_MIB
            sys.stdout.write(
                f"{kind:6} made in {first.seconds:.1f} s, again in {again.seconds:.1f} s (at most "
                f"{_MOST_S:.0f}), {'the same bytes' if before == after else 'OTHER BYTES'}; "
                f"{again.peak_mib:.0f} MiB (at most {_MOST_MIB:.0f}); checked in "
                f"{checked.seconds:.1f} s and {checked.peak_mib:.0f} MiB\n"
            )
            sys.stdout.flush()
    return 0 if within else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
