"""``ecocompute compare``: does another report, or what was published, find the same?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import ValidationError

from ecocompute_cube.analysis.pooling import Group, groups, nearest, published_groups
from ecocompute_cube.analysis.replication import (
    NO_SCATTER,
    Scatter,
    agreeing,
    difference,
    session_scatter,
    side,
)
from ecocompute_cube.errors import DocumentInvalid, UsageError
from ecocompute_cube.model.base import present, printable
from ecocompute_cube.model.files import called
from ecocompute_cube.model.published import published
from ecocompute_cube.model.replication import Compared, Replication
from ecocompute_cube.model.report import ReportFile
from ecocompute_cube.report.merged import differing, kind_of
from ecocompute_cube.report.merged_text import arm_words, differing_words
from ecocompute_cube.report.table import counted, table
from ecocompute_cube.report.write import read_results
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ecocompute_cube.model.base import Absent
    from ecocompute_cube.model.replication import Agreeing, DifferenceInterval, Side
    from ecocompute_cube.model.report import Report

PUBLISHED: Final = "published"
_REPORT_NAME: Final = "report.json"
_GIVE: Final = f"Give a {_REPORT_NAME}, or a folder with one or with runs."
_HEAD: Final = ("arm", "here", "there", "difference", "interval", "finding")


class Findings(NamedTuple):
    """One side of a comparison: its name and its arms."""

    name: str
    groups: tuple[Group, ...]


def read_findings(path: Path, say: Callable[[str], None]) -> Findings:
    """The arms of what :func:`read_reports` reads."""
    return Findings(called(path), groups(read_reports(path, say)))


def read_reports(path: Path, say: Callable[[str], None]) -> tuple[Report, ...]:
    """Of a report.json, of a folder with one, or of every journal below a folder.

    Raises UsageError for a path that holds neither, DocumentInvalid for a broken report.
    """
    name = called(path)
    if path.is_dir() and not (path / _REPORT_NAME).is_file():
        try:
            written = read_results(path)
        except UsageError as error:
            raise UsageError(error.cause, _GIVE) from None
        for trouble in written.unreadable:
            say(f"not read: {trouble}")
        return tuple(written.reports)
    file = path / _REPORT_NAME if path.is_dir() else path
    try:
        document = ReportFile.model_validate_json(file.read_bytes())
    except OSError as error:
        raise UsageError(
            f"'{name}' cannot be read ({error.strerror}).",
            _GIVE,
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DocumentInvalid(
            f"'{name}' is no {_REPORT_NAME}: {place or 'the document'}: {first['msg']}.",
            "Make the report again from its journals: ecocompute report.",
        ) from None
    return document.runs


# Comparing


def compare_reports(here: Findings, there: Findings) -> Replication:
    """Every arm that both have; of several stacks there, against the one that differs least.

    Raises UsageError where no arm is in both.
    """
    return _replication(here, there.name, there.groups, lambda _: NO_SCATTER)


def compare_published(here: Findings) -> Replication:
    """Every arm that was published of the same board, by the scatter of published sessions.

    Raises UsageError where none was.
    """
    found = published_groups(published())
    boards = {_board(group) for group in here.groups}
    anchors = tuple(group for group in found if _board(group) in boards)
    if not anchors:
        known = ", ".join(sorted({_board(group) for group in found}))
        raise UsageError(
            f"Nothing was published of {' or '.join(sorted(boards)) or 'what was measured'}.",
            f"Published boards: {known}.",
        )
    return _replication(
        here, PUBLISHED, anchors, lambda group: session_scatter(found, group.kind.precision)
    )


def _replication(
    here: Findings,
    there: str,
    others: Sequence[Group],
    scatter: Callable[[Group], Scatter],
) -> Replication:
    compared: list[Compared] = []
    alone: list[Group] = []
    for group in here.groups:
        alike = [other for other in others if _same_arm(group, other, there == PUBLISHED)]
        if alike:
            compared.append(_compared(group, nearest(group, alike), scatter(group)))
        else:
            alone.append(group)
    if not compared:
        raise UsageError(
            f"'{here.name}' and '{there}' have no arm in common.",
            "Both need the same model, precision, runtime and workload, with FP16 beside it.",
        )
    judged = [each.finding for each in compared if each.finding != "undecided"]
    return Replication(
        format="ecocompute-comparison/1",
        here=here.name,
        there=there,
        exit_status=0 if judged and "different" not in judged else 1,
        compared=tuple(compared),
        alone=tuple(kind_of(group) for group in alone),
    )


def _same_arm(here: Group, there: Group, same_board: bool) -> bool:
    if same_board and _board(here) != _board(there):
        return False
    if here.kind[1:] != there.kind[1:]:
        return False
    digests = [group.keys.get("model_sha256") for group in (here, there)]
    named_alike = _name(here.kind.model) == _name(there.kind.model)
    return named_alike or (digests[0] is not None and digests[0] == digests[1])


def _name(model: str) -> str:
    """Without its owner on the hub."""
    return model.rpartition("/")[2].casefold()


def _board(group: Group) -> str:
    return group.keys.get("board", "unknown board")


def _compared(here: Group, there: Group, scatter: Scatter) -> Compared:
    confidence = max(here.confidence, there.confidence)
    threshold = max(here.thresholds | there.thresholds)
    found = difference(here, there, confidence, scatter)
    agreed = agreeing(found.interval_pct, threshold)
    ours, theirs = side(here), side(there)
    shared = [run for run in ours.runs if run in theirs.runs]
    return Compared(
        arm=kind_of(here),
        here=ours,
        there=theirs,
        points=ours.change_pct - theirs.change_pct,
        difference_pct=found.difference_pct,
        interval_pct=found.interval_pct,
        threshold_pct=threshold,
        finding=agreed,
        says=_says(found.interval_pct, agreed, threshold) + _itself(shared),
        differs=differing(here, there),
    )


# Words

_WHERE: Final[dict[Agreeing, str]] = {
    "same": "the whole interval lies within",
    "consistent": "the interval reaches into",
    "different": "the whole interval lies beyond",
}


def _says(interval: DifferenceInterval | Absent, agreed: Agreeing, threshold: float) -> str:
    if not present(interval):
        return interval.reason
    said = f"{_WHERE[agreed]} ±{threshold:g} %"
    if interval.unit == "sessions":
        return said
    return f"{said}, by blocks of one session each: sessions can differ by more"


def _itself(shared: Sequence[str]) -> str:
    """What whoever compares a measurement with itself must know."""
    runs = ", ".join(map(printable, shared))
    return f"; {runs} is on both sides, and agrees with itself" if shared else ""


def as_text(found: Replication) -> str:
    """A table, what keeps the stacks apart, and the answer in a line."""
    lines = [*table([_HEAD, *map(_row, found.compared)]), ""]
    for each in found.compared:
        lines.append(f"{arm_words(each.arm)}: {each.says}.")
        if each.differs:
            lines.append(f"  differs: {differing_words(each.differs)}")
    lines += [f"only in {found.here}: {arm_words(arm)}" for arm in found.alone]
    lines += ["", _answer(found)]
    return "".join(f"{printable(line)}\n" for line in lines)


def _row(each: Compared) -> tuple[str, ...]:
    interval = each.interval_pct
    return (
        arm_words(each.arm),
        _side(each.here),
        _side(each.there),
        f"{signed(each.difference_pct)} %",
        f"{signed(interval.low)} to {signed(interval.high)} %" if present(interval) else "–",
        each.finding,
    )


def _side(one: Side) -> str:
    blocks = counted(one.blocks, "block")
    return f"{signed(one.change_pct)} % ({counted(one.sessions, 'session')}, {blocks})"


def _answer(found: Replication) -> str:
    names = f"{found.here} and {found.there}"
    different = sum(each.finding == "different" for each in found.compared)
    arms = counted(len(found.compared), "arm")
    if different:
        return f"Not consistent: {names} differ in {different} of {arms}."
    if found.exit_status:
        return f"Undecided: nothing tells how far {names} scatter."
    agree = f"Consistent: {names} agree in {arms}, as far as their intervals tell"
    same = sum(not {*each.here.runs}.isdisjoint(each.there.runs) for each in found.compared)
    if not same:
        return f"{agree}."
    are = f"{counted(same, 'arm')} {'is' if same == 1 else 'are'}"
    return f"{agree}; {are} of the same run on both sides, which is no second measurement."
