"""What torch does with two boards, in a process of its own: ``both_boards.py UUID,UUID FOLDER``.

Prints JSON: torch's UUIDs in their order; each board's energy in a window whose work is on one of
them alone; and, of the model in FOLDER, the ids that each arm gives on one board and over two.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

from ecocompute_cube.backends.precision import check_certificate
from ecocompute_cube.backends.transformers import TransformersBackend
from ecocompute_cube.device.base import SystemClock
from ecocompute_cube.device.nvml import NvmlBoard
from ecocompute_cube.download.folder import read_manifest
from ecocompute_cube.engine.window import measure
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.measure import builtin_text
from ecocompute_cube.model.base import present
from ecocompute_cube.model.plan import Arm, Workload, parse_arm

ARMS = ("FP16/eager", "FP16/loop", "NF4/eager", "NF4/loop", "INT8-T0/loop")
BOTH = "cuda:0,cuda:1"
SIDE = 4096  # FP16 products of this size keep any board busy
LOAD_S = 3.0
TOKENS = 32


def products(device: str) -> None:
    """Keep one board busy for a while."""
    a = torch.randn(SIDE, SIDE, device=device, dtype=torch.float16)
    out = torch.empty_like(a)
    end = time.monotonic() + LOAD_S
    while time.monotonic() < end:
        for _ in range(16):
            torch.mm(a, a, out=out)
        torch.cuda.synchronize(device)


def energies(uuids: list[str], device: str) -> list[float]:
    """Joules of each board while one of them works."""
    first, *others = map(NvmlBoard, uuids)
    products(device)  # libraries load at the first
    window = measure(
        first, SystemClock(), torch.cuda.synchronize, lambda: products(device), 0.03, others
    )
    found = []
    for counter in (window.counter, *window.others):
        if not present(counter):
            raise SystemExit(counter.reason)
        found.append((counter.next.energy_mj - counter.opening.energy_mj) / 1e3)
    return found


def ids(name: str, device: str, folder: Path) -> dict[str, object]:
    """What an arm says, where its weights lie, or why it was refused."""
    choice, manifest = parse_arm(name), read_manifest(folder)
    arm = Arm(
        model=manifest.reference,
        workload=Workload(prompt_tokens=10, output_tokens=TOKENS),
        precision=choice.precision,
        runtime=choice.runtime,
    )
    try:
        session = TransformersBackend(device).load(arm, manifest, folder)
        certificate = session.certificate()
        check_certificate(arm.precision, device, certificate)
        session.prepare(builtin_text().read_text(encoding="utf-8"), 1)
        output = session.generate(0, TOKENS)
        session.sync()
        said = session.ledger([output]).first_ids
    except ArmFailed as error:
        return {"refused": f"{error.reason}: {error.cause}"}
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    session.close()
    return {"ids": said, "held": certificate.device_bytes, "bytes": certificate.weight_bytes}


def main(uuids: list[str], folder: Path) -> None:
    count = torch.cuda.device_count()
    seen = [f"GPU-{torch.cuda.get_device_properties(n).uuid}" for n in range(count)]
    busy = {device: energies(uuids, device) for device in BOTH.split(",")}
    arms = {
        name: {"one": ids(name, "cuda:0", folder), "two": ids(name, BOTH, folder)} for name in ARMS
    }
    graph = ids("FP16/graph", BOTH, folder)
    static = ids("FP16/static", BOTH, folder)  # last: nobody knows what compiling does here
    print(json.dumps({"seen": seen, "busy": busy, "arms": arms, "graph": graph, "static": static}))


if __name__ == "__main__":
    main(sys.argv[1].split(","), Path(sys.argv[2]))
