"""``make bench``: what our own code costs, beside a bare interpreter in the same run.

``python -m benchmarks`` measures start-up, then how often intervals cover the truth of simulated
experiments (``benchmarks.coverage``) and hold zero where an arm is compared with itself
(``benchmarks.itself``), how often the range of a crossover holds the true size
(``benchmarks.crossover``), how often the bound of a window covers the energy of scripted
boards (``benchmarks.boards``), how far the parts of a step's energy are off (``benchmarks.why``),
what the side sampler costs (``benchmarks.sampler``), what an estimate takes and how far off it is
(``benchmarks.estimate``), how many questions a service answers (``benchmarks.service``), how soon
an assistant has its first (``benchmarks.mcp``), what a report of a thousand arms takes
(``benchmarks.report``), how heavy and how quick the site's pages are (``benchmarks.site``), a
bundle of a gigabyte of traces (``benchmarks.bundle``), and a look at 10,000 files of code
(``benchmarks.lint``); ``--rehearsal`` also times a rehearsal with everything set up, ``--tests``
the test suite. Figures are medians; ratios are what travels between machines.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_ROUNDS = 15

#: name, command, seconds it may take above a bare interpreter
_STARTS = (
    ("bare interpreter", ["-c", "pass"], None),
    ("import ecocompute_cube", ["-c", "import ecocompute_cube"], 0.05),
    ("ecocompute --help", ["-m", "ecocompute_cube.cli", "--help"], 0.15),
)

#: Benchmarks of their own, each printing its figures and ending with 1 when one is out of reach.
_FIGURES = (
    "benchmarks.coverage",
    "benchmarks.itself",
    "benchmarks.crossover",
    "benchmarks.boards",
    "benchmarks.why",
    "benchmarks.gate",
    "benchmarks.sampler",
    "benchmarks.estimate",
    "benchmarks.service",
    "benchmarks.mcp",
    "benchmarks.report",
    "benchmarks.site",
    "benchmarks.bundle",
    "benchmarks.lint",
)


def _seconds(command: list[str], statuses: tuple[int, ...] = (0,)) -> float:
    start = time.monotonic()
    ended = subprocess.run([sys.executable, *command], check=False, stdout=subprocess.DEVNULL)
    assert ended.returncode in statuses, (command, ended.returncode)
    return time.monotonic() - start


def _start_up() -> bool:
    taken: dict[str, list[float]] = {name: [] for name, _, _ in _STARTS}
    for _ in range(_ROUNDS):  # in turn, so that a busy moment hits them alike
        for name, command, _ in _STARTS:
            taken[name].append(_seconds(command))
    bare = statistics.median(taken["bare interpreter"])
    within = True
    for name, _, limit in _STARTS:
        median = statistics.median(taken[name])
        line = f"{name:28} {1e3 * median:7.1f} ms  {median / bare:5.1f} × bare"
        if limit is not None:
            ok = median - bare <= limit
            within &= ok
            line += f"  {'within' if ok else 'OVER'} {1e3 * limit:.0f} ms above bare"
        sys.stdout.write(line + "\n")
    return within


def _printed(module: str) -> bool:
    sys.stdout.write(f"\n{module}\n")
    sys.stdout.flush()
    return subprocess.run([sys.executable, "-m", module], check=False).returncode == 0


def _timed(name: str, command: list[str], limit: float, statuses: tuple[int, ...] = (0,)) -> bool:
    took = _seconds(command, statuses)
    ok = took <= limit
    sys.stdout.write(f"{name:28} {took:7.1f} s   {'within' if ok else 'OVER'} {limit:.0f} s\n")
    return ok


def main() -> int:
    """Print the figures; status 1 when one is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rehearsal", action="store_true")
    parser.add_argument("--tests", action="store_true")
    options = parser.parse_args()
    within = _start_up()
    for module in _FIGURES:
        within &= _printed(module)
    within &= _timed("ecocompute doctor", ["-m", "ecocompute_cube.cli", "doctor"], 5, (0, 3))
    if options.rehearsal:
        with tempfile.TemporaryDirectory() as folder:
            results, pages = Path(folder) / "results", Path(folder) / "report"
            run = ["-m", "ecocompute_cube.cli", "run", "--rehearse"]
            command = [*run, "--output_dir", str(results), "--report_dir", str(pages)]
            within &= _timed("rehearsal", command, 180)
    if options.tests:
        within &= _timed("test suite", ["-m", "pytest", "-q"], 300)
    return 0 if within else 1


if __name__ == "__main__":
    raise SystemExit(main())
