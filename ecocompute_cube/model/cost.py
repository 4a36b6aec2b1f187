"""What a decode step costs, and what a byte and an operation cost this board: the inputs of why."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ecocompute_cube.model.base import Absent, Count, MaybeInt, MaybeStr, NonNegative, Record
from ecocompute_cube.model.readings import (
    EARLY_FIELD,
    CounterBracket,
    IdleReading,
    Span,
    Tick,
)


class Work(Record):
    """What is read from memory, and multiplied."""

    bytes: Count  #: read
    flop: Count  #: operations; a multiplication with its addition is two


class StepCost(Record):
    """What one decode step has to do, by the shapes of the loaded model. A step is one token a row.

    Read are weights, once for all rows, and the key-value cache; what kernels move beyond that,
    such as weights that are dequantized to memory first, is not in it.
    """

    layers: int = Field(ge=1)  #: decoder layers
    weights: Work | Absent  #: of all weights that a step multiplies with, as they are stored
    position: Work | Absent  #: of keys and values, for each position that a row attends to


class KernelRun(Record):
    """One kernel, launched again and again between readings of the counter."""

    amount: int = Field(ge=1)  #: bytes read and written, or operations, of all launches
    counter: CounterBracket | Absent  #: the five readings around it
    work: Span  #: of all launches


class Calibrated(Record):
    """What a byte and an operation cost this board, measured while nothing else runs on it."""

    kind: Literal["calibrated"] = "calibrated"
    session: Count
    tick: Tick | Absent  #: of the counter when it was measured
    bare: IdleReading | Absent  #: the board at rest, with no context of this run
    resting: IdleReading | Absent  #: with one context that does nothing
    copy_bytes: KernelRun | Absent  #: a copy within the board's memory
    product_flop: KernelRun | Absent  #: a product of two FP16 matrices
    cache_bytes: MaybeInt  #: of the board's last cache
    taken_from: MaybeStr  #: the run that measured it, where that was not this one


class Profiled(Record):
    """One generation under a profiler, after the arm's windows and slower than those."""

    kind: Literal["profiled"] = "profiled"
    arm: str
    session: Count
    tokens: int = Field(ge=1)  #: output tokens a row, the prompt's pass among them
    launches: Count | Absent  #: kernels of all tokens
    busy_s: NonNegative | Absent  #: time in which at least one kernel ran
    #: kernels of the prompt's pass alone, where it is another share of a window's generation
    prompt_launches: Count | Absent = EARLY_FIELD
    prompt_busy_s: NonNegative | Absent = EARLY_FIELD  #: the time of those
