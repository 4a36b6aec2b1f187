"""How often does an interval cover the truth, when a run stops itself by looking at it?

``python -m benchmarks.coverage [--experiments N] [--seed S]`` simulates experiments of two and
three arms and hands them to the code that measures and reports: the adaptive rule ends each
session, the report's comparison gives the interval. Every block has noise of its own for every arm,
the board drifts by 3 % over twenty blocks and warms by 0.5 % from place to place within a block.
The truth of a session is its own ratio. Beside it: blocks that remember each other (AR(1)), and the
ratio of all sessions, of which one session shows a single draw. Status 1 when a session's coverage
is out of reach. Runs without a board.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ecocompute_cube.analysis.compare import compare
from ecocompute_cube.analysis.ratios import paired_log_ratios
from ecocompute_cube.analysis.stopping import look
from ecocompute_cube.model.base import present
from ecocompute_cube.model.plan import Contrast, Protocol
from ecocompute_cube.model.stop import AdaptiveStop
from ecocompute_cube.units import percent

_REACH: Final = (0.93, 0.97)  # issue: coverage of the 95 % interval of this session's ratio
_TRUTH: Final = (0.0, -0.2, 0.05)  #: log energy of each arm against the first
_DRIFT: Final = 0.03 / 20  #: log energy a block, of all arms alike
_PLACE: Final = 0.005  #: log energy a place within a block
_BETWEEN: Final = 0.02  #: spread of a session's log ratio around that of all sessions

Cells = dict[tuple[int, int], float]


class World(NamedTuple):
    """What an experiment is drawn from."""

    noise: float  #: standard deviation of an arm's log energy from block to block
    arms: int = 2
    memory: float = 0.0  #: correlation of an arm's noise with the block before
    sessions: int = 1
    between: float = 0.0


class Outcome(NamedTuple):
    """What many experiments of one world came to."""

    world: World
    own: float  #: coverage of the ratio of the sessions measured
    everyones: float  #: coverage of the ratio of all sessions
    blocks: Sequence[int]  #: of each session

    def line(self, name: str) -> str:
        """For people."""
        most = sorted(self.blocks)[int(0.95 * len(self.blocks))]
        return (
            f"{name:42} {100 * self.own:6.1f} %  {100 * self.everyones:6.1f} %"
            f"  {statistics.fmean(self.blocks):6.1f} {most:4d}"
        )


PROTOCOL: Final = Protocol.model_validate_json(
    json.dumps({"mode": "precise", "stop": {"rule": "adaptive"}})
)


def experiment(world: World, draw: random.Random) -> tuple[list[Cells], float, list[int]]:
    """Energies by arm and (session, block); the mean log ratio of its sessions; blocks of each."""
    cells: list[Cells] = [{} for _ in range(world.arms)]
    shifts, counts = [], []
    for session in range(world.sessions):
        shift = draw.gauss(0, world.between)
        shifts.append(shift)
        counts.append(_session(world, draw, session, shift, cells))
    return cells, _TRUTH[1] + statistics.fmean(shifts), counts


def _session(
    world: World, draw: random.Random, session: int, shift: float, cells: list[Cells]
) -> int:
    """Fill blocks until the rule ends them; how many there were."""
    assert isinstance(PROTOCOL.stop, AdaptiveStop)
    for count, logs in enumerate(_blocks(world, draw, shift), start=1):
        for arm, value in enumerate(logs):
            cells[arm][session, count - 1] = math.exp(value)
        if count < PROTOCOL.least_blocks:
            continue
        here = [{key: mj for key, mj in arm.items() if key[0] == session} for arm in cells]
        ratios = [tuple(paired_log_ratios(arm, here[0]).values()) for arm in here[1:]]
        if look(PROTOCOL, PROTOCOL.stop, count, ratios).ended:
            return count
    raise AssertionError("the rule ends every session")


def _blocks(world: World, draw: random.Random, shift: float) -> Iterator[list[float]]:
    """Log energies of the arms, block after block."""
    fresh = math.sqrt(1 - world.memory**2) * world.noise
    noise = [draw.gauss(0, world.noise) for _ in range(world.arms)]
    places = list(range(world.arms))
    for block in range(PROTOCOL.most_blocks):
        draw.shuffle(places)
        yield [
            _TRUTH[arm] + (shift if arm else 0.0) + block * _DRIFT + places[arm] * _PLACE + each
            for arm, each in enumerate(noise)
        ]
        noise = [world.memory * each + draw.gauss(0, fresh) for each in noise]


def covered(cells: list[Cells], truth: float) -> bool:
    """Whether the reported interval holds the ratio, as a change in percent."""
    mj = {"arm": cells[1], "against": cells[0]}
    found = compare(Contrast(arm="arm", against="against"), PROTOCOL, mj, {}).interval_pct
    assert present(found)
    return found.low <= percent(math.exp(truth)) <= found.high


def outcome(world: World, experiments: int, seed: int) -> Outcome:
    """Coverage over so many experiments."""
    draw = random.Random(f"{seed}:{world}")
    own = everyones = 0
    blocks: list[int] = []
    for _ in range(experiments):
        cells, truth, counts = experiment(world, draw)
        own += covered(cells, truth)
        everyones += covered(cells, _TRUTH[1])
        blocks += counts
    return Outcome(world, own / experiments, everyones / experiments, blocks)


#: What must be within reach, and what is printed beside it.
SESSIONS: Final = {
    "block noise 1 %": World(0.01),
    "block noise 2 %": World(0.02),
    "block noise 3 %": World(0.03),
    "block noise 4 %": World(0.04),
    "block noise 2 %, three arms": World(0.02, arms=3),
}
BESIDE: Final = {
    "block noise 2 %, AR(1) 0.2": World(0.02, memory=0.2),
    "block noise 2 %, AR(1) 0.4": World(0.02, memory=0.4),
    "one session, sessions differ by 2 %": World(0.01, between=_BETWEEN),
    "three sessions, sessions differ by 2 %": World(0.01, sessions=3, between=_BETWEEN),
    "five sessions, sessions differ by 2 %": World(0.01, sessions=5, between=_BETWEEN),
}


def main(arguments: Sequence[str]) -> int:
    """Print the figures; status 1 when a session's coverage is out of reach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    start = time.process_time()
    sys.stdout.write(
        f"{'coverage of the 95 % interval of':42} own ratio  all sessions'  blocks 95 %\n"
    )
    within = True
    for name, world in {**SESSIONS, **BESIDE}.items():
        found = outcome(world, options.experiments, options.seed)
        sys.stdout.write(found.line(name) + "\n")
        if name in SESSIONS:
            within &= _REACH[0] <= found.own <= _REACH[1]
    low, high = (100 * each for each in _REACH)
    sys.stdout.write(
        f"n = {options.experiments} each, {time.process_time() - start:.0f} s of CPU; own ratio of "
        f"the first {len(SESSIONS)} {'within' if within else 'OUT OF'} {low:.0f} to {high:.0f} %\n"
    )
    return 0 if within else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
