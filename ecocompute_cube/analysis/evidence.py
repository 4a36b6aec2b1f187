"""A journal's facts, sorted by what they are about. Only windows of complete blocks count."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ecocompute_cube.analysis.cost import BoardCost, board_cost
from ecocompute_cube.analysis.rates import MemoryUse
from ecocompute_cube.analysis.reading import Seen, judged
from ecocompute_cube.analysis.together import together, warmed_at, window_at
from ecocompute_cube.errors import JournalBroken
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.cost import Calibrated, Profiled
from ecocompute_cube.model.journal import (
    ArmReady,
    BlockClosed,
    Fact,
    QualityScored,
    QualitySkipped,
    Refused,
    Resumed,
    RunOpened,
    SessionOpened,
    TraceLost,
    TraceStored,
    Warmed,
    WindowMeasured,
)
from ecocompute_cube.model.readings import PowerKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ecocompute_cube.analysis.gates import Judged
    from ecocompute_cube.analysis.traces import Trace
    from ecocompute_cube.model.plan import Arm

F = TypeVar("F")

Visit = tuple[str, int, int, int]  #: arm, session, group, block
Kept = tuple[str, int, int, int, int]  #: the same, and a board's place: what a trace is of


class Evidence(NamedTuple):
    """What happened, by subject."""

    run: RunOpened
    sessions: tuple[SessionOpened, ...]
    visits: int
    ready: dict[str, tuple[ArmReady, ...]]
    windows: dict[str, tuple[WindowMeasured, ...]]
    warmed: dict[Visit, Warmed]
    quality: dict[str, QualityScored | QualitySkipped]
    refused: dict[str, tuple[Refused, ...]]
    traces: dict[Kept, TraceStored | TraceLost]
    costs: dict[int, BoardCost | Absent]  #: of a byte and an operation, by session
    caches: dict[int, int]  #: bytes of the board's last cache, by session
    profiled: dict[str, Profiled]
    first_ids: dict[str, tuple[int, ...]]  #: of every arm that told, also in a block that is lost
    arms: tuple[Arm, ...]  #: every arm of the plan


def evidence(facts: tuple[Fact, ...]) -> Evidence:
    """Sort a journal's facts.

    Raises JournalBroken for a journal whose first fact is not the run, or that speaks of a session
    or a model it does not describe.
    """
    run = facts[0] if facts else None
    if not isinstance(run, RunOpened):
        raise JournalBroken(
            "The journal does not begin with its run.", "Restore the original file."
        )
    _check_described(run, facts)
    complete = {(f.session, f.group, f.block) for f in _of(facts, BlockClosed) if f.complete}
    windows = [f for f in _of(facts, WindowMeasured) if (f.session, f.group, f.block) in complete]
    scored = [f for f in facts if isinstance(f, QualityScored | QualitySkipped)]
    kept = [f for f in facts if isinstance(f, TraceStored | TraceLost)]
    return Evidence(
        run=run,
        sessions=tuple(_of(facts, SessionOpened)),
        visits=1 + len(_of(facts, Resumed)),
        ready=_by_arm(_of(facts, ArmReady), lambda fact: fact.arm),
        windows=_by_arm(windows, lambda fact: fact.arm),
        warmed={(f.arm, f.session, f.group, f.block): f for f in _of(facts, Warmed)},
        quality={f.arm: f for f in sorted(scored, key=_worth)},
        refused=_by_arm(_of(facts, Refused), lambda fact: fact.arm),
        traces={(f.arm, f.session, f.group, f.block, f.board): f for f in kept},
        costs={f.session: board_cost(f) for f in _of(facts, Calibrated)},
        caches={f.session: f.cache_bytes for f in _of(facts, Calibrated) if present(f.cache_bytes)},
        profiled={f.arm: f for f in sorted(_of(facts, Profiled), key=_saw)},
        first_ids={f.arm: f.first_ids for f in _of(facts, WindowMeasured) if f.first_ids},
        arms=run.plan.expanded(),
    )


def _check_described(run: RunOpened, facts: tuple[Fact, ...]) -> None:
    models = {model.reference for model in run.models}
    described = _of(facts, SessionOpened)
    sessions = {session.session for session in described}
    lost_models = {arm.model for arm in run.plan.expanded()} - models
    named_sessions = {s for fact in facts if (s := getattr(fact, "session", None)) is not None}
    if lost_models or named_sessions - sessions:
        raise JournalBroken(
            "The journal speaks of a session or a model that it does not describe.",
            "Restore the original file.",
        )
    _check_boards(described, facts)
    kinds = {(board.name, board.power_limit_w) for s in described for board in s.boards}
    if len(kinds) > 1:
        raise JournalBroken(
            "The journal pools boards of different kinds or power limits.",
            "Measure each board in a run of its own.",
        )


def _check_boards(sessions: list[SessionOpened], facts: tuple[Fact, ...]) -> None:
    """Every board of a session, and no other, must have been read at each visit."""
    others = {session.session: len(session.others) for session in sessions}
    told = [
        *((fact.session, len(fact.others)) for fact in _of(facts, WindowMeasured)),
        *((fact.session, len(fact.others_idle)) for fact in _of(facts, Warmed)),
    ]
    lone = [s for s in sessions if s.others and not present(s.board)]
    if lone or any(others[session] != count for session, count in told):
        raise JournalBroken(
            "The journal speaks of more or fewer boards than its session has.",
            "Restore the original file.",
        )


def _of(facts: Iterable[Fact], kind: type[F]) -> list[F]:
    return [fact for fact in facts if isinstance(fact, kind)]


def _worth(fact: QualityScored | QualitySkipped) -> bool:
    """Skips first, so that a score takes their place."""
    return isinstance(fact, QualityScored)


def _saw(fact: Profiled) -> bool:
    """Those that saw nothing first, so that another session's takes their place."""
    return present(fact.busy_s)


