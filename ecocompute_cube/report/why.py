"""Why an arm costs what it costs: its parts from the run's evidence, and a sentence."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.cost import BoardCost
from ecocompute_cube.analysis.why import (
    Needs,
    Waiting,
    bound_by,
    captured,
    needs,
    of_a_pass,
    split,
    waits,
)
from ecocompute_cube.model.base import Absent, MaybeFloat, present
from ecocompute_cube.model.plan import Phase, Runtime
from ecocompute_cube.model.why import Why
from ecocompute_cube.report.comparisons import trouble_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.analysis.gates import Judged
    from ecocompute_cube.model.base import MaybeInt
    from ecocompute_cube.model.cost import StepCost
    from ecocompute_cube.model.plan import Arm
    from ecocompute_cube.report.run import RunEvidence

_NO_PROFILE: Final = Absent(reason="no profile was taken")
_NOT_CALIBRATED: Final = Absent(reason="not_calibrated: no copy and product on this board")
_TO_TYPE: Final = 'cache_implementation="static"'
#: What makes an arm's step independent of the host; what a reader can have first.
_HOW: Final = {
    Runtime.STATIC: f"a static cache (type {_TO_TYPE})",
    Runtime.GRAPH: "the step captured as a CUDA graph",
    Runtime.COMPILED: "the step compiled and captured",
}
#: Libraries of what transformers compiles with a static cache; of others it does not (5.17).
_COMPILING: Final = frozenset({"torch", "torchao"})
_WORTH: Final = 0.9  # × an arm's energy: what saves less than a tenth is no remedy


class _Found(NamedTuple):
    """An arm's means over its counted windows."""

    energy_j: float  #: per token
    token_s: float  #: board time per token
    step_s: float  #: per pass through the model
    idle_w: float


class _Inputs(NamedTuple):
    """What an explanation is made from, but for the waiting."""

    windows: tuple[Judged, ...]
    found: _Found
    cost: BoardCost
    step: StepCost
    needed: Needs

    @property
    def memory_rate(self) -> float:
        """Bytes per second over those of the copy."""
        return self.needed.bytes / self.found.token_s / self.cost.bytes_per_s

    @property
    def compute_rate(self) -> float:
        """Operations per second over those of the product."""
        return self.needed.flop / self.found.token_s / self.cost.flop_per_s


def why_of(run: RunEvidence, arm: Arm) -> Why | Absent:
    """The arm's parts, or what is missing for them."""
    known = _inputs(run, arm)
    if not present(known):
        return known
    waiting = _waiting(run, arm, known.found)
    return _explained(run, arm, known, waiting) if present(waiting) else waiting


def _inputs(run: RunEvidence, arm: Arm) -> _Inputs | Absent:
    windows = run.counted(arm.id)
    if not windows:
        return Absent(reason=trouble_of(run, arm.id) or "no valid window")
    found, cost = _found(windows), _cost(run, windows)
    ready = run.known.ready.get(arm.id)
    step = ready[-1].step if ready else Absent(reason="the journal does not say what was loaded")
    needed = needs(step, arm.workload, arm.runtime) if present(step) else step
    if not present(found):
        return found
    if not present(cost):
        return cost
    if isinstance(step, Absent):
        return step
    if isinstance(needed, Absent):
        return needed
    return _Inputs(windows, found, cost, step, needed)


def _explained(run: RunEvidence, arm: Arm, known: _Inputs, waiting: Waiting) -> Why:
    found, cost, needed = known.found, known.cost, known.needed
    parts = split(found.energy_j, found.token_s, found.idle_w, waiting.share, needed, cost)
    return Why(
        says=_says(run, arm, known, waiting),
        **{f"{name}_mj": 1e3 * value for name, value in parts._asdict().items()},
        waiting=waiting.share,
        waiting_by=waiting.by,
        idle_w=found.idle_w,
        idle_bare_w=cost.bare_w,
        bytes_per_token=needed.bytes,
        flop_per_token=needed.flop,
        joule_per_byte=cost.joule_per_byte,
        joule_per_flop=cost.joule_per_flop,
        copy_bytes_per_s=cost.bytes_per_s,
        product_flop_per_s=cost.flop_per_s,
        memory_rate=known.memory_rate,
        compute_rate=known.compute_rate,
        layer_steps_per_s=known.step.layers / found.step_s,
        launches_per_token=_launches(run, arm),
        utilization_pct=_utilization(known.windows),
    )


def _found(windows: Sequence[Judged]) -> _Found | Absent:
    tokens = sum(window.tokens for window in windows)
    took_s = sum(window.work_s for window in windows)
    energy, idle = 0.0, 0.0
    for window in windows:
        if not present(window.energy):
            return Absent(reason=window.energy.reason)
        if not present(window.idle):
            return window.idle
        energy += window.energy.energy
        idle += window.idle.mean * window.work_s
    steps = sum(window.steps for window in windows)
    return _Found(energy / tokens, took_s / tokens, took_s / steps, idle / took_s)


