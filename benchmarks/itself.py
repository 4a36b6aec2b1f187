"""Does an arm equal itself? Whole runs of A/A plans on scripted boards.

``python -m benchmarks.itself [--runs N] [--seed S]`` measures FP16 against FP16#2 again and again:
the real runner, journal, rules and report, on a scripted board whose power differs from visit to
visit by 1.5 % and drifts by 3 % over the run. Printed is how many intervals hold zero, and the
chance of so few if each does so at the nominal rate. Status 1 below 1 %. Runs without a board.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from scipy import stats

from ecocompute_cube.model.base import present
from ecocompute_cube.model.claims import Comparison
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.report.build import build_report
from ecocompute_cube.report.run import read_run
from tests.run.rig import Scene, plan

_NOISE: Final = 0.015  # of an arm's power from visit to visit, one standard deviation
_DRIFT: Final = 0.03 / 16  # of the board's power from visit to visit, over eight blocks of two
_UNLIKELY: Final = 0.01


def asked() -> Plan:
    """FP16 against itself, by the adaptive rule, with windows that are short in scripted time."""
    quick = {"min_passes": 1, "max_passes": 1, "output_tokens": 2}
    protocol = {
        "mode": "precise",
        "iterations": 1,
        "warmup": quick,
        "stop": {"rule": "adaptive", "max_blocks": 16},
    }
    workloads = [{"output_tokens": 100}]
    return plan(arms=["FP16", "FP16#2"], workloads=workloads, protocol=protocol)


def spread(seed: int) -> Callable[[], float]:
    """The board's mood: noise and drift."""
    draw, visits = random.Random(seed), count()
    return lambda: draw.lognormvariate(next(visits) * _DRIFT, _NOISE)


def comparison(seed: int, folder: Path) -> Comparison:
    """The one comparison of a whole run."""
    run = Scene(folder, spread=spread(seed)).measure(asked())
    (found,) = build_report(read_run(run)).comparisons
    return found


def holds_zero(found: Comparison) -> bool:
    """Whether the interval allows for no difference."""
    interval = found.interval_pct
    return present(interval) and interval.low <= 0 <= interval.high


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def main(arguments: Sequence[str]) -> int:
    """Print how many hold zero; status 1 when so few are unlikely at the nominal rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    start, held, verdicts = time.process_time(), 0, []
    for seed in range(options.seed, options.seed + options.runs):
        with _folder() as folder:
            found = comparison(seed, folder)
        held += holds_zero(found)
        verdicts.append(str(found.verdict))
    chance = float(stats.binom.cdf(held, options.runs, asked().protocol.confidence))
    told = ", ".join(f"{verdicts.count(word)} {word}" for word in sorted(set(verdicts)))
    sys.stdout.write(
        f"A/A runs: {held} of {options.runs} intervals hold zero (nominal "
        f"{asked().protocol.confidence:.0%}; chance of so few: {chance:.2f}); verdicts: {told}; "
        f"{time.process_time() - start:.0f} s of CPU\n"
    )
    return 0 if chance >= _UNLIKELY else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
