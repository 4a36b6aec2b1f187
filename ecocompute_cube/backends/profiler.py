"""How many kernels a piece of work launches, and for how long at least one of them runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ecocompute_cube.model.base import Absent, MaybeFloat, MaybeInt
from ecocompute_cube.units import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def profiled(work: Callable[[], None], device: torch.device) -> tuple[MaybeInt, MaybeFloat]:
    """Launches and busy seconds of ``work``, by torch's profiler on a CUDA device.

    The profiler slows the host down, and may do so for as long as the process lives: only what the
    board did is of use.
    """
    if device.type != "cuda":
        none = Absent(reason="not on a board")
        return none, none
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        work()
    results: Any = seen.profiler.kineto_results
    spans = [
        (event.start_ns(), event.start_ns() + event.duration_ns())
        for event in results.events()
        if str(event.device_type()).endswith("CUDA") and event.duration_ns() > 0
    ]
    if not spans:
        none = Absent(reason="the profiler saw no kernel")
        return none, none
    return len(spans), seconds(covered(spans))


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """The length of the union of spans; all in one unit."""
    total, until = 0, -1
    for start, end in sorted(spans):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total
