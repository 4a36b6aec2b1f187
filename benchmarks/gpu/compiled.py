"""How fast and how dear a compiled step is, by the options of torch.compile.

Run on a GPU host: ``python -m benchmarks.gpu.compiled [--layers N] [--options NAME…] [--seconds S]
[--csv FILE]``. A model of Qwen2-7B's shape with random FP16 weights decodes one sequence; a step
must read every weight but the table of embeddings once, so that bytes of these × tokens/s over the
rate of a copy on the same board is the share that is reached. Energy is the counter's, of one
window a set: what is faster may take more. Few layers compile in seconds; 28 are the whole model,
and only they say what it reaches.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.gpu.decoding import PROMPT, SEVEN_BILLION, random_model
from benchmarks.gpu.stage import Stage, seen, take_stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedModel

    from ecocompute_cube.backends.base import Kernel
    from ecocompute_cube.backends.decoders import CompileOptions

_TOKENS: Final = 256
_TUNED: Final[CompileOptions] = {"coordinate_descent_tuning": True}
OPTIONS: Final[dict[str, CompileOptions | None]] = {
    "graph": None,  # not compiled: what the others are held to
    "stock": {},
    "tuned": _TUNED,
    "every-way": _TUNED | {"coordinate_descent_check_all_directions": True},
    "pointwise": _TUNED | {"max_autotune_pointwise": True},
    "autotuned": {"max_autotune": True},
    "autotuned-tuned": _TUNED | {"max_autotune": True},
    "combo": {"combo_kernels": True, "benchmark_combo_kernel": True},
    "combined": _TUNED | {"combo_kernels": True, "benchmark_combo_kernel": True},
    "multi": _TUNED | {"triton.multi_kernel": 1},
    "cooperative": _TUNED | {"triton.cooperative_reductions": True},
    "greedy-fusion": _TUNED | {"aggressive_fusion": True},
}


class Reached(NamedTuple):
    """One set of options."""

    options: str
    layers: int
    ready_s: float  #: compile, capture
    tokens_per_s: float
    share: float  #: of the copy's bytes per second
    mj_per_token: float
    watts: float

    @property
    def line(self) -> str:
        """For the terminal."""
        return (
            f"{self.options:16} {self.layers:2} layers, ready {self.ready_s:6.1f} s, "
            f"{self.tokens_per_s:7.1f} tokens/s, {self.share:.3f} of the copy, "
            f"{self.mj_per_token:7.1f} mJ/token, {self.watts:5.1f} W\n"
        )


def copy_rate(copy: Kernel, length_s: float) -> float:
    """Bytes per second, read and written."""
    import torch

    for _ in range(10):
        copy.launch()
    torch.cuda.synchronize()
    start, count = time.monotonic(), 0
    while time.monotonic() - start < length_s:
        for _ in range(10):
            copy.launch()
        torch.cuda.synchronize()
        count += 10
    return float(count * copy.amount / (time.monotonic() - start))


def read_bytes(model: PreTrainedModel) -> int:
    """What one step must read: all weights but the table of embeddings, a row of which is taken."""
    every: int = sum(weights.numel() * weights.element_size() for weights in model.parameters())
    table = model.get_input_embeddings().weight
    return every - int(table.numel() * table.element_size())


def reached(
    stage: Stage, model: PreTrainedModel, name: str, bytes_per_s: float, length_s: float
) -> Reached:
    """Compile with this set, and decode."""
    import torch

    from ecocompute_cube.backends.decoders import Steps

    torch.compiler.reset()
    prompt = torch.tensor([PROMPT], device=model.device)
    steps = Steps(model, (), captured=True, options=OPTIONS[name])
    start = time.monotonic()
    steps.prepare(prompt, _TOKENS)
    torch.cuda.synchronize()
    ready = time.monotonic() - start
    steps.generate(prompt, _TOKENS)
    window = seen(stage, lambda: steps.generate(prompt, _TOKENS), _TOKENS, length_s, 0)
    layers, rate = model.config.num_hidden_layers, window.tokens_per_s
    share = read_bytes(model) * rate / bytes_per_s
    watts = window.mj_per_token * rate / 1e3
    return Reached(name, layers, ready, rate, share, window.mj_per_token, watts)


def save(found: Sequence[Reached], file: Path) -> None:
    """One line a set."""
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(Reached._fields)
        rows.writerows(found)


def main(arguments: Sequence[str]) -> int:
    """Print the figures; a set that fails is a line."""
    from ecocompute_cube.backends.kernels import kernels
    from ecocompute_cube.model.base import present

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--options", nargs="+", choices=OPTIONS, default=list(OPTIONS))
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--csv", type=Path, default=Path("compiled.csv"))
    chosen = parser.parse_args(arguments)
    stage, known = take_stage(), kernels("cuda:0")
    assert present(known)
    rate = copy_rate(known.copy, 2)
    sys.stdout.write(f"copy: {rate / 1e12:.3f} TB/s read and written\n")
    model = random_model("cuda:0", SEVEN_BILLION | {"num_hidden_layers": chosen.layers})
    found: list[Reached] = []
    for name in chosen.options:
        try:
            found.append(reached(stage, model, name, rate, chosen.seconds))
        except Exception as error:  # an option this torch lacks costs its line
            said = (str(error).strip().splitlines() or [""])[0]
            sys.stdout.write(f"{name:16} {type(error).__name__}: {said[:160]}\n")
        else:
            sys.stdout.write(found[-1].line)
            save(found, chosen.csv)
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
