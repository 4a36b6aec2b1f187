"""Which measurements may be taken together, and what keeps the others apart.

The published rule (Protocol v1.1, section 6) asks for the same stack, window, thermal mode, locks
and workload. Ours asks for more: what batch-1 decoding has been seen to depend on (the host's
processor), what the energy is read from, and the very weights. Boards of one kind are taken
together, and counted; two kinds never are. Only ratios to FP16 of the same session are pooled.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import canonical_json, present
from ecocompute_cube.model.plan import BASELINE, Mode, Precision, Runtime, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ecocompute_cube.model.plan import Protocol
    from ecocompute_cube.model.published import Published
    from ecocompute_cube.model.report import ArmReport, Report, SessionReport

#: Keys that say which weights were measured, not where and how.
MODEL_KEYS: Final = frozenset({"model_sha256", "weights"})

_ALWAYS: Final = ("torch", "transformers", "accelerate")
_TORCHAO: Final = frozenset(
    {Precision.FP8_WO, Precision.FP8_DYN, Precision.INT8_WO, Precision.INT4_WO}
)
_PLAIN: Final = frozenset({Precision.FP16, Precision.BF16})
_COMPILED: Final = frozenset({Runtime.STATIC, Runtime.COMPILED})

#: Rows of the published table that say something else than their columns.
_UNLIKE: Final = frozenset({"trial_run", "lengths_differ", "decode_by_difference"})


class Kind(NamedTuple):
    """What is measured; nothing else is ever compared."""

    model: str
    precision: str
    runtime: str
    workload: str


class Session(NamedTuple):
    """Log ratios to FP16 of each block of one session, and its energy."""

    run_id: str
    session: int
    board: str | None  #: SHA-256 of its UUID
    logs: tuple[float, ...]
    mj: float | None = None  #: per token, geometric mean over its blocks; early reports lack it


class Group(NamedTuple):
    """Sessions of one arm whose keys agree."""

    kind: Kind
    params_b: float
    workload: Workload
    keys: Mapping[str, str]
    sessions: tuple[Session, ...]
    thresholds: frozenset[float]
    confidence: float
    lowered_by: frozenset[str]

    @property
    def runs(self) -> tuple[str, ...]:
        """Their ids, each once."""
        return tuple(dict.fromkeys(each.run_id for each in self.sessions))

    @property
    def by_block(self) -> dict[tuple[int, int], float]:
        """Log ratios with sessions numbered anew, over all runs."""
        return {
            (number, block): log
            for number, session in enumerate(self.sessions)
            for block, log in enumerate(session.logs)
        }


def groups(reports: Iterable[Report]) -> tuple[Group, ...]:
    """Every arm that has a ratio to FP16, by kind and keys; in an order of their own."""
    parts = (
        part
        for report in reports
        for arm in report.arms
        if arm.replica == 1 and not arm.is_baseline
        for part in _parts(report, arm)
    )
    return _together(parts)


def _together(parts: Iterable[Group]) -> tuple[Group, ...]:
    alike: dict[tuple[Kind, str], list[Group]] = defaultdict(list)
    for part in parts:
        alike[part.kind, canonical_json(part.keys)].append(part)
    return tuple(_merged(alike[key]) for key in sorted(alike))


def _merged(parts: Sequence[Group]) -> Group:
    alike: dict[tuple[str, int, str], list[Session]] = defaultdict(list)
    for session in (each for part in parts for each in part.sessions):
        alike[session.run_id, session.session, session.board or ""].append(session)
    return parts[0]._replace(
        sessions=tuple(_joined(alike[key]) for key in sorted(alike)),
        thresholds=frozenset().union(*(part.thresholds for part in parts)),
        confidence=max(part.confidence for part in parts),
        lowered_by=frozenset().union(*(part.lowered_by for part in parts)),
    )


def _joined(same: Sequence[Session]) -> Session:
    """What arms of one kind say of one session."""
    told = {each.mj for each in same}
    return same[0]._replace(
        logs=tuple(log for each in same for log in each.logs),
        mj=told.pop() if len(told) == 1 else None,  # different ones: of none can it be said
    )


# From a report


def _parts(report: Report, arm: ArmReport) -> Iterable[Group]:
    """One group a session of the arm, where it was compared with FP16."""
    partners = {each.arm: each.precision for each in report.arms}
    versus = arm.vs_baseline
    if not present(versus) or partners.get(versus.against) is not BASELINE:
        return
    opened = {session.session: session for session in report.sessions}
    energies = _energies(arm)
    for number, changes in _changes(arm):
        session = opened.get(number)
        if session is None or not changes:
            continue
        board = session.board.uuid_sha256 if present(session.board) else None
        logs = tuple(math.log1p(change / 100) for change in changes)
        yield Group(
            kind=Kind(arm.model, arm.precision, arm.runtime, arm.workload.slug),
            params_b=arm.params_b,
            workload=arm.workload,
            keys=_keys(report, arm, session),
            sessions=(Session(report.run_id, number, board, logs, energies.get(number)),),
            thresholds=frozenset({versus.threshold_pct}),
            confidence=report.plan.protocol.confidence,
            lowered_by=frozenset(arm.lowered_by),
        )


def _energies(arm: ArmReport) -> dict[int, float]:
    """Each session's millijoules per token."""
    if not present(arm.by_session):
        return {}
    return {each.session: each.mj_per_token for each in arm.by_session}