def _by_arm(facts: Iterable[F], arm: Callable[[F], str]) -> dict[str, tuple[F, ...]]:
    sorted_: dict[str, list[F]] = defaultdict(list)
    for fact in facts:
        sorted_[arm(fact)].append(fact)
    return {name: tuple(found) for name, found in sorted_.items()}


def visit_of(window: WindowMeasured) -> Visit:
    """The visit a window belongs to."""
    return window.arm, window.session, window.group, window.block


def judged_windows(
    known: Evidence, arm: Arm, traces: Callable[[Kept], Trace | Absent]
) -> tuple[Judged, ...]:
    """Each counted window of an arm with its energy and what stands beside it."""
    return tuple(
        together(
            [
                judged(window_at(window, board), _seen(known, arm, window, board, traces))
                for board in range(1 + len(window.others))
            ]
        )
        for window in known.windows.get(arm.id, ())
    )


def _seen(
    known: Evidence,
    arm: Arm,
    window: WindowMeasured,
    place: int,
    traces: Callable[[Kept], Trace | Absent],
) -> Seen:
    """What is known around a window on one of its session's boards."""
    session = next(s for s in known.sessions if s.session == window.session)
    board = session.boards[place] if session.boards else session.board
    stored = known.traces.get((*visit_of(window), place))
    return Seen(
        tick=session.ticks[place],
        limit_w=board.power_limit_w if present(board) else board,
        trace=traces((*visit_of(window), place)),
        source=stored.source if isinstance(stored, TraceStored) else PowerKind.NONE,
        clock=stored.clock if isinstance(stored, TraceStored) else Absent(reason="no trace"),
        warmed=warmed_at(known.warmed.get(visit_of(window)), place),
        workload=arm.workload,
        memory=_memory_use(known, arm, window.session),
    )


def _memory_use(known: Evidence, arm: Arm, session: int) -> MemoryUse | None:
    """What each step must fetch: all weights but what a cache may hold from the step before."""
    cost = known.costs.get(session)
    ready = [each for each in known.ready.get(arm.id, ()) if each.session == session]
    if cost is None or not present(cost) or not ready or not present(ready[0].step):
        return None
    weights = ready[0].step.weights
    if not present(weights) or session not in known.caches:
        return None
    return MemoryUse(max(0, weights.bytes - known.caches[session]), cost.bytes_per_s)
