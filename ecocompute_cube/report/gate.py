"""``ecocompute gate``: does a change cost energy? By ratios within runs, never by joules.

Two ways. The head's ratio of each arm to FP16 is held against that of at least three sessions of
the same board, driver and stack: their scatter is what a further session may differ by. Or base and
head are two models of one run, whose blocks pair them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from ecocompute_cube.analysis.pooling import MODEL_KEYS, apart, groups, nearest
from ecocompute_cube.analysis.replication import difference
from ecocompute_cube.errors import MeasurementInvalid, UsageError
from ecocompute_cube.model.base import Absent, present, printable
from ecocompute_cube.model.gate import ChangeInterval, Gate, Graded
from ecocompute_cube.report.merged import kind_of
from ecocompute_cube.report.merged_text import arm_words
from ecocompute_cube.report.table import counted, table
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ecocompute_cube.analysis.pooling import Group
    from ecocompute_cube.model.claims import Comparison
    from ecocompute_cube.model.gate import Grade
    from ecocompute_cube.model.report import Report

#: Fewer say too little of how sessions differ: with two, a t quantile of one degree is 12.7.
LEAST_SESSIONS: Final = 3
SAME_RUN: Final = "the same run"
_HEAD: Final = ("arm", "against", "change", "interval", "grade")
_NONE: Final = Absent(reason="not gradable")


def gate_sessions(
    head: Sequence[Report], base: Sequence[Report], names: tuple[str, str], tolerance_pct: float
) -> Gate:
    """Every arm of both, against its sessions. Raises UsageError where there is none."""
    ours, theirs = groups(head), groups(base)
    if not ours or not theirs:
        bare = names[0] if not ours else names[1]
        raise UsageError(
            f"'{bare}' has no arm with FP16 beside it.",
            "Measure FP16 and another precision in one run: a gate compares their ratios.",
        )
    kinds = {group.kind for group in ours}
    lost = {group.kind: group for group in theirs if group.kind not in kinds}
    graded = [_graded(group, theirs, tolerance_pct) for group in ours]
    graded += [_lost(group) for group in lost.values()]
    return _gate(names, tolerance_pct, graded)


def gate_models(head: Sequence[Report], name: str, tolerance_pct: float) -> Gate:
    """Every contrast between two models of one run. Raises UsageError where there is none."""
    graded = [
        _paired(each, tolerance_pct)
        for report in head
        for each in report.comparisons
        if _models(report).get(each.arm) != _models(report).get(each.against)
    ]
    if not graded:
        raise UsageError(
            f"'{name}' has no contrast between two models.",
            "Name sessions to compare with (--baseline), or measure base and head as two models of "
            "one plan, with a contrast.",
        )
    return _gate((name, SAME_RUN), tolerance_pct, graded)


def _gate(names: tuple[str, str], tolerance_pct: float, graded: Sequence[Graded]) -> Gate:
    grades = {each.grade for each in graded}
    status: Literal[0, 1, 5] = 5 if "not gradable" in grades else 0
    return Gate(
        format="ecocompute-gate/1",
        head=names[0],
        base=names[1],
        tolerance_pct=tolerance_pct,
        exit_status=1 if "regressed" in grades else status,
        graded=tuple(graded),
    )


# Against other sessions


def _graded(group: Group, base: Sequence[Group], tolerance_pct: float) -> Graded:
    alike = [other for other in base if other.kind == group.kind]
    if not alike:
        return _not_gradable(group, 0, "the baseline has no such arm")
    other = nearest(group, alike)
    if keys := [each for each in apart(group, other) if each.key not in MODEL_KEYS]:
        told = "; ".join(f"{each.key} {each.here or '–'} | {each.there or '–'}" for each in keys)
        return _not_gradable(group, 0, f"the baseline was measured differently: {told}")
    boards = {session.board for session in group.sessions}
    sessions = tuple(
        session
        for session in other.sessions
        if {session.board} == boards and session.run_id not in group.runs
    )
    if len(sessions) < LEAST_SESSIONS:
        return _not_gradable(
            group,
            len(sessions),
            f"{counted(len(sessions), 'other session')} of this very board, and {LEAST_SESSIONS} "
            "are the least that say how sessions differ",
        )
    blocks = [min(len(each.logs) for each in side) for side in (group.sessions, sessions)]
    if blocks[0] < blocks[1]:
        return _not_gradable(
            group,
            len(sessions),
            f"the head has {counted(blocks[0], 'block')} a session, the baseline {blocks[1]}: it "
            "scatters more than they say",
        )
    confidence = max(group.confidence, other.confidence)
    found = difference(group, other._replace(sessions=sessions), confidence)
    seen = found.interval_pct
    interval: ChangeInterval | Absent = (
        ChangeInterval(low=seen.low, high=seen.high, confidence=confidence, unit=seen.unit)
        if present(seen)
        else seen
    )
    grade = _grade(interval, tolerance_pct)
    return Graded(
        arm=arm_words(kind_of(group)),
        against=counted(len(sessions), "session"),
        change_pct=found.difference_pct,
        interval_pct=interval,
        head_sessions=len(group.sessions),
        base_sessions=len(sessions),
        grade=grade,
        says=_says(interval, grade, tolerance_pct),
    )


def _not_gradable(group: Group, sessions: int, why: str) -> Graded:
    return Graded(
        arm=arm_words(kind_of(group)),
        against=counted(sessions, "session"),
        change_pct=_NONE,
        interval_pct=_NONE,
        head_sessions=len(group.sessions),
        base_sessions=sessions,
        grade="not gradable",
        says=why,
    )


def _lost(group: Group) -> Graded:
    """An arm that only the base has: not measuring it is no way to pass."""
    missing = _not_gradable(group, len(group.sessions), "the head has no such arm")
    return missing.model_copy(update={"head_sessions": 0})


# Within one run


def _models(report: Report) -> dict[str, str]:
    return {each.arm: each.model for each in report.arms}


def _paired(each: Comparison, tolerance_pct: float) -> Graded:
    told = each.interval_pct
    interval: ChangeInterval | Absent = (
        ChangeInterval(low=told.low, high=told.high, confidence=told.confidence, unit=told.unit)
        if present(told)
        else Absent(reason=each.reason)
    )
    grade = _grade(interval, tolerance_pct)
    return Graded(
        arm=each.arm,
        against=each.against,
        change_pct=each.change_pct,
        interval_pct=interval,
        head_sessions=each.sessions,
        base_sessions=each.sessions,
        grade=grade,
        says=_says(interval, grade, tolerance_pct),
    )


# Grades


def _grade(interval: ChangeInterval | Absent, tolerance_pct: float) -> Grade:
    if not present(interval):
        return "not gradable"
    if interval.low > tolerance_pct:
        return "regressed"
    if interval.high < -tolerance_pct:
        return "improved"
    within = -tolerance_pct <= interval.low and interval.high <= tolerance_pct
    return "unchanged" if within else "undecided"


def _says(interval: ChangeInterval | Absent, grade: Grade, tolerance_pct: float) -> str:
    if not present(interval):
        return interval.reason
    where = {
        "unchanged": "the whole interval lies within",
        "undecided": "the interval reaches across an end of",
    }.get(grade, "the whole interval lies beyond")
    return f"{where} ±{tolerance_pct:g} %"


def as_text(found: Gate) -> str:
    """A table, the reasons, and the answer in a line."""
    lines = [*table([_HEAD, *map(_row, found.graded)]), ""]
    lines += [f"{each.arm}: {each.says}." for each in found.graded]
    lines += ["", _answer(found)]
    return "".join(f"{printable(line)}\n" for line in lines)


def as_markdown(found: Gate) -> str:
    """The same for a pull request: no cell can be anything but text."""
    rows = [_HEAD, ("---",) * len(_HEAD), *map(_row, found.graded)]
    lines = [f"**{_answer(found)}**", "", *map(_markdown_row, rows), ""]
    lines += [f"* {_escaped(each.arm)}: {_escaped(each.says)}." for each in found.graded]
    return "".join(f"{line}\n" for line in lines)


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{c}" if c in "\\`*_[]<>|#!@~" else c for c in printable(text))
    return escaped.replace("&", "&amp;")


def _row(each: Graded) -> tuple[str, ...]:
    change, interval = each.change_pct, each.interval_pct
    return (
        each.arm,
        each.against,
        f"{signed(change)} %" if present(change) else "–",
        f"{signed(interval.low)} to {signed(interval.high)} %" if present(interval) else "–",
        each.grade,
    )


def _answer(found: Gate) -> str:
    arms = counted(len(found.graded), "arm")
    count = {grade: sum(each.grade == grade for each in found.graded) for grade in _ORDER}
    told = ", ".join(f"{number} {grade}" for grade, number in count.items() if number)
    answer = {
        0: "Nothing is shown to take more energy",
        1: "A change for the worse",
        MeasurementInvalid.exit_status: "Not gradable",
    }[found.exit_status]
    return f"{answer}: of {arms}, {told}."


_ORDER: Final[tuple[Grade, ...]] = (
    "regressed",
    "not gradable",
    "undecided",
    "unchanged",
    "improved",
)
