"""What an estimate takes, and how far off estimates are on what they had not seen.

``python -m benchmarks.estimate [--queries N] [--seed S]``: as many distinct questions as said, each
timed alone, nothing remembered between them; reach 20 µs in the median on two cores. Then, from the
packaged curves: how often a session that was left out lay in the range of the others, and how far
the mechanism was off on sessions and on boards that were left out. ``scripts/fit_curves.py``
computes those. Runs without a board.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Final

from ecocompute_cube.analysis.cards import CARDS
from ecocompute_cube.analysis.curves import library
from ecocompute_cube.analysis.estimator import estimate
from ecocompute_cube.analysis.mechanism import Error, model

REACH_US: Final = 20.0
_PRECISIONS: Final = ("NF4", "NF4", "INT8", "INT8-T0", "FP16")
_BATCHES: Final = (1, 1, 1, 8, 32)


def questions(number: int, seed: int) -> list[dict[str, object]]:
    """Distinct ones, of every board, most of them of measured ones and at batch 1."""
    draw = random.Random(seed)
    measured = sorted({gpu for gpu, _, _ in library().ratios})
    boards = [*(card.name for card in CARDS), *measured * 4]
    return [
        {
            "params_b": math.exp(draw.uniform(math.log(0.1), math.log(100))),
            "gpu": draw.choice(boards),
            "precision": draw.choice(_PRECISIONS),
            "batch": draw.choice(_BATCHES),
            "context": draw.randint(1, 16_384),
        }
        for _ in range(number)
    ]


def timed(asked: Sequence[dict[str, object]]) -> list[float]:
    """Microseconds of each."""
    estimate(7, gpu="h200")  # reads the curves
    taken = []
    for each in asked:
        start = time.perf_counter_ns()
        estimate(**each)  # type: ignore[arg-type]
        taken.append((time.perf_counter_ns() - start) / 1e3)
    return sorted(taken)


def _covered() -> list[str]:
    return [
        f"{precision + '/' + runtime:16} {each.held:3} of {each.tried:3} "
        f"({100 * each.held / each.tried:.0f} %)"
        for (precision, runtime), each in library().scatter.items()
        if each.tried
    ]


def _off(name: str, errors: dict[str, Error]) -> list[str]:
    return [
        f"{name:30} {precision:8} rms {100 * math.expm1(each.log_rms):5.1f} %, range × or ÷ "
        f"{math.exp(each.half):.2f}, n = {each.degrees}"
        for precision, each in errors.items()
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the figures; status 1 when the median is out of reach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    taken = timed(questions(options.queries, options.seed))
    median = statistics.median(taken)
    within = median <= REACH_US
    by = model()
    lines = [
        f"estimate(): median {median:.1f} µs, p99 {taken[int(0.99 * len(taken))]:.1f} µs over "
        f"{len(taken)} questions; {'within' if within else 'OUT OF'} reach of {REACH_US:g} µs",
        "",
        "sessions left out that lay in the 95 % range of the others",
        *_covered(),
        "",
        "error of the mechanism on what was left out",
        *_off("change, session left out", by.seen),
        *_off("change, board left out", by.unseen),
        *_off("mJ/token, session left out", by.seen_level),
        *_off("mJ/token, board left out", by.unseen_level),
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0 if within else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
