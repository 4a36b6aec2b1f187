"""What being measured costs: the side sampler on against off, in pairs, in random order.

Run on a GPU host: ``python -m benchmarks.gpu.observer [--pairs N] [--seconds S] [--csv FILE]``. A
random model of 0.5B decodes, eager and as a captured graph, in windows around the energy counter.
Prints the change of tokens/s and of energy per token that the sampler makes, with 95 % intervals
over the pairs; status 1 when an upper end is out of reach. Defaults take about eight minutes.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.gpu.decoding import decoding, random_model
from benchmarks.gpu.stage import Seen, Stage, seen, take_stage
from ecocompute_cube.analysis.ratios import t_interval
from ecocompute_cube.device.base import RawTrace
from ecocompute_cube.device.sampler import ProcessTracer
from ecocompute_cube.model.base import present
from ecocompute_cube.model.plan import Runtime
from ecocompute_cube.units import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

_REACH_PCT: Final = {"captured": 0.5, "eager": 1.0}  # upper end of the 95 % interval, of the cost
_TOKENS: Final = {"captured": 256, "eager": 32}  # a generation: under a second
_SETTLE_S: Final = 1.5  # for the sampler to start, and as long without it


class Reading(NamedTuple):
    """One window."""

    runtime: str
    pair: int
    sampled: bool
    rate: float  #: tokens/s
    mj: float  #: mJ per token
    seconds: float


class Cost(NamedTuple):
    """What the sampler changes, in percent: mean and ends of the interval."""

    what: str
    change: float
    low: float
    high: float


def costs(readings: Sequence[Reading]) -> list[Cost]:
    """Time and energy per token, with the sampler against without, over pairs."""
    pairs = sorted({reading.pair for reading in readings})
    by = {(reading.pair, reading.sampled): reading for reading in readings}
    both = [(by[pair, True], by[pair, False]) for pair in pairs]
    return [
        _cost("time per token", [math.log(off.rate / on.rate) for on, off in both]),
        _cost("energy per token", [math.log(on.mj / off.mj) for on, off in both]),
    ]


def _cost(what: str, logs: Sequence[float]) -> Cost:
    found = t_interval(logs, 0.95, "blocks")
    assert present(found), found
    ends = (statistics.fmean(logs), found.low, found.high)
    return Cost(what, *(percent(math.exp(end)) for end in ends))


@contextmanager
def _beside(uuid: str, sampled: bool) -> Iterator[None]:
    """With the sampler, or with as long a pause and without."""
    with tempfile.TemporaryDirectory() as folder:
        tracer = ProcessTracer(uuid)
        if sampled:
            tracer.start(Path(folder) / "trace.csv")
        time.sleep(_SETTLE_S)
        yield
        if sampled:
            trace = tracer.stop()
            assert isinstance(trace, RawTrace), trace


def paired(
    stage: Stage, runtime: str, decode: Callable[[], object], pairs: int, length_s: float
) -> list[Reading]:
    """Windows with and without the sampler, in random order within each pair."""
    draw = random.Random(1)
    found: list[Reading] = []
    decode()
    for pair in range(pairs):
        for sampled in draw.sample((True, False), 2):
            delay_s = draw.random() * stage.tick.median_ms / 1e3
            with _beside(stage.chosen.uuid, sampled):
                found_here = seen(stage, decode, _TOKENS[runtime], length_s, delay_s)
            found.append(Reading(runtime, pair, sampled, *found_here))
            _say(
                f"{runtime} pair {pair + 1}/{pairs} sampler {'on ' if sampled else 'off'} ",
                found_here,
            )
    return found


def _say(what: str, window: Seen) -> None:
    sys.stdout.write(
        f"{what} {window.tokens_per_s:8.2f} tokens/s {window.mj_per_token:8.2f} mJ/token\n"
    )
    sys.stdout.flush()


def save(readings: Sequence[Reading], file: Path) -> None:
    """One line a window."""
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(Reading._fields)
        rows.writerows(readings)


def main(arguments: Sequence[str]) -> int:
    """Print the figures; status 1 when one is out of reach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--csv", type=Path, default=Path("observer.csv"))
    parser.add_argument("--runtime", choices=tuple(_REACH_PCT), action="append")
    options = parser.parse_args(arguments)
    stage, model = take_stage(), random_model("cuda:0")
    decoders = {
        "captured": decoding(model, Runtime.GRAPH, _TOKENS["captured"]),
        "eager": decoding(model, Runtime.EAGER, _TOKENS["eager"]),
    }
    readings: list[Reading] = []
    within = True
    for runtime in options.runtime or _REACH_PCT:
        found = paired(stage, runtime, decoders[runtime], options.pairs, options.seconds)
        readings += found
        save(readings, options.csv)
        for cost in costs(found):
            within &= cost.high <= _REACH_PCT[runtime]
            sys.stdout.write(
                f"{runtime}: {cost.what} {cost.change:+.3f} % ({cost.low:+.3f} to "
                f"{cost.high:+.3f}; reach {_REACH_PCT[runtime]:g}; {options.pairs} pairs)\n"
            )
    return 0 if within else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
