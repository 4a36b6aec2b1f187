"""Where an arm's energy goes, and what that is computed from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ecocompute_cube.model.base import MaybeFloat, Record

#: How it is known which share of the time the board waits for the host.
WaitingBy = Literal["captured step", "profiler", "captured itself"]


class Why(Record):
    """An arm's energy per token in exclusive parts, in mJ; with the rest they add up to all of it.

    Per output token; in phase prefill per prompt token.
    """

    says: str  #: one sentence
    idle_waiting_mj: float  #: idle power while the board waits for the host
    idle_busy_mj: float  #: idle power while it works
    memory_mj: float  #: bytes read × what a byte of the calibration's copy cost above idle
    compute_mj: float  #: operations × what one of the calibration's product cost above idle
    unattributed_mj: float  #: the rest; below zero where the parts are more than the whole
    waiting: float = Field(ge=0, le=1)  #: share of the time in which the board waits
    waiting_by: WaitingBy  #: how that is known
    idle_w: float  #: at rest with the models loaded, around the windows
    idle_bare_w: MaybeFloat  #: at rest without a context of this run
    bytes_per_token: float  #: that it must read
    flop_per_token: float  #: that it must multiply and add
    joule_per_byte: float  #: of the calibration's copy, above idle
    joule_per_flop: float  #: of the calibration's product, above idle
    copy_bytes_per_s: float  #: of the calibration, reads and writes
    product_flop_per_s: float  #: of the calibration
    memory_rate: float  #: bytes per second over those of the copy
    compute_rate: float  #: operations per second over those of the product
    layer_steps_per_s: float  #: decoder layers, each once a step
    launches_per_token: MaybeFloat  #: of one row
    utilization_pct: MaybeFloat  #: right after the windows, by the driver
