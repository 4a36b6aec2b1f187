"""A fixed load between readings, in a process of its own: ``matmul.py UUID TRACE``; prints JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

from ecocompute_cube.analysis.energy import counter_energy
from ecocompute_cube.analysis.traces import integrate, parse_trace, rate_hz
from ecocompute_cube.device.base import RawTrace, SystemClock
from ecocompute_cube.device.nvml import NvmlBoard
from ecocompute_cube.device.sampler import ProcessTracer
from ecocompute_cube.engine.window import measure, measure_tick
from ecocompute_cube.model.base import present
from ecocompute_cube.units import Watt, seconds

SIDE = 4096  # FP16 products of this size keep any board busy
AT_ONCE = 16  # products between two looks at the clock
LOAD_S = 5.0
START_S = 60.0  # within which the sampler must have begun


class Products:
    """Matrix products for as long as is asked."""

    def __init__(self) -> None:
        self._a = torch.randn(SIDE, SIDE, device="cuda:0", dtype=torch.float16)
        self._out = torch.empty_like(self._a)

    def run(self, duration_s: float) -> None:
        end = time.monotonic() + duration_s
        while time.monotonic() < end:
            for _ in range(AT_ONCE):
                torch.mm(self._a, self._a, out=self._out)
            torch.cuda.synchronize()


def started(file: Path) -> bool:
    return file.exists() and len(file.read_text(encoding="ascii").splitlines()) > 2


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + START_S
    while not started(file):
        if time.monotonic() > deadline:
            raise SystemExit("the sampler did not start")
        time.sleep(0.05)


def main(uuid: str, file: Path) -> None:
    board, clock, products = NvmlBoard(uuid), SystemClock(), Products()
    products.run(1.0)
    torch.cuda.synchronize()
    tick = measure_tick(board, clock)
    limit = board.board().power_limit_w
    tracer = ProcessTracer(uuid)
    tracer.start(file)
    wait_for(file)
    window = measure(board, clock, torch.cuda.synchronize, lambda: products.run(LOAD_S), 0.03)
    raw = tracer.stop()
    if not (present(tick) and present(limit) and present(window.counter)):
        raise SystemExit(f"no counter: {tick} {limit} {window.counter}")
    if not isinstance(raw, RawTrace):
        raise SystemExit(raw.reason)
    trace = parse_trace(raw.file.read_text(encoding="ascii"))
    highest = Watt(max(trace.power_w))
    energy = counter_energy(window.counter, window.work, tick, highest)
    integral = integrate(trace, window.work)
    rate = rate_hz(trace.t_ns, window.work)
    if not (present(energy) and present(integral) and present(rate)):
        raise SystemExit(f"no energy: {energy} {integral} {rate}")
    work_s = seconds(window.work.end_ns - window.work.start_ns)
    answers = {
        "torch_uuid": f"GPU-{torch.cuda.get_device_properties(0).uuid}",
        "idle_w": energy.idle,
        "mean_w": energy.energy / work_s,
        "limit_w": limit,
        "bound_j": [energy.low, energy.high],
        "counter_j": energy.energy,
        "integral_j": integral,
        "rate_hz": rate,
        "failed": raw.failed,
    }
    print(json.dumps(answers))
    board.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
