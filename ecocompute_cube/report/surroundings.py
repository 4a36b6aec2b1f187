"""The blocks of energy.json around the numbers: thermal, trace, environment."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Final

from ecocompute_cube.analysis.evidence import visit_of
from ecocompute_cube.model.base import Absent, MaybeFloat, MaybeInt, present
from ecocompute_cube.model.energy import (
    Clocks,
    Environment,
    PowerTrace,
    Temperatures,
    Thermal,
    TraceFile,
)
from ecocompute_cube.model.journal import TRACE_COLUMNS, TraceStored
from ecocompute_cube.model.readings import EARLY, IdleReading, Telemetry
from ecocompute_cube.units import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.analysis.evidence import Kept
    from ecocompute_cube.analysis.gates import Judged
    from ecocompute_cube.analysis.traces import Trace
    from ecocompute_cube.model.journal import SessionOpened
    from ecocompute_cube.model.plan import Arm
    from ecocompute_cube.report.run import RunEvidence

_WINDOW_NOTE: Final = (
    "Each file spans one visit of the arm: load (first visit), warm-up, the measured window, "
    "quality. The headline energy is the counter's over [measure_start_s, measure_end_s]; this "
    "trace stands beside it. Idle power is not subtracted."
)


def _edges(windows: Sequence[Judged]) -> tuple[list[Telemetry], list[Telemetry]]:
    """What the board, of several the first, said of itself before each window, and after it."""
    before = [w.fact.before for w in windows if present(w.fact.before)]
    after = [w.fact.after for w in windows if present(w.fact.after)]
    return before, after


def _all_edges(windows: Sequence[Judged]) -> list[Telemetry]:
    """What every board said of itself around the windows."""
    before, after = _edges([board for window in windows for board in window.parts or (window,)])
    return [*before, *after]


def _kept(run: RunEvidence, windows: Sequence[Judged]) -> list[tuple[Kept, Trace | Absent]]:
    """The trace of each board at the visits of these windows, where one was begun."""
    visits = [
        (*visit_of(window.fact), board)
        for window in windows
        for board in range(1 + len(window.fact.others))
    ]
    return [(visit, run.traces[visit]) for visit in visits if visit in run.traces]


def _known(values: Sequence[MaybeFloat]) -> list[float]:
    return [value for value in values if present(value)]


def _first(values: Sequence[MaybeFloat]) -> float | None:
    return next(iter(_known(values)), None)


def _last(values: Sequence[MaybeFloat]) -> float | None:
    return next(reversed(_known(values)), None)


def _peak(values: Sequence[MaybeFloat]) -> float | None:
    return max(_known(values), default=None)


def thermal(run: RunEvidence, arm: Arm, windows: Sequence[Judged]) -> Thermal:
    """Temperatures at the windows' edges and the highest the traces saw."""
    plan = run.known.run.plan
    before, after = _edges(windows)
    starts = [edge.temperature_c for edge in before]
    ends = [edge.temperature_c for edge in after]
    warmed = [window.warmed for window in windows if window.warmed]
    settled = bool(warmed) and all(each.settled for each in warmed)
    known = bool(_known(starts)) and bool(_known(ends))
    around = [edge.temperature_c for edge in _all_edges(windows)]
    all_seen = [*around, *_trace_temperatures(run, windows)] if known else []
    return Thermal(
        mode="steady",
        basis="measured" if known else "unavailable",
        warmup_runs=min((each.passes for each in warmed), default=0),
        cooldown_s=plan.protocol.cooldown_s,
        temperature_start_c=_first(starts) if known else None,
        temperature_steady_c=statistics.median(_known(starts)) if settled and known else None,
        temperature_end_c=_last(ends) if known else None,
        temperature_peak_c=_peak(all_seen),
        steady_state_reached=settled and known,
        arm_order="randomized",
        note=_thermal_note(windows, known, settled, arm),
    )


def _thermal_note(windows: Sequence[Judged], known: bool, settled: bool, arm: Arm) -> str:
    if not windows:
        return "No window was measured on a board."
    if not known:
        return "The board gave no temperature around a counted window."
    if not settled:
        return (
            f"Warm-up of {arm.precision} reached its ceiling before speed or temperature settled."
        )
    return "Warmed until two passes and three temperatures agreed; order drawn anew each block."


def _trace_temperatures(run: RunEvidence, windows: Sequence[Judged]) -> list[MaybeFloat]:
    traces = [trace for _, trace in _kept(run, windows)]
    return [t for trace in traces if present(trace) for _, t in trace.temperature_c]


def sample_rate(windows: Sequence[Judged]) -> int | None:
    """Whole hertz the side sampler achieved in the slowest window."""
    rates = [window.rate_hz for window in windows if present(window.rate_hz)]
    return math.floor(min(rates)) if rates else None


