"""How often does the range of a crossover hold the true size, whatever the curve's form?

``python -m benchmarks.crossover [--experiments N] [--seed S]`` simulates log ratios of an arm and
FP16 at seven sizes from 0.5 to 14 billion parameters, with a true zero that is drawn anew between
2 and 9, and hands them to the code that reports. Three forms of the truth: straight over log size,
a logistic step, and a saturating curve. An arm's energy differs by 2.1 % between sessions and by
2 % within one. Beside them: blocks of a single session, a truth that has no zero in the range, and
one that is not monotone. Status 1 when a coverage is out of reach. Runs without a board.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ecocompute_cube.analysis.crossover import Measured, crossover
from ecocompute_cube.model.base import present
from ecocompute_cube.model.crossover import Crossover

SIZES: Final = (0.5, 1.1, 1.5, 3.0, 7.0, 9.0, 14.0)
CONFIDENCE: Final = 0.95
_REACH: Final = (
    0.94,
    1.0,
)  # the least that a 95 % range may hold the truth; it may hold it oftener
_WRONG: Final = 0.05  # how often a claim may be made that is not so
_BETWEEN: Final = 0.021  #: of an arm's log energy, from session to session
_WITHIN: Final = 0.02  #: from block to block of one session

Truth = Callable[[float, float], float]  #: log ratio of a size, where the zero is at another


def straight(size: float, zero: float) -> float:
    """Falls alike over every doubling of the size."""
    return -0.2 * math.log(size / zero)


def step(size: float, zero: float) -> float:
    """Falls by 70 % of a logarithm in all, most of it around the zero."""
    return 0.35 - 0.7 / (1 + math.exp(-2.5 * math.log(size / zero)))


def saturating(size: float, zero: float) -> float:
    """Falls as the board fills: 1 + A - S x / (1 + x), x in units of the zero."""
    x = size / zero
    return math.log(1 + 0.5 - 1.0 * x / (1 + x))


def beyond(size: float, zero: float) -> float:
    """Above zero at every size."""
    return straight(size, 10 * SIZES[-1]) + 0 * zero


def bent(size: float, zero: float) -> float:
    """Straight, but for one size that stands out by a quarter."""
    return straight(size, zero) + (0.25 if size == SIZES[2] else 0.0)


FORMS: Final[dict[str, Truth]] = {
    "straight": straight,
    "logistic": step,
    "saturating": saturating,
}


class World(NamedTuple):
    """What an experiment is drawn from."""

    truth: Truth
    sessions: int
    blocks: int = 3

    @property
    def between(self) -> float:
        """A single session has a truth of its own, and its blocks spread about that."""
        return _BETWEEN if self.sessions > 1 else 0.0


class Outcome(NamedTuple):
    """What many experiments came to."""

    held: float  #: ranges that hold the true size, of those that were given
    width: float  #: median of high over low, where both ends lie within the sizes
    bias: float  #: median error of the size, of its logarithm
    said: dict[str, float]  #: how often each status

    def line(self, name: str) -> str:
        """For people."""
        said = ", ".join(f"{status} {100 * part:.1f} %" for status, part in self.said.items())
        figures = (f"{100 * self.held:.1f} %", f"{100 * self.bias:+.1f} %", f"{self.width:.2f}")
        shown = "  ".join(f"{'–' if 'nan' in each else each:>8}" for each in figures)
        return f"{name:34} {shown}  {said}"


def experiment(world: World, zero: float, draw: random.Random) -> Crossover:
    """One experiment, reported."""
    return crossover(
        [Measured(size, f"{size}B", _logs(world, size, zero, draw)) for size in SIZES], CONFIDENCE
    )


def _logs(
    world: World, size: float, zero: float, draw: random.Random
) -> dict[tuple[int, int], float]:
    logs = {}
    for session in range(world.sessions):
        shift = draw.gauss(0, world.between) - draw.gauss(0, world.between)
        for block in range(world.blocks):
            noise = draw.gauss(0, _WITHIN) - draw.gauss(0, _WITHIN)
            logs[session, block] = world.truth(size, zero) + shift + noise
    return logs


def holds(found: Crossover, zero: float) -> bool:
    """Whether the range holds this size; an open end holds whatever lies beyond it."""
    around = found.size_range_b
    if not present(around):
        return False
    low = around.low_b if present(around.low_b) else 0.0
    high = around.high_b if present(around.high_b) else math.inf
    return low <= zero <= high


def outcome(world: World, experiments: int, seed: int) -> Outcome:
    """Coverage over so many experiments."""
    draw = random.Random(f"{seed}:{world.truth.__name__}:{world.sessions}")
    zeros = [math.exp(draw.uniform(math.log(2), math.log(9))) for _ in range(experiments)]
    found = [experiment(world, zero, draw) for zero in zeros]
    statuses = ("crosses", "undecided", "not in this range", "refused")
    both = list(zip(found, zeros, strict=True))
    ranges = [(each, zero) for each, zero in both if present(each.size_range_b)]
    widths = [
        around.high_b / around.low_b
        for each in found
        if present(around := each.size_range_b) and present(around.low_b) and present(around.high_b)
    ]
    errors = [math.log(each.size_b / zero) for each, zero in both if present(each.size_b)]
    return Outcome(
        held=sum(holds(each, zero) for each, zero in ranges) / len(ranges) if ranges else math.nan,
        width=statistics.median(widths) if widths else math.nan,
        bias=statistics.median(errors) if errors else math.nan,
        said={
            status: sum(each.status == status for each in found) / experiments
            for status in statuses
        },
    )


WORLDS: Final = {
    f"{name}, {sessions} sessions a size": World(truth, sessions)
    for name, truth in FORMS.items()
    for sessions in (2, 3, 5)
} | {f"{name}, 8 blocks of one session": World(truth, 1, 8) for name, truth in FORMS.items()}
NO_ZERO: Final = {"no zero in the range, 3 sessions": World(beyond, 3)}
NO_ORDER: Final = {"one size out of order, 3 sessions": World(bent, 3)}


def main(arguments: Sequence[str]) -> int:
    """Print the figures; status 1 when one is out of reach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    start = time.process_time()
    sys.stdout.write(f"{'':34} {'held':>8}  {'bias':>8}  {'width':>8}  said\n")
    within = True
    for name, world in {**WORLDS, **NO_ZERO, **NO_ORDER}.items():
        found = outcome(world, options.experiments, options.seed)
        sys.stdout.write(found.line(name) + "\n")
        if name in WORLDS:
            within &= _REACH[0] <= found.held <= _REACH[1]
            within &= found.said["refused"] + found.said["not in this range"] <= _WRONG
        elif name in NO_ZERO:
            within &= found.said["crosses"] <= _WRONG
        else:
            within &= found.said["refused"] >= 1 - _WRONG
    sys.stdout.write(
        f"n = {options.experiments} each, {time.process_time() - start:.0f} s of CPU; "
        f"{'within' if within else 'OUT OF'} reach: held in {100 * _REACH[0]:.0f} % or more, "
        f"wrong claims in {100 * _WRONG:.0f} % or fewer\n"
    )
    return 0 if within else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
