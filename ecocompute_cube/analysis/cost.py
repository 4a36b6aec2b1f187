"""What a byte and an operation cost a board above idle, from its calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.energy import counter_energy
from ecocompute_cube.analysis.idle import resting_power
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.units import Watt, seconds

if TYPE_CHECKING:
    from ecocompute_cube.model.base import MaybeFloat
    from ecocompute_cube.model.cost import Calibrated, KernelRun
    from ecocompute_cube.model.readings import IdleReading

_ANY_LIMIT: Final = Watt(1000.0)  # for a window's bound alone, which is not used here


class BoardCost(NamedTuple):
    """Energies are above idle with a context."""

    joule_per_byte: float
    joule_per_flop: float
    bytes_per_s: float
    flop_per_s: float
    bare_w: MaybeFloat  #: idle without a context


def board_cost(found: Calibrated) -> BoardCost | Absent:
    """From the readings of a calibration; a reason where one is missing or makes no sense."""
    idle = resting_power(found.resting)
    if not present(idle):
        return Absent(reason=f"not calibrated: {idle.reason}")
    memory = _per_unit(found, found.copy_bytes, idle)
    compute = _per_unit(found, found.product_flop, idle)
    if isinstance(memory, Absent):
        return memory
    if isinstance(compute, Absent):
        return compute
    return BoardCost(memory[0], compute[0], memory[1], compute[1], _bare(found.bare))


def _bare(reading: IdleReading | Absent) -> MaybeFloat:
    power = resting_power(reading)
    return float(power) if present(power) else power


def _per_unit(
    found: Calibrated, run: KernelRun | Absent, idle: Watt
) -> tuple[float, float] | Absent:
    """Joule above idle, and rate per second."""
    if not present(run):
        return Absent(reason=f"not calibrated: {run.reason}")
    if not present(run.counter) or not present(found.tick):
        return Absent(reason="not calibrated: the energy counter gave nothing")
    took_s = seconds(run.work.end_ns - run.work.start_ns)
    if took_s <= 0:
        return Absent(reason="not calibrated: a kernel ended before it began")
    energy = counter_energy(run.counter, run.work, found.tick, _ANY_LIMIT)
    if not present(energy):
        return Absent(reason=f"not calibrated: {energy.reason}")
    above = energy.energy - idle * took_s
    if above <= 0:
        return Absent(reason="not calibrated: a kernel drew no more than the board at rest")
    return above / run.amount, run.amount / took_s
