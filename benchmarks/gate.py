"""How often the gate cries wolf, and what it sees, on simulated sessions.

``python -m benchmarks.gate [--trials N]``: sessions of one arm differ by a standard deviation that
is asked for, drawn from Student's t with five degrees (heavier tails than the gate assumes); the
head is one further session, changed by so much. Prints the share that is graded `regressed` at a
tolerance of 3 %. With no change that share must be at most 2.5 %, within three
standard errors of the trials; status 1 otherwise.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from typing import TYPE_CHECKING, Final

from ecocompute_cube.analysis.pooling import Group, Kind, Session
from ecocompute_cube.analysis.replication import difference
from ecocompute_cube.model.base import present
from ecocompute_cube.model.plan import Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOLERANCE_PCT: Final = 3.0
_MOST_ALARMS: Final = 0.025
_TAIL: Final = 5  # degrees of the t that sessions are drawn from
_BASE: Final = Group(
    Kind("m", "NF4", "eager", "w"), 1.0, Workload(), {}, (), frozenset({2.0}), 0.95, frozenset()
)


def _session(draw: random.Random, number: int, log_sd: float, shift: float) -> Session:
    chi = sum(draw.gauss(0, 1) ** 2 for _ in range(_TAIL))
    scaled = draw.gauss(0, 1) / math.sqrt(chi / _TAIL) / math.sqrt(_TAIL / (_TAIL - 2))
    return Session(f"r{number}", 0, "board", (shift + log_sd * scaled,))


def regressed(sessions: int, log_sd: float, change_pct: float, trials: int) -> float:
    """Share of heads that are graded so."""
    draw, found = random.Random(1), 0
    shift = math.log1p(change_pct / 100)
    for _ in range(trials):
        base = tuple(_session(draw, number, log_sd, 0.0) for number in range(sessions))
        head = (_session(draw, sessions, log_sd, shift),)
        seen = difference(_BASE._replace(sessions=head), _BASE._replace(sessions=base), 0.95)
        assert present(seen.interval_pct)
        found += seen.interval_pct.low > _TOLERANCE_PCT
    return found / trials


def main(arguments: Sequence[str]) -> int:
    """Print the shares; status 1 when the gate cries wolf too often."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=4000)
    options = parser.parse_args(arguments)
    quiet = True
    sys.stdout.write("sessions  their sd   +0 %    +5 %   +10 %   +20 %\n")
    for sessions in (3, 5, 10):
        for sd_pct in (0.5, 2.0, 8.0):
            shares = [
                regressed(sessions, sd_pct / 100, change, options.trials)
                for change in (0, 5, 10, 20)
            ]
            noise = math.sqrt(_MOST_ALARMS * (1 - _MOST_ALARMS) / options.trials)
            quiet &= shares[0] <= _MOST_ALARMS + 3 * noise
            told = "  ".join(f"{100 * share:5.1f}%" for share in shares)
            sys.stdout.write(f"{sessions:8}  {sd_pct:5.1f} %   {told}\n")
    return 0 if quiet else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
