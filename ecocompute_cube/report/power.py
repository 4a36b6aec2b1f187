"""What a window's power looked like: its trace, thinned to what a screen can show."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import present
from ecocompute_cube.model.journal import TraceStored
from ecocompute_cube.model.readings import EARLY
from ecocompute_cube.units import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ecocompute_cube.analysis.gates import Judged
    from ecocompute_cube.analysis.traces import Trace
    from ecocompute_cube.report.run import RunEvidence

_BINS: Final = 150  # two points each, lowest and highest: three to a pixel of the chart
#: What lies between two marks of a visit, in the order they come.
_STRETCHES: Final = (
    ("load", "load_start", "model_ready"),
    ("warm-up", "rested", "warmup_end"),
    ("window", "measure_start", "measure_end"),
    ("quality", "quality_start", "quality_end"),
)


class Stretch(NamedTuple):
    """A part of a visit, in seconds since its trace began."""

    what: str
    start_s: float
    end_s: float


class PowerShown(NamedTuple):
    """One visit of an arm."""

    run_id: str
    arm: str
    block: int
    points: tuple[tuple[float, float], ...]  #: seconds, watts
    stretches: tuple[Stretch, ...]


def power_shown(run: RunEvidence) -> tuple[PowerShown, ...]:
    """The last counted window of every arm that has a trace."""
    last = [windows[-1] for windows in run.counting.values() if windows]
    found = (_shown(run, window) for window in last)
    return tuple(each for each in found if each is not None)


def _shown(run: RunEvidence, window: Judged) -> PowerShown | None:
    fact = window.fact
    visit = (fact.arm, fact.session, fact.group, fact.block, 0)  # of several boards, the first
    trace, stored = run.traces.get(visit), run.known.traces.get(visit)
    if trace is None or not present(trace) or not isinstance(stored, TraceStored):
        return None
    if not trace.t_ns:
        return None
    return PowerShown(
        run_id=run.known.run.run_id,
        arm=fact.arm,
        block=fact.block,
        points=tuple(_thinned(trace)),
        stretches=tuple(_stretches(stored.phases, window, trace.t_ns[0], trace.t_ns[-1])),
    )


def _stretches(
    phases: Mapping[str, int], window: Judged, first_ns: int, last_ns: int
) -> Iterator[Stretch]:
    before = window.warmed.idle if window.warmed else EARLY
    marks = {"model_ready": first_ns, **phases}  # an arm that stayed loaded is ready at once
    marks["rested"] = before.span.end_ns if present(before) else marks["model_ready"]
    spans = [
        (f"{what}: {window.workload.phase}" if what == "window" else what, marks[start], marks[end])
        for what, start, end in _STRETCHES
        if start in marks and end in marks
    ]
    rests = [each.span for each in (before, window.fact.idle) if present(each)]
    spans += [("idle", rest.start_ns, rest.end_ns) for rest in rests]
    for what, start_ns, end_ns in sorted(spans, key=lambda span: span[1]):
        yield Stretch(what, *(_at(mark, first_ns, last_ns) for mark in (start_ns, end_ns)))


def _at(moment_ns: int, first_ns: int, last_ns: int) -> float:
    return round(seconds(min(max(moment_ns, first_ns), last_ns) - first_ns), 2)


def _thinned(trace: Trace) -> Iterator[tuple[float, float]]:
    """Of each stretch of time the lowest and the highest sample, in their order."""
    first, count = trace.t_ns[0], len(trace.t_ns)
    edges = [round(count * part / _BINS) for part in range(_BINS + 1)]
    for start, end in pairwise(edges):
        for place in _extremes(trace.power_w[start:end]):
            at = trace.t_ns[start + place]
            yield round(seconds(at - first), 2), round(trace.power_w[start + place], 1)


def _extremes(values: Sequence[float]) -> list[int]:
    if not values:
        return []
    return sorted({values.index(min(values)), values.index(max(values))})
