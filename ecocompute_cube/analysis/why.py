"""Where an arm's energy goes: idle, memory, arithmetic, and what none of them explains.

Of a token that takes t seconds, of which the board waits for the host a share w:

    idle waiting  = P_idle · w · t
    idle busy     = P_idle · (1 − w) · t
    memory        = bytes · J/byte          of a copy on this board, above idle
    compute       = operations · J/FLOP     of an FP16 product on this board, above idle
    unattributed  = E − the four            signed

The first two are exact as far as idle power is. The others charge each byte and operation what a
kernel that does nothing else pays for it, with all that keeps a busy board above idle; so a kernel
that uses the board badly leaves a rest, and one that overlaps the two leaves less than nothing.
w is 1 − t_captured/t of the same step where a captured arm stands in the run, else 1 − busy/t by a
profiler's pass outside the windows. A prompt is always one uncaptured pass: a prefill is captured
by no runtime, nor is a generation that is little else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.plan import CAPTURED, Phase, Runtime

if TYPE_CHECKING:
    from ecocompute_cube.analysis.cost import BoardCost
    from ecocompute_cube.model.cost import StepCost
    from ecocompute_cube.model.plan import Workload
    from ecocompute_cube.model.why import WaitingBy

_MANY: Final = 32  # passes, one of them the prompt's: what that waits for is a few percent at most
_MOST: Final = 0.5  # of the time or of a rate: what an arm is said to be bound by
_STATIC_SPARE: Final = 1  # position of a static cache beyond prompt and output (decoders.py)


class Waiting(NamedTuple):
    """Share of the time in which the board waits for the host."""

    share: float
    by: WaitingBy


class Needs(NamedTuple):
    """What a token has to read and to multiply, at least."""

    bytes: float
    flop: float


class Parts(NamedTuple):
    """Energy per token, in the unit of what was split."""

    idle_waiting: float
    idle_busy: float
    memory: float
    compute: float
    unattributed: float


def split(
    energy_j: float, token_s: float, idle_w: float, waiting: float, needs: Needs, cost: BoardCost
) -> Parts:
    """A token's energy in exclusive parts that add up to it, in joules."""
    known = (
        idle_w * waiting * token_s,
        idle_w * (1 - waiting) * token_s,
        needs.bytes * cost.joule_per_byte,
        needs.flop * cost.joule_per_flop,
    )
    return Parts(*known, unattributed=energy_j - sum(known))


def captured(workload: Workload, runtime: Runtime) -> bool:
    """Whether the host has next to no part in what a window repeats."""
    steps = workload.phase is Phase.DECODE or workload.generated_tokens >= _MANY
    return steps and runtime in CAPTURED


def waits(step_s: float, captured_s: float | None, busy_s: float | None) -> Waiting | None:
    """By the captured step, unless that is no faster; else by the profiler; None by neither."""
    if captured_s is not None and captured_s <= step_s:
        return Waiting(1 - captured_s / step_s, "captured step")
    if busy_s is not None and busy_s <= step_s:
        return Waiting(1 - busy_s / step_s, "profiler")
    return None


def of_a_pass(whole: float, prompt: float | None, tokens: int, passes: int) -> float:
    """The mean over a generation of ``passes``, by another of ``tokens`` that took ``whole``.

    ``prompt`` is what the prompt's pass took alone, of which either has one; None: they are alike.
    """
    if prompt is None or tokens == 1:
        return whole / tokens
    return (prompt + (passes - 1) * (whole - prompt) / (tokens - 1)) / passes


def needs(step: StepCost, workload: Workload, runtime: Runtime) -> Needs | Absent:
    """Of an output token, or of a prompt token in phase prefill; or what is not known."""
    weights, position = step.weights, step.position
    if not present(weights):
        return weights
    if not present(position):
        return position
    prompt, output = workload.prompt_tokens, workload.output_tokens
    if workload.phase is Phase.PREFILL:
        attended = (prompt + 1) / 2
        once = weights.bytes / (workload.batch * prompt)
        return Needs(once, weights.flop + position.flop * attended)
    positions = prompt + output / 2
    read = positions if runtime is Runtime.EAGER else prompt + output + _STATIC_SPARE
    size = weights.bytes / workload.batch + position.bytes * read
    if workload.phase is Phase.DECODE:
        return Needs(size, weights.flop + position.flop * positions)
    inputs = prompt + output - 1  # each attends to itself and to all before it
    attended = (inputs + 1) / 2
    return Needs(size, (weights.flop + position.flop * attended) * inputs / output)


def bound_by(waiting: float, memory_rate: float, compute_rate: float) -> str:
    """What an arm is said to be bound by: host, memory, compute or kernels."""
    if waiting >= _MOST:
        return "host"
    if max(memory_rate, compute_rate) >= _MOST:
        return "memory" if memory_rate >= compute_rate else "compute"
    return "kernels"
