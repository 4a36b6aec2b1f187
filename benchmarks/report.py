"""How long a full report takes: many arms, from journals to the page.

``python -m benchmarks.report [--arms N]`` measures fifty arms on a scripted board, copies the run
until there are N arms (each copy a run of its own), and times the real command: of one run, of half
of them, of all, and of all once more. Printed is also whether processor time grows in line, what
the page weighs, and whether two reports of the same journals are the same bytes. Status 1 when the
largest takes longer, or more memory, than it may. Runs without a board.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ecocompute_cube.model.journal import RunOpened
from ecocompute_cube.model.journal_file import JOURNAL_NAME, JournalWriter, read_journal
from tests.run.rig import Scene, plan

_A_RUN: Final = 50  # arms
_MOST_S: Final = 10.0
_MOST_MIB: Final = 500.0
_MOST_GROWTH: Final = 2.2  # of processor time, where the arms are doubled
_MOST_PAGE_MB: Final = 1.6  # of one run: fifty arms


class Taken(NamedTuple):
    """What one report took."""

    arms: int
    seconds: float
    cpu_s: float  #: user and system: what other work on the machine does not lengthen
    peak_mib: float  #: most ever resident
    page_mb: float


def measured(folder: Path) -> Path:
    """A run of fifty arms, two blocks each."""
    quick = {"min_passes": 1, "max_passes": 1, "output_tokens": 2}
    asked = plan(
        arms=["FP16", "NF4"],
        workloads=[{"output_tokens": 64, "batch": 1 + place} for place in range(_A_RUN // 2)],
        protocol={"mode": "precise", "iterations": 1, "blocks": 2, "warmup": quick},
    )
    return Scene(folder).measure(asked)


def copied(run: Path, results: Path, name: str) -> None:
    """The same run under another id, every hash made to fit."""
    shutil.copytree(run / "traces", results / name / "traces")
    old = read_journal(run / JOURNAL_NAME)
    times = iter(line.utc for line in old.lines)
    path = results / name / JOURNAL_NAME
    with JournalWriter.create(path, lambda: next(times), lambda _: None) as journal:
        for fact in old.records:
            mine = isinstance(fact, RunOpened)
            journal.append(fact.model_copy(update={"run_id": name}) if mine else fact)


def report(results: Path, folder: Path) -> Taken:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "ecocompute_cube.cli", "report"]
    command += ["--results_dir", str(results), "--report_dir", str(folder)]
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as ended:
        _, status, usage = os.wait4(ended.pid, 0)
        ended.returncode = os.waitstatus_to_exitcode(status)
    took = time.monotonic() - start
    assert ended.returncode == 0, ended.returncode
    page = (folder / "report.html").stat().st_size / 1e6
    cpu = usage.ru_utime + usage.ru_stime
    return Taken(_A_RUN * len(list(results.iterdir())), took, cpu, usage.ru_maxrss / 1024, page)


def same(one: Path, two: Path) -> bool:
    """Whether two folders hold the same bytes."""
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    return all((one / name).read_bytes() == (two / name).read_bytes() for name in files)


def main(arguments: Sequence[str]) -> int:
    """Print the figures; status 1 when one is out of reach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, default=1000)
    options = parser.parse_args(arguments)
    runs = max(2, round(options.arms / _A_RUN))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run, results = measured(folder / "scene"), folder / "results"
        copied(run, results, "run-0")
        alone = report(results, folder / "alone")
        for number in range(1, runs // 2):
            copied(run, results, f"run-{number}")
        half = report(results, folder / "half")
        for number in range(runs // 2, runs):
            copied(run, results, f"run-{number}")
        whole = report(results, folder / "whole")
        again = report(results, folder / "again")
        alike = same(folder / "whole", folder / "again")
    for taken in (alone, half, whole, again):
        sys.stdout.write(
            f"{taken.arms:6} arms: {taken.seconds:6.2f} s ({taken.cpu_s:.2f} s CPU), "
            f"{taken.peak_mib:6.0f} MiB, page {taken.page_mb:.2f} MB\n"
        )
    growth = whole.cpu_s / half.cpu_s
    sys.stdout.write(
        f"twice the arms: {growth:.2f} times the CPU time; "
        f"two reports {'are the same bytes' if alike else 'DIFFER'}\n"
    )
    scale = max(1, options.arms / 1000)
    within = whole.seconds <= _MOST_S * scale and whole.peak_mib <= _MOST_MIB * scale
    within &= growth <= _MOST_GROWTH and alone.page_mb <= _MOST_PAGE_MB
    return 0 if within and alike else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
