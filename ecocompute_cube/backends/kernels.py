"""Two kernels that cost what a board's memory and its arithmetic cost: a copy, and a product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from ecocompute_cube.backends.base import Kernel, Kernels
from ecocompute_cube.model.base import Absent, MaybeInt

if TYPE_CHECKING:
    from collections.abc import Callable

_COPIED: Final = 2**30  # bytes; many times any board's last cache
_SIDE: Final = 8192  # of square FP16 matrices, 128 MiB each: enough for every multiprocessor
_SHARE: Final = 8  # a small board: of its free memory, for one of the buffers


def kernels(device: str) -> Kernels | Absent:
    """Ready to be launched on a CUDA device; a reason for any other."""
    if not device.startswith("cuda"):
        return Absent(reason="no board: a copy and a product are calibrated on a GPU")
    free = torch.cuda.mem_get_info(device)[0]
    return Kernels(
        copy=_copy(device, min(_COPIED, free // _SHARE)),
        product=_product(device, _SIDE if free > _SHARE * 2**30 else _SIDE // 4),
        sync=lambda: torch.cuda.synchronize(device),
        cache_bytes=_cache_bytes(device),
    )


def _copy(device: str, size: int) -> Kernel:
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return Kernel(2 * size, _launch(lambda: target.copy_(source)))  # read once, written once


def _product(device: str, side: int) -> Kernel:
    # Not zeros: what a multiplier draws depends on how many bits change.
    drawn = torch.Generator(device).manual_seed(0)
    a, b = (
        torch.randn(side, side, generator=drawn, device=device, dtype=torch.float16)
        for _ in range(2)
    )
    out = torch.empty_like(a)
    return Kernel(2 * side**3, _launch(lambda: torch.mm(a, b, out=out)))


def _launch(kernel: Callable[[], object]) -> Callable[[], None]:
    def launch() -> None:
        with torch.inference_mode():
            kernel()

    return launch


def _cache_bytes(device: str) -> MaybeInt:
    size = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", None)
    return size if size else Absent(reason="torch does not tell the size of the cache")