def power_trace(run: RunEvidence, arm: Arm, windows: Sequence[Judged]) -> PowerTrace | Absent:
    """The trace files of the counted windows' visits; those that cannot be read are left out."""
    kept = [(run.known.traces[visit], trace) for visit, trace in _kept(run, windows)]
    files = tuple(
        _trace_file(arm, stored, trace, run.known.run.plan.boards > 1)
        for stored, trace in kept
        if isinstance(stored, TraceStored) and present(trace) and trace.t_ns
    )
    rate = sample_rate(windows)
    if not files or rate is None:
        reasons = [trace.reason for _, trace in kept if isinstance(trace, Absent)]
        return Absent(reason=reasons[0] if reasons else "no trace was kept")
    return PowerTrace(
        format="csv.gz",
        columns=TRACE_COLUMNS,
        sample_rate_hz=rate,
        window="visit",
        window_note=_WINDOW_NOTE,
        files=files,
    )


def _trace_file(arm: Arm, stored: TraceStored, trace: Trace, split: bool) -> TraceFile:
    start = trace.t_ns[0]
    marks = {"trace_start": start, **stored.phases}
    return TraceFile(
        role="primary",
        precision=arm.precision,
        file=stored.file,
        samples=stored.samples,
        dropped_samples=stored.failed_samples,
        phases={f"{name}_s": seconds(at - start) for name, at in marks.items()},
        sha256=stored.sha256,
        achieved_rate_hz=stored.achieved_hz,
        longest_gap_s=stored.longest_gap_s,
        board=stored.board if split else EARLY,
    )


def environment(sessions: Sequence[SessionOpened], windows: Sequence[Judged]) -> Environment:
    """Board settings and readings around the windows; every null has a reason."""
    board = sessions[0].board if sessions else Absent(reason="no session")
    before, after = _edges(windows)
    values: dict[str, float | str | None] = {
        "gpu_uuid": board.uuid_sha256 if present(board) else None,
        "power_limit_w": _first([board.power_limit_w]) if present(board) else None,
    }
    clocks = Clocks(
        sm_start=_first([edge.sm_clock_mhz for edge in before]),
        mem_start=_first([edge.memory_clock_mhz for edge in before]),
        sm_end=_last([edge.sm_clock_mhz for edge in after]),
        mem_end=_last([edge.memory_clock_mhz for edge in after]),
    )
    temperatures = Temperatures(
        idle_before=_first([each.seen.temperature_c for each in _at_rest(windows)]),
        start=_first([edge.temperature_c for edge in before]),
        end=_last([edge.temperature_c for edge in after]),
        peak=_peak([edge.temperature_c for edge in _all_edges(windows)]),
    )
    return Environment(
        gpu_uuid=board.uuid_sha256 if present(board) else None,
        power_limit_w=_first([board.power_limit_w]) if present(board) else None,
        power_limit_source="NVML enforced limit" if present(board) else "no board",
        clocks_mhz=clocks,
        temperature_c=temperatures,
        clock_lock_applied=False,
        power_lock_applied=False,
        capture_method="NVML, before and after each window, in the measured process"
        if before
        else "none: no window was measured on a board",
        event_reasons=_reasons(_all_edges(windows)),
        foreign_processes=_foreign(_all_edges(windows)),
        isolation=sessions[0].isolation if sessions else EARLY,
        wsl2=sessions[0].host.wsl2 if sessions else EARLY,
        reasons=_null_reasons(values, clocks, temperatures, windows),
    )


def _at_rest(windows: Sequence[Judged]) -> list[IdleReading]:
    return [w.warmed.idle for w in windows if w.warmed and present(w.warmed.idle)]


def _reasons(edges: Sequence[Telemetry]) -> tuple[str, ...] | Absent:
    seen = [edge.event_reasons for edge in edges if present(edge.event_reasons)]
    if not seen:
        return Absent(reason="the board reported no event reasons around a window")
    return tuple(sorted({reason for reasons in seen for reason in reasons}))


def _foreign(edges: Sequence[Telemetry]) -> MaybeInt:
    if not edges:
        return Absent(reason="nothing was read around a window")
    unknown = [e.foreign_processes for e in edges if not present(e.foreign_processes)]
    if unknown:
        return unknown[0]
    return max(e.foreign_processes for e in edges if present(e.foreign_processes))


def _null_reasons(
    values: dict[str, float | str | None],
    clocks: Clocks,
    temperatures: Temperatures,
    windows: Sequence[Judged],
) -> dict[str, str]:
    read = bool(_edges(windows)[0])
    why = "not reported by this board" if read else "no window was measured on a board"
    fields = {
        **values,
        **{f"clocks_mhz.{name}": value for name, value in clocks.model_dump().items()},
        **{f"temperature_c.{name}": value for name, value in temperatures.model_dump().items()},
    }
    reasons = {name: why for name, value in fields.items() if value is None}
    if read and not _at_rest(windows):
        reasons["temperature_c.idle_before"] = "the board was not read at rest"
    return reasons
