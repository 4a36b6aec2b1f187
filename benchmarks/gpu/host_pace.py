"""How steady is the host? Eager decoding beside a fixed loop of plain Python, pass by pass.

Run on a GPU host: ``python -m benchmarks.gpu.host_pace MODEL_FOLDER``. Prints, for each generation
of 64 tokens: tokens/s, CPU seconds a second, steal time, and what the loop took. On a quiet host
both columns stand still; where they move together, the host is the cause.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ecocompute_cube.device.base import SystemClock
from ecocompute_cube.engine.pace import spin

_PASSES = 30
_TOKENS = 64


def _steal() -> tuple[int, int]:
    ticks = [int(n) for n in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return ticks[7], sum(ticks)  # proc(5): the eighth field is steal


def main(folder: str) -> int:
    """Decode and spin in turn."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float16, device_map={"": "cuda:0"}, local_files_only=True
    ).eval()
    prompt = torch.arange(10, 20, device="cuda:0")[None]
    greedy = GenerationConfig(do_sample=False, min_new_tokens=_TOKENS, max_new_tokens=_TOKENS)
    sys.stdout.write("pass  tokens/s  cpu/s  steal  loop ms\n")
    for number in range(_PASSES):
        stolen, used, start = _steal(), time.process_time(), time.monotonic()
        with torch.inference_mode():
            model.generate(inputs=prompt, generation_config=greedy)
        torch.cuda.synchronize()
        took = time.monotonic() - start
        cpu = (time.process_time() - used) / took
        after = _steal()
        share = (after[0] - stolen[0]) / max(1, after[1] - stolen[1])
        loop_ms = 1e3 * spin(SystemClock())
        sys.stdout.write(
            f"{number:4}  {_TOKENS / took:8.1f}  {cpu:5.2f}  {share:5.3f}  {loop_ms:7.1f}\n"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
