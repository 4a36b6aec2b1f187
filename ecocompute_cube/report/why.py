"""Why an arm costs what it costs: its parts from the run's evidence, and a sentence."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.cost import BoardCost
from ecocompute_cube.analysis.why import CAPTURED, Needs, Waiting, bound_by, needs, split, waits
from ecocompute_cube.model.base import Absent, MaybeFloat, present
from ecocompute_cube.model.plan import Phase, Runtime
from ecocompute_cube.model.why import Why
from ecocompute_cube.report.comparisons import trouble_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.analysis.gates import Judged
    from ecocompute_cube.model.cost import StepCost
    from ecocompute_cube.model.plan import Arm
    from ecocompute_cube.report.run import RunEvidence

_NOT_CALIBRATED: Final = Absent(reason="not_calibrated: no copy and product on this board")
#: What makes an arm's step independent of the host, and how to type it in transformers.
_HOW: Final = {
    Runtime.STATIC: 'a static cache (type cache_implementation="static")',
    Runtime.GRAPH: "the step captured as a CUDA graph "
    '(nearest to type: cache_implementation="static")',
    Runtime.COMPILED: "the step compiled and captured "
    '(nearest to type: cache_implementation="static")',
}


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
    if arm.runtime in CAPTURED:
        return Waiting(0.0, "captured itself")
    profile = run.known.profiled.get(arm.id)
    busy = profile.busy_s if profile else Absent(reason="no profile was taken")
    captured = _sibling(run, arm, Runtime.GRAPH)
    waiting = waits(
        found.step_s,
        captured.step_s if captured else None,
        busy / profile.tokens if profile and present(busy) else None,
    )
    if waiting is not None:
        return waiting
    why = busy.reason if isinstance(busy, Absent) else "the profiler saw more than the time it took"
    return Absent(reason=f"how long the board waits for the host is not known: {why}")


def _sibling(run: RunEvidence, arm: Arm, runtime: Runtime) -> _Found | None:
    """The same arm by another runtime, if that was measured."""
    for other in run.known.arms():
        same = other == arm.model_copy(update={"runtime": runtime, "replica": 1})
        if same and other.id != arm.id and run.counted(other.id):
            found = _found(run.counted(other.id))
            return found if present(found) else None
    return None


def _launches(run: RunEvidence, arm: Arm) -> MaybeFloat:
    profile = run.known.profiled.get(arm.id)
    if profile is None:
        return Absent(reason="no profile was taken")
    if not present(profile.launches):
        return profile.launches
    return profile.launches / profile.tokens


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
    """What a reader can type, if it was measured here; else what was."""
    for runtime, how in _HOW.items():
        other = _sibling(run, arm, runtime)
        if other is not None and other.energy_j < found.energy_j:
            share = other.energy_j / found.energy_j
            return f"; with {how} the same arm used {share:.2f} of the energy here"
    return ""
