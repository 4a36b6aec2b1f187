"""Whether an arm can fit over several boards, asked before it loads.

A single board says itself that its memory ran out. Over several the library would put what is left
on the host, or on a disk, without a word.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.engine.predict import CONTEXT_BYTES, size_of, weight_bytes
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import present
from ecocompute_cube.units import gib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.device.base import PowerSource
    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm, Workload

_ELEMENT_BYTES: Final = 2  # of a cache, which is in FP16 or BF16
_MIB: Final = 2**20


def check_room(arm: Arm, manifest: Manifest, folder: Path, boards: Sequence[PowerSource]) -> None:
    """Refuse what cannot be over these boards. Raises ArmFailed: boards_too_small."""
    weights = weight_bytes(arm, size_of(manifest))
    cache = cache_bytes(folder, arm.workload)
    needed = weights + cache + CONTEXT_BYTES * len(boards)
    free = sum(map(free_bytes, boards))
    if needed <= free:
        return
    raise ArmFailed(
        "boards_too_small",
        f"{arm.precision} needs at least {gib(needed):.1f} GiB (weights {gib(weights):.1f}, cache "
        f"{gib(cache):.1f}, the rest for CUDA); {len(boards)} boards have {gib(free):.1f} GiB "
        "available.",
        "Raise boards in the plan, or use a smaller batch, context or model, or free the boards.",
    )


def free_bytes(board: PowerSource) -> int:
    """A board's memory but for what processes hold, as far as it tells."""
    used = board.capabilities().memory_used_mib
    return _MIB * (board.board().memory_mib - (used if present(used) else 0))


def cache_bytes(folder: Path, workload: Workload) -> int:
    """Keys and values of every row at its full length; none where the checkpoint does not tell."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    try:
        layers, heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
        wide = int(config.get("head_dim") or config["hidden_size"] // heads)
        kept = int(config.get("num_key_value_heads") or heads)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return 0
    if kinds := config.get("layer_types"):
        layers = kinds.count("full_attention")
    elif config.get("sliding_window") and config.get("use_sliding_window", True):
        layers = 0  # they keep less than every token
    rows = workload.batch * workload.context_tokens
    return 2 * _ELEMENT_BYTES * layers * kept * wide * rows
