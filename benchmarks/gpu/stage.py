"""A board, and what it takes to time work on it and to read its energy around it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.energy import counter_energy
from ecocompute_cube.device.base import SystemClock
from ecocompute_cube.device.nvml import Chosen, NvmlBoard, choose_board
from ecocompute_cube.engine.window import measure, measure_tick
from ecocompute_cube.model.base import present
from ecocompute_cube.units import Watt, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecocompute_cube.model.readings import Tick

_LIMIT_W: Final = Watt(1000.0)  # for the bound alone, which no benchmark prints


class Stage(NamedTuple):
    """A board and how it is read."""

    chosen: Chosen  #: and held
    board: NvmlBoard
    tick: Tick
    sync: Callable[[], None]


class Seen(NamedTuple):
    """What one window showed."""

    tokens_per_s: float
    mj_per_token: float
    seconds: float


def take_stage() -> Stage:
    """Hold a free board, with a context, so that it is in the state it decodes in."""
    import torch

    chosen = choose_board()
    torch.zeros(1, device="cuda:0")
    board = NvmlBoard(chosen.uuid)
    tick = measure_tick(board, SystemClock())
    assert present(tick), tick
    return Stage(chosen, board, tick, torch.cuda.synchronize)


def seen(
    stage: Stage, decode: Callable[[], object], tokens: int, length_s: float, delay_s: float
) -> Seen:
    """Whole generations of so many tokens, for at least so long, around the energy counter."""
    count = 0

    def work() -> None:
        nonlocal count
        end = time.monotonic() + length_s
        while time.monotonic() < end:
            decode()
            stage.sync()
            count += tokens

    window = measure(stage.board, SystemClock(), stage.sync, work, delay_s)
    assert present(window.counter), window.counter
    energy = counter_energy(window.counter, window.work, stage.tick, _LIMIT_W)
    assert present(energy), energy
    took_s = seconds(window.work.end_ns - window.work.start_ns)
    return Seen(count / took_s, 1e3 * energy.energy / count, took_s)