def _cost(run: RunEvidence, windows: Sequence[Judged]) -> BoardCost | Absent:
    """The mean over the windows of what their sessions were calibrated to."""
    found = [run.known.costs.get(window.fact.session, _NOT_CALIBRATED) for window in windows]
    known = [each for each in found if present(each)]
    if len(known) < len(found):
        return next(each for each in found if isinstance(each, Absent))
    bare = [each.bare_w for each in known if present(each.bare_w)]
    return BoardCost(
        joule_per_byte=fmean(each.joule_per_byte for each in known),
        joule_per_flop=fmean(each.joule_per_flop for each in known),
        bytes_per_s=fmean(each.bytes_per_s for each in known),
        flop_per_s=fmean(each.flop_per_s for each in known),
        bare_w=fmean(bare) if len(bare) == len(known) else known[0].bare_w,
    )


def _waiting(run: RunEvidence, arm: Arm, found: _Found) -> Waiting | Absent:
    if captured(arm.workload, arm.runtime):
        return Waiting(0.0, "captured itself")
    busy = _busy_s(run, arm)
    graph = _sibling(run, arm, Runtime.GRAPH) if captured(arm.workload, Runtime.GRAPH) else None
    waiting = waits(found.step_s, graph.step_s if graph else None, busy if present(busy) else None)
    if waiting is not None:
        return waiting
    why = busy.reason if isinstance(busy, Absent) else "the profiler saw more than the time it took"
    return Absent(reason=f"how long the board waits for the host is not known: {why}")


def _sibling(run: RunEvidence, arm: Arm, runtime: Runtime) -> _Found | None:
    """The same arm by another runtime, if that was measured."""
    for other in run.known.arms:
        same = other == arm.model_copy(update={"runtime": runtime, "replica": 1})
        if same and other.id != arm.id and run.counted(other.id):
            found = _found(run.counted(other.id))
            return found if present(found) else None
    return None


def _launches(run: RunEvidence, arm: Arm) -> MaybeFloat:
    profile = run.known.profiled.get(arm.id)
    if profile is None:
        return _NO_PROFILE
    return _of_a_pass(profile.launches, profile.prompt_launches, profile.tokens, arm)


def _busy_s(run: RunEvidence, arm: Arm) -> MaybeFloat:
    """Of a pass through the model."""
    profile = run.known.profiled.get(arm.id)
    if profile is None:
        return _NO_PROFILE
    return _of_a_pass(profile.busy_s, profile.prompt_busy_s, profile.tokens, arm)


def _of_a_pass(
    whole: MaybeInt | MaybeFloat, prompt: MaybeInt | MaybeFloat, tokens: int, arm: Arm
) -> MaybeFloat:
    if not present(whole):
        return whole
    passes = arm.workload.generated_tokens
    return of_a_pass(whole, prompt if present(prompt) else None, tokens, passes)


def _utilization(windows: Sequence[Judged]) -> MaybeFloat:
    edges = [window.fact.after for window in windows]
    seen = [e.utilization_pct for e in edges if present(e) and present(e.utilization_pct)]
    return fmean(seen) if seen else Absent(reason="the driver told no utilization")


def _says(run: RunEvidence, arm: Arm, known: _Inputs, waiting: Waiting) -> str:
    memory, compute = known.memory_rate, known.compute_rate
    unit = "prompt pass" if arm.workload.phase is Phase.PREFILL else "token"
    bound = bound_by(waiting.share, memory, compute)
    if bound == "host":
        return (
            f"Host-bound: the board waits for the host for about {waiting.share:.0%} of each "
            f"{unit}{_remedy(run, arm, known.found)}."
        )
    if bound == "memory":
        return f"Memory-bound: reads at {memory:.0%} of what a copy reaches on this board."
    if bound == "compute":
        return f"Compute-bound: multiplies at {compute:.0%} of what an FP16 product reaches here."
    return (
        f"Bound by its kernels: the board works for {1 - waiting.share:.0%} of each {unit}, but "
        f"reads at {memory:.0%} of a copy's rate and multiplies at {compute:.0%} of a product's."
    )


def _remedy(run: RunEvidence, arm: Arm, found: _Found) -> str:
    """What a reader can type, if it was measured here and is worth it; else what was."""
    if arm.workload.phase is Phase.PREFILL:
        return ""  # whatever the runtime, a prompt is launched kernel by kernel
    for runtime, how in _HOW.items():
        other = _sibling(run, arm, runtime)
        if other is not None and other.energy_j < _WORTH * found.energy_j:
            nearest = "" if runtime is Runtime.STATIC else _nearest(run, arm)
            share = other.energy_j / found.energy_j
            return f"; with {how}{nearest} the same arm used {share:.2f} of the energy here"
    return ""


def _nearest(run: RunEvidence, arm: Arm) -> str:
    """What can be typed instead of a runtime of ours, unless it was measured or does nothing."""
    library, _, _ = run.known.ready[arm.id][-1].certificate.kernels.partition(" ")
    if library not in _COMPILING or _sibling(run, arm, Runtime.STATIC) is not None:
        return ""
    return f" (nearest to type: {_TO_TYPE})"
