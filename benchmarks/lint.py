"""What ``ecocompute lint`` takes: 10,000 files, its start, and how time grows with a file.

``python -m benchmarks.lint [--files N] [--folder DIR]`` makes a tree as projects have them: most
files hold nothing to find, one in ten loads and calls models, one in a hundred has something to
find; sizes are those of source files. Status 1 when it takes longer, or more memory, than it may.
With ``--folder`` it times a tree that is there, and judges nothing by it.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ecocompute_cube.lint.run import judge

_MOST_S: Final = 10.0
_MOST_MIB: Final = 300.0
_START_S: Final = 0.15  # above a bare interpreter
_ROUNDS: Final = 7
_LINES: Final = (20, 400)  # of a file
_HUNDRED: Final = 100

_PLAIN: Final = "def step_{n}(values, scale={n}):\n    return [scale * each for each in values]\n"
_MODEL: Final = (
    "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
    "tokenizer = AutoTokenizer.from_pretrained('gpt2')\n"
    "model = AutoModelForCausalLM.from_pretrained('gpt2', device_map='auto')\n"
    "def reply(text):\n"
    "    return model.generate(**tokenizer(text, return_tensors='pt'), max_new_tokens=64)\n"
)
_WASTE: Final = (
    "from transformers import BitsAndBytesConfig\nconfig = BitsAndBytesConfig(load_in_8bit=True)\n"
)


class Taken(NamedTuple):
    """What one command took."""

    seconds: float
    cpu_s: float  #: of all its processes: what counts where others use the cores too
    peak_mib: float  #: of the largest of its processes
    all_mib: float  #: bound for all: as many times that as it has processes


def tree(folder: Path, files: int, seed: int = 1) -> None:
    """Files as projects have them."""
    draw = random.Random(seed)
    for n in range(files):
        place = folder / f"part{n // _HUNDRED}"
        place.mkdir(exist_ok=True)
        lines = draw.randint(*_LINES) // 2
        body = "".join(_PLAIN.format(n=k) for k in range(lines))
        head = _WASTE if n % _HUNDRED == 0 else _MODEL if n % 10 == 1 else ""
        (place / f"module{n}.py").write_text(head + body, encoding="utf-8")


def timed(folder: Path) -> Taken:
    """The real command, to its end."""
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "ecocompute_cube.cli", "lint", str(folder), "--fail_on", "never"],
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    peak = used.ru_maxrss / 1024  # getrusage(2): kilobytes; of the largest one that it waited for
    cpu = used.ru_utime + used.ru_stime
    return Taken(time.monotonic() - start, cpu, peak, 3 * peak)


def _start_up() -> tuple[float, float]:
    """Medians of a bare interpreter, and of the command on one file with nothing in it."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "a.py").write_text("x = 1\n", encoding="utf-8")
        command = ["-m", "ecocompute_cube.cli", "lint", name]
        taken: dict[str, list[float]] = {"bare": [], "lint": []}
        for _ in range(_ROUNDS):
            for kind, words in (("bare", ["-c", "pass"]), ("lint", command)):
                start = time.monotonic()
                subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
                taken[kind].append(time.monotonic() - start)
    return statistics.median(taken["bare"]), statistics.median(taken["lint"])


def growth() -> float:
    """How many times longer ten times the file takes."""

    def seconds(times: int) -> float:
        text = "import torch\n" + (_MODEL + _WASTE) * times
        start = time.process_time()
        judge(text, "long.py", "python")
        return time.process_time() - start

    seconds(20)
    small, large = (min(seconds(n) for _ in range(3)) for n in (100, 1000))
    return large / small


def main(arguments: Sequence[str]) -> int:
    """Print the figures; status 1 when one is out of reach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args(arguments)
    if options.folder is not None:
        taken = timed(options.folder)
        sys.stdout.write(f"{taken.seconds:.1f} s, {taken.cpu_s:.1f} s of processors\n")
        return 0
    with tempfile.TemporaryDirectory() as name:
        tree(Path(name), options.files)
        taken = timed(Path(name))
    bare, lint = _start_up()
    times = growth()
    within = taken.seconds <= _MOST_S and taken.all_mib <= _MOST_MIB and lint - bare <= _START_S
    sys.stdout.write(
        f"{options.files} files: {taken.seconds:.1f} s (at most {_MOST_S:.0f}), "
        f"{taken.cpu_s:.1f} s of processors; at most "
        f"{taken.all_mib:.0f} MiB in three processes (at most {_MOST_MIB:.0f}), "
        f"{len(os.sched_getaffinity(0))} cores\n"
        f"start: {1e3 * (lint - bare):.0f} ms above a bare interpreter, median of {_ROUNDS} (at "
        f"most {1e3 * _START_S:.0f})\nten times the file: {times:.1f} times as long\n"
    )
    return 0 if within else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
