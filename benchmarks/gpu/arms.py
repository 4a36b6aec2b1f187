"""Which arms run here, how long each takes until it is ready, and whether its ids are the loop's.

Run on a GPU host, or on a CPU for what runs there: ``python -m benchmarks.gpu.arms MODELS
[--model REFERENCE] [--arms FP16/loop NF4/graph …] [--tokens N] [--csv FILE]``. The model must be
downloaded into MODELS. Without ``--arms``: every precision with every runtime. Energy is not
measured here; an arm that cannot be had is a line with its reason. Status 1 when FP16/graph gives
other ids than FP16/loop.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.agreement import agreement
from ecocompute_cube.backends.precision import check_certificate
from ecocompute_cube.download.folder import model_folder, read_manifest
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.measure import builtin_text
from ecocompute_cube.model.base import present
from ecocompute_cube.model.plan import Arm, Precision, Runtime, Workload, parse_arm

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ecocompute_cube.backends.base import Session
    from ecocompute_cube.model.journal import Certificate

_ROUNDS: Final = 3  # timed generations, after one that is not
_EVERY: Final = tuple(f"{p}/{r}" for p in Precision for r in (Runtime.LOOP, *Runtime))


class Found(NamedTuple):
    """One arm."""

    arm: str
    ready_s: float | None  #: load, certify, compile, capture
    first_s: float | None  #: generation after that
    tokens_per_s: float | None  #: the fastest of three
    weight_mib: float | None
    probe_error: float | None
    same_ids: int | None  #: how many of the output ids come before the first that is not the loop's
    refused: str  #: why, if it was

    @property
    def line(self) -> str:
        """For the terminal."""
        if self.refused:
            return f"{self.arm:22} {self.refused}"
        off = "–" if self.probe_error is None else f"{self.probe_error:.3%}"
        same = "–" if self.same_ids is None else str(self.same_ids)
        return (
            f"{self.arm:22} ready {self.ready_s or 0:6.1f} s, first {self.first_s or 0:6.2f} s, "
            f"{self.tokens_per_s or 0:7.1f} tokens/s, {self.weight_mib or 0:8.1f} MiB, "
            f"product off by {off}, ids as the loop's: {same}"
        )


Loops = dict[Precision, list[int]]  #: ids of each precision's loop: what others are held to


def try_arm(
    choice: str, reference: str, models: Path, device: str, tokens: int, loops: Loops
) -> Found:
    """Load one arm as a run would, and decode with it; a loop's ids go into ``loops``."""
    parsed = parse_arm(choice)
    arm = Arm(
        model=reference,
        workload=Workload(output_tokens=tokens),
        precision=parsed.precision,
        runtime=parsed.runtime,
    )
    try:
        return _tried(arm, models, device, loops)
    except ArmFailed as error:
        return _refused(str(parsed), f"{error.reason}: {error.cause}")
    except Exception as error:
        said = (str(error).strip().splitlines() or [""])[0]
        return _refused(str(parsed), f"{type(error).__name__}: {said[:160]}")


def _refused(arm: str, why: str) -> Found:
    return Found(arm, None, None, None, None, None, None, why)


def _tried(arm: Arm, models: Path, device: str, loops: Loops) -> Found:
    from ecocompute_cube.backends.transformers import TransformersBackend

    folder = model_folder(arm.model, models)
    start = time.monotonic()
    session = TransformersBackend(device).load(arm, read_manifest(folder), folder)
    try:
        certificate = session.certificate()
        check_certificate(arm.precision, device, certificate)
        session.prepare(builtin_text().read_text(encoding="utf-8"), 1)
        session.sync()
        return _decoded(arm, session, certificate, time.monotonic() - start, loops)
    finally:
        session.close()


def _decoded(
    arm: Arm, session: Session, certificate: Certificate, ready_s: float, loops: Loops
) -> Found:
    tokens = arm.workload.output_tokens
    first_s, output = _timed(session, tokens)
    fastest = min(_timed(session, tokens)[0] for _ in range(_ROUNDS))
    ids: list[int] = output.tolist()[0][-tokens:]  # type: ignore[attr-defined]  # a tensor of ids
    if arm.runtime is Runtime.LOOP:
        loops[arm.precision] = ids
    loop = loops.get(arm.precision)
    error = certificate.probe_error
    return Found(
        arm=f"{arm.precision}/{arm.runtime}",
        ready_s=ready_s,
        first_s=first_s,
        tokens_per_s=tokens / fastest,
        weight_mib=certificate.weight_bytes / 2**20,
        probe_error=error if present(error) else None,
        same_ids=None if loop is None else agreement(ids, loop).before_first_difference,
        refused="",
    )


def _timed(session: Session, tokens: int) -> tuple[float, object]:
    start = time.monotonic()
    output = session.generate(0, tokens)
    session.sync()
    return time.monotonic() - start, output


def save(found: Iterable[Found], file: Path) -> None:
    """One line an arm."""
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(Found._fields)
        rows.writerows(found)


def main(arguments: Sequence[str]) -> int:
    """Print a line an arm."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path)
    parser.add_argument("--model", default="random:smollm2-135m")
    parser.add_argument("--arms", nargs="+", default=list(dict.fromkeys(_EVERY)))
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--csv", type=Path, default=Path("arms.csv"))
    options = parser.parse_args(arguments)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    found: list[Found] = []
    loops: Loops = {}
    for choice in options.arms:
        found.append(try_arm(choice, options.model, options.models, device, options.tokens, loops))
        save(found, options.csv)
        sys.stdout.write(f"{found[-1].line}\n")
        sys.stdout.flush()
    graph = next((each for each in found if each.arm == "FP16/graph"), None)
    return int(graph is not None and graph.same_ids not in (None, options.tokens))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