def _changes(arm: ArmReport) -> list[tuple[int, tuple[float, ...]]]:
    """Each session's changes in percent; of an early report, all blocks as those of its first."""
    if present(arm.by_session):
        return [(each.session, each.pairs_pct) for each in arm.by_session]
    versus = arm.vs_baseline
    if not present(versus):
        return []
    if versus.unit == "sessions":
        return [(number, (change,)) for number, change in enumerate(versus.pairs_pct)]
    return [(0, versus.pairs_pct)]


def _keys(report: Report, arm: ArmReport, session: SessionReport) -> dict[str, str]:
    board, cpu = session.board, session.host.cpu
    known: dict[str, str] = {
        "window": _window(report.plan.protocol),
        "thermal": _thermal(report.plan.protocol),
        "boards": str(report.plan.boards),
        "resident": "yes" if session.resident else "no",
        "weights": arm.weights,
        "python": session.python,
        **{name: session.packages.get(name, "not installed") for name in _stack(arm)},
    }
    if present(board):
        known |= {"board": board.name, "memory_mib": str(board.memory_mib), "driver": board.driver}
        if present(board.power_limit_w):
            known["power_limit_w"] = f"{board.power_limit_w:g}"
    if present(arm.energy):
        known["energy_source"] = arm.energy.source
    if present(cpu):
        known["cpu"] = cpu
    if present(arm.model_sha256):
        known["model_sha256"] = arm.model_sha256
    return known


def _window(protocol: Protocol) -> str:
    if protocol.mode is not Mode.PRECISE:
        return protocol.mode
    length = (
        f"{protocol.window_s:g} s"
        if protocol.iterations is None
        else f"iterations {protocol.iterations}"
    )
    return f"{protocol.mode}, {length}"


def _thermal(protocol: Protocol) -> str:
    """After a warm-up always; and what the board is given to cool before that."""
    rule = protocol.cooldown
    until = "" if rule is None else f", {canonical_json(rule.model_dump(mode='json'))}"
    return f"steady, cooldown {protocol.cooldown_s:g} s{until}"


def _stack(arm: ArmReport) -> tuple[str, ...]:
    """The packages whose kernels the arm runs, or whose Python launches them."""
    torchao = arm.precision in _TORCHAO
    own = ("torchao",) if torchao else () if arm.precision in _PLAIN else ("bitsandbytes",)
    compiled = ("triton",) if torchao or arm.runtime in _COMPILED else ()
    return (*_ALWAYS, *own, *compiled)


# From the published table


def published_groups(rows: Iterable[Published], confidence: float = 0.95) -> tuple[Group, ...]:
    """Published sessions as groups; of rows that measured another thing than they seem to, none."""
    return _together(
        Group(
            kind=Kind(row.model, row.precision, row.runtime, workload.slug),
            params_b=row.params_b,
            workload=workload,
            keys=_published_keys(row),
            sessions=(Session(row.session, 0, None, (row.log_ratio,)),),
            thresholds=frozenset(),
            confidence=confidence,
            lowered_by=frozenset(row.remarks),
        )
        for row in rows
        if not _UNLIKE & {*row.remarks}
        if (workload := _published_workload(row)) is not None
    )


def _published_workload(row: Published) -> Workload | None:
    if not present(row.prompt_tokens) or not present(row.output_tokens):
        return None
    return Workload(
        prompt_tokens=row.prompt_tokens, output_tokens=row.output_tokens, batch=row.batch_size
    )


def _published_keys(row: Published) -> dict[str, str]:
    stack = ("driver", "torch", "transformers", "bitsandbytes", "accelerate", "torchao")
    told = {name: getattr(row, name) for name in stack}
    known = {name: value for name, value in told.items() if present(value)}
    idle = {"energy": "idle power subtracted"} if "idle_subtracted" in row.remarks else {}
    return {"board": row.gpu, "boards": "1", "weights": "original", **known, **idle}


# What keeps groups apart


class Apart(NamedTuple):
    """One key, and what each side says of it; None where it does not say."""

    key: str
    here: str | None
    there: str | None


def apart(here: Group, there: Group) -> tuple[Apart, ...]:
    """Every key that the two do not share, those that both tell first."""
    keys = sorted(here.keys.keys() | there.keys.keys())
    found = [Apart(key, here.keys.get(key), there.keys.get(key)) for key in keys]
    differing = [each for each in found if each.here != each.there]
    return tuple(sorted(differing, key=_untold))


def nearest(group: Group, others: Sequence[Group]) -> Group:
    """The other that fewest keys keep apart; of alike ones that which tells more, then the latest.

    Raises ValueError where there is none.
    """

    def nearness(other: Group) -> tuple[int, int, str]:
        found = apart(group, other)
        return -len(found), -sum(map(_untold, found)), other.runs[-1]

    return max(others, key=nearness)


def _untold(each: Apart) -> bool:
    return each.here is None or each.there is None
