"""What several runs say together: arms pooled where their keys agree, and curves over size."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.crossover import Measured, crossover
from ecocompute_cube.analysis.pooling import (
    MODEL_KEYS,
    Group,
    Session,
    apart,
    groups,
    nearest,
    published_groups,
)
from ecocompute_cube.analysis.ratios import as_percent, replicates, t_interval, verdict
from ecocompute_cube.model.base import Absent, canonical_json, present
from ecocompute_cube.model.claims import Verdict
from ecocompute_cube.model.merged import (
    ArmKind,
    Differing,
    KeptApart,
    Member,
    Pooled,
    SizeCurve,
)
from ecocompute_cube.model.published import published
from ecocompute_cube.units import percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ecocompute_cube.model.base import MaybeFloat
    from ecocompute_cube.model.claims import Interval
    from ecocompute_cube.model.report import Report

_LOOKED_AT: Final = 8  # groups; all of them would take the square of the time
_UNTOLD: Final = Absent(reason="not told")
_NO_ENERGY: Final = Absent(reason="not every session tells its own energy")


class Merged(NamedTuple):
    """The three lists of report.json that are of no single run."""

    pooled: tuple[Pooled, ...]
    kept_apart: tuple[KeptApart, ...]
    crossovers: tuple[SizeCurve, ...]


def merged(reports: Iterable[Report]) -> Merged:
    """What these runs say together."""
    found = groups(reports)
    return Merged(
        tuple(pooled(group) for group in found if len(group.runs) > 1),
        tuple(_kept_apart(found)),
        tuple(_curves(found)),
    )


def published_curves() -> tuple[SizeCurve, ...]:
    """Curves through the packaged published sessions: a background, never pooled with a run."""
    return tuple(_curves(published_groups(published())))


# Together


def pooled(group: Group) -> Pooled:
    """One figure for all sessions of a group, each session counting once."""
    values, unit = replicates(group.by_block)
    interval = as_percent(t_interval(values, group.confidence, unit))
    thresholds = sorted(group.thresholds)
    one = len(thresholds) == 1
    energy, energy_interval = _energy(group)
    return Pooled(
        arm=kind_of(group),
        keys=dict(group.keys),
        members=tuple(_member(each) for each in group.sessions),
        boards=len({each.board for each in group.sessions if each.board}),
        change_pct=percent(math.exp(fmean(values))),
        interval_pct=interval,
        unit=unit,
        n=len(values),
        mj_per_token=energy,
        interval_mj=energy_interval,
        threshold_pct=thresholds[0] if one else Absent(reason="the runs stored different ones"),
        verdict=verdict(interval, thresholds[0]) if one else Verdict.INCONCLUSIVE,
        lowered_by=tuple(sorted(group.lowered_by)),
    )


def _energy(group: Group) -> tuple[MaybeFloat, Interval | Absent]:
    """Geometric mean of the sessions' energies per token, in millijoules, and its interval."""
    told = [session.mj for session in group.sessions]
    logs = [math.log(mj) for mj in told if mj is not None]
    if len(logs) < len(told):
        return _NO_ENERGY, _NO_ENERGY
    found = t_interval(logs, group.confidence, "sessions")
    if present(found):
        found = found.model_copy(update={"low": math.exp(found.low), "high": math.exp(found.high)})
    return math.exp(fmean(logs)), found


def kind_of(group: Group) -> ArmKind:
    """What the group measured, as documents say it."""
    return ArmKind(
        model=group.kind.model,
        params_b=group.params_b,
        precision=group.kind.precision,
        runtime=group.kind.runtime,
        workload=group.workload,
    )


def _member(session: Session) -> Member:
    return Member(
        run_id=session.run_id,
        session=session.session,
        board_sha256=session.board or _UNTOLD,
        change_pct=percent(math.exp(fmean(session.logs))),
        blocks=len(session.logs),
    )


# Apart


def _kept_apart(found: Sequence[Group]) -> Iterable[KeptApart]:
    """Each group beside the one before it that differs least, where an arm has several.

    Groups come by their keys, so that near ones are neighbours: only a few are looked at.
    """
    for _, alike in groupby(found, key=lambda group: group.kind):
        first, *rest = alike
        before = [first]
        for group in rest:
            other = nearest(group, before[-_LOOKED_AT:])
            before.append(group)
            yield KeptApart(
                arm=kind_of(group),
                runs=group.runs,
                others=other.runs,
                differs=differing(group, other),
            )


def differing(here: Group, there: Group) -> tuple[Differing, ...]:
    """Every key that keeps two groups apart."""
    return tuple(
        Differing(key=each.key, here=each.here or _UNTOLD, there=each.there or _UNTOLD)
        for each in apart(here, there)
    )


# Over size


def _curves(found: Iterable[Group]) -> Iterable[SizeCurve]:
    """One a precision, runtime, workload, board and stack."""
    alike: dict[tuple[str, ...], list[Group]] = defaultdict(list)
    for group in found:
        keys = canonical_json(_shared_keys(group))
        alike[group.kind.precision, group.kind.runtime, group.kind.workload, keys].append(group)
    for key in sorted(alike):
        yield _curve(alike[key])


def _curve(parts: Sequence[Group]) -> SizeCurve:
    sessions = sorted({session[:2] for part in parts for session in part.sessions})
    numbers = {session: number for number, session in enumerate(sessions)}
    measured = [
        Measured(
            part.params_b,
            part.kind.model,
            {
                (numbers[session[:2]], block): log
                for session in part.sessions
                for block, log in enumerate(session.logs)
            },
        )
        for part in parts
    ]
    return SizeCurve(
        precision=parts[0].kind.precision,
        runtime=parts[0].kind.runtime,
        workload=parts[0].workload,
        keys=_shared_keys(parts[0]),
        runs=tuple(sorted({run for part in parts for run in part.runs})),
        weights=tuple(sorted({part.keys["weights"] for part in parts})),
        crossover=crossover(measured, max(part.confidence for part in parts)),
    )


def _shared_keys(group: Group) -> dict[str, str]:
    return {key: told for key, told in group.keys.items() if key not in MODEL_KEYS}
