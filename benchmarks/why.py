"""How far off are the parts? Steps made by another model than the one that takes them apart.

``python -m benchmarks.why [--steps N] [--seed S]``: simulated boards run a decode step eagerly and
captured. Unlike what ``analysis.why`` assumes, kernels overlap memory and arithmetic, use either of
them badly, wait for each other on the board longer when they come one by one, do not take the same
time in a graph (caches, clocks), and are launched by a host that jitters; and a board whose last
kernel has ended comes down to idle power only after a while. A copy and a product on the
same board are the calibration. Printed is how far each part is from the truth, in percent of the
step's energy. Runs without a board.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from ecocompute_cube.analysis.cost import BoardCost
from ecocompute_cube.analysis.why import Needs, Parts, split, waits
from ecocompute_cube.model.base import Absent

_COMPARED: Final = ("idle_waiting", "idle_busy", "memory", "compute", "unattributed")


class SimBoard(NamedTuple):
    """A board's truth; powers in watts, energies in joules, times in seconds."""

    idle_w: float
    active_w: float  #: above idle, while any kernel runs
    fading_s: float  #: so long it lasts after a kernel has ended
    byte_j: float
    flop_j: float
    bytes_per_s: float
    flop_per_s: float
    gap_s: float  #: between two kernels of a graph, on the board
    more_gap_s: float  #: the same of kernels that are launched one by one
    in_graph: float  #: how long kernels take in a graph, × what they take one by one


class Kernel(NamedTuple):
    """One of a step's."""

    bytes: float
    flop: float
    took_s: float
    launch_s: float  #: of the host


class Taken(NamedTuple):
    """One way to run a step."""

    step_s: float
    energy_j: float
    busy_s: float  #: with a kernel running


class Truth(NamedTuple):
    """A step with its true parts."""

    eager: Taken
    captured: Taken
    needs: Needs
    parts: Parts


def board(draw: random.Random) -> SimBoard:
    """Any board between a small and a large one."""
    bandwidth = draw.uniform(0.3e12, 5e12)
    products = draw.uniform(5e13, 1e15)
    idle_w = draw.uniform(20, 140)
    return SimBoard(
        idle_w=idle_w,
        active_w=draw.uniform(0.1, 0.8) * idle_w,
        fading_s=draw.uniform(0, 20e-6),
        byte_j=draw.uniform(0.3, 1.0) * 300 / 5e12,
        flop_j=draw.uniform(0.3, 1.0) * 500 / 1e15,
        bytes_per_s=bandwidth,
        flop_per_s=products,
        gap_s=draw.uniform(0.3e-6, 1.5e-6),
        more_gap_s=draw.uniform(0.5e-6, 3e-6),
        in_graph=draw.uniform(0.9, 1.05),
    )


def kernels(draw: random.Random, on: SimBoard) -> list[Kernel]:
    """A step: large products and many small kernels, launched by a host that jitters."""
    weights = draw.uniform(0.2e9, 15e9)
    count = draw.randint(300, 1500)
    large = draw.randint(100, 200)
    host_s = draw.uniform(3e-6, 20e-6)
    found = []
    for number in range(count):
        size = weights / large if number < large else 2e4
        flop = 2 * size / 2
        roof_s = max(size / on.bytes_per_s, flop / on.flop_per_s)  # the two overlap
        took_s = roof_s * draw.uniform(1.0, 1.5) + draw.uniform(1e-6, 3e-6)
        found.append(Kernel(size, flop, took_s, host_s * draw.lognormvariate(0, 0.5)))
    draw.shuffle(found)
    return found


def run(step: Sequence[Kernel], on: SimBoard, *, captured: bool) -> Taken:
    """Kernel by kernel: each begins when it has been launched and its forerunner has ended."""
    host = end = fading = busy = 0.0
    gap_s = on.gap_s if captured else on.more_gap_s
    for kernel in step:
        host += 0.0 if captured else kernel.launch_s
        start = max(host, end + gap_s)
        fading += min(start - end, on.fading_s) if end else 0.0
        took_s = kernel.took_s * (on.in_graph if captured else 1.0)
        end, busy = start + took_s, busy + took_s
    energy = on.idle_w * end + on.active_w * (busy + fading)
    energy += sum(k.bytes * on.byte_j + k.flop * on.flop_j for k in step)
    return Taken(end, energy, busy)


def truth(step: Sequence[Kernel], on: SimBoard) -> Truth:
    """The eager step's true parts: waiting is the time in which no kernel is there to run."""
    eager, captured = run(step, on, captured=False), run(step, on, captured=True)
    busy = sum(kernel.took_s + on.more_gap_s for kernel in step)
    total = Needs(sum(k.bytes for k in step), sum(k.flop for k in step))
    memory, compute = total.bytes * on.byte_j, total.flop * on.flop_j
    idle_waiting = on.idle_w * max(0.0, eager.step_s - busy)
    idle_busy = on.idle_w * eager.step_s - idle_waiting
    rest = eager.energy_j - on.idle_w * eager.step_s - memory - compute
    return Truth(eager, captured, total, Parts(idle_waiting, idle_busy, memory, compute, rest))


def calibration(on: SimBoard) -> BoardCost:
    """What a copy and a product of this board cost above idle: with what an active board draws."""
    return BoardCost(
        joule_per_byte=on.byte_j + on.active_w / on.bytes_per_s,
        joule_per_flop=on.flop_j + on.active_w / on.flop_per_s,
        bytes_per_s=on.bytes_per_s,
        flop_per_s=on.flop_per_s,
        bare_w=Absent(reason="not simulated"),
    )


def errors(draw: random.Random) -> Parts:
    """Of one step on one board: what was found less what is true, in percent of the energy."""
    on = board(draw)
    true = truth(kernels(draw, on), on)
    step_s, energy_j, busy_s = true.eager
    waiting = waits(step_s, true.captured.step_s, busy_s)
    assert waiting is not None
    found = split(energy_j, step_s, on.idle_w, waiting.share, true.needs, calibration(on))
    return Parts(*(100 * (a - b) / energy_j for a, b in zip(found, true.parts, strict=True)))


def main(arguments: Sequence[str]) -> int:
    """Print the errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    draw = random.Random(options.seed)
    found = [errors(draw) for _ in range(options.steps)]
    sys.stdout.write(f"error of each part in percent of a step's energy, {options.steps} steps\n")
    for name in _COMPARED:
        values = sorted(getattr(each, name) for each in found)
        low, high = (values[round(share * (len(values) - 1))] for share in (0.025, 0.975))
        sys.stdout.write(
            f"{name:13} median {statistics.median(values):+6.2f}, 95 % of them within "
            f"{low:+.2f} to {high:+.2f}\n"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
