"""Does one captured step always take the same time, and give the same ids?

Run on a GPU host: ``python -m benchmarks.gpu.replays [--seconds S] [--csv FILE]``. A model of 0.5B
with random weights decodes as a CUDA graph: when it is fresh, after a rest, after another process
has computed on the board, beside one that only holds a context, and captured anew: tokens/s each.
Then every runtime decodes the same prompt again and again, and the loop with each of torch's
attention kernels: how many ids come before the first that differs from the first time. Three
minutes; no energy is measured.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.gpu.decoding import PROMPT, decoding, random_model
from ecocompute_cube.analysis.agreement import agreement
from ecocompute_cube.model.plan import Runtime

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_TOKENS: Final = 256
_REST_S: Final = 20.0
_AGAIN: Final = 4  # generations after the first
_ON_A_BOARD: Final = (Runtime.EAGER, Runtime.LOOP, Runtime.GRAPH)
#: Another process: computes for two seconds; then it ends, or waits for the end of its input.
_OTHER: Final = """
import sys, time, torch
a = torch.ones(4096, 4096, device="cuda:0", dtype=torch.float16)
end = time.monotonic() + 2
while time.monotonic() < end:
    a @ a
    torch.cuda.synchronize()
print("done", flush=True)
sys.stdin.read()
"""


class Pace(NamedTuple):
    """What one condition did to the pace."""

    when: str
    window: int
    tokens_per_s: float


def pace(decode: Callable[[], object], sync: Callable[[], None], length_s: float) -> float:
    """Tokens per second over whole generations."""
    sync()
    start, count = time.monotonic(), 0
    while time.monotonic() - start < length_s or not count:
        decode()
        sync()
        count += 1
    return count * _TOKENS / (time.monotonic() - start)


def same_ids(decode: Callable[[], torch.Tensor]) -> list[int]:
    """Ids before the first that is not the first generation's, of each generation after it."""
    first: list[int] = decode().tolist()[0]
    return [agreement(decode().tolist()[0], first).before_first_difference for _ in range(_AGAIN)]


def paces(model: PreTrainedModel, sync: Callable[[], None], length_s: float) -> list[Pace]:
    """A graph's pace in each condition, three windows each."""
    found: list[Pace] = []

    def look(when: str, decode: Callable[[], object]) -> None:
        for window in range(3):
            found.append(Pace(when, window, pace(decode, sync, length_s)))
            sys.stdout.write(f"{when:32} {found[-1].tokens_per_s:8.1f} tokens/s\n")
            sys.stdout.flush()

    graph = decoding(model, Runtime.GRAPH, _TOKENS)
    look("fresh", graph)
    time.sleep(_REST_S)
    look(f"after {_REST_S:g} s of rest", graph)
    command = [sys.executable, "-c", _OTHER]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        look("beside another's context", graph)
        other.communicate()
    look("after another process", graph)
    look("captured anew", decoding(model, Runtime.GRAPH, _TOKENS))
    return found


def alike(model: PreTrainedModel) -> Iterator[tuple[str, list[int]]]:
    """Of every runtime, and of the loop with each attention kernel that takes it."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for runtime in _ON_A_BOARD:
        yield runtime, same_ids(decoding(model, runtime, _TOKENS))
    for backend in (
        SDPBackend.MATH,
        SDPBackend.EFFICIENT_ATTENTION,
        SDPBackend.CUDNN_ATTENTION,
    ):
        with sdpa_kernel(backend):
            try:
                yield (
                    f"loop, {backend.name.lower()}",
                    same_ids(decoding(model, Runtime.LOOP, _TOKENS)),
                )
            except RuntimeError as error:  # this kernel does not take this attention
                sys.stdout.write(f"loop, {backend.name.lower()}: {str(error).splitlines()[0]}\n")


def save(found: Sequence[Pace], file: Path) -> None:
    """One line a window."""
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(Pace._fields)
        rows.writerows(found)


def main(arguments: Sequence[str]) -> int:
    """Print the figures."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--csv", type=Path, default=Path("replays.csv"))
    options = parser.parse_args(arguments)
    model = random_model("cuda:0")
    save(paces(model, torch.cuda.synchronize, options.seconds), options.csv)
    for what, counts in alike(model):
        said = ", ".join(map(str, counts))
        sys.stdout.write(f"{what:28} ids as the first time: {said} of {_TOKENS + len(PROMPT)}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
