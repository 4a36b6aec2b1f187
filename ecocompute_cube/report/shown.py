"""The arms that a page shows: in groups of one model and workload, with a label each."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from ecocompute_cube.model.base import printable
from ecocompute_cube.model.plan import BASELINE
from ecocompute_cube.report.table import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.merged import Pooled
    from ecocompute_cube.model.report import ArmReport, Report


class Shown(NamedTuple):
    """One arm of one run."""

    report: Report
    arm: ArmReport
    group: str  #: model, and workload where they differ
    label: str  #: what no other arm of the group is called
    replicates: int  #: sessions, of this run or of runs that were taken together

    @property
    def name(self) -> str:
        """What no other arm of the page is called."""
        return f"{self.label}, {self.group}"

    @property
    def basis(self) -> str:
        """What the arm's numbers rest on."""
        if self.report.rehearsal:
            return "rehearsal"
        if not self.arm.blocks:
            return "not measured"
        blocks, sessions = counted(self.arm.blocks, "block"), counted(self.arm.sessions, "session")
        more = f"; together with other runs {counted(self.replicates, 'session')}"
        alone = self.replicates == self.arm.sessions
        return f"measured, {blocks} in {sessions}{'' if alone else more}"

    @property
    def tier(self) -> str:
        """``full``, or what lowers it."""
        return ", ".join(self.arm.lowered_by) or "full"


def shown_arms(reports: Sequence[Report], pooled: Sequence[Pooled] = ()) -> tuple[Shown, ...]:
    """Every arm of every run, by group; labels name plan or run where two arms would share one."""
    together = _together(pooled)
    everyone = [(report, arm) for report in reports for arm in report.arms]
    several = len({arm.workload.slug for _, arm in everyone}) > 1
    shown = [
        Shown(
            report,
            arm,
            _group(arm, several=several),
            _label(arm),
            max(arm.sessions, together.get(_kind(report, arm), 0) if arm.replica == 1 else 0),
        )
        for report, arm in everyone
    ]
    for more in (_with_plan, _with_run):
        times = Counter((each.group, each.label) for each in shown)
        shown = [more(each) if times[each.group, each.label] > 1 else each for each in shown]
    first = {each.group: place for place, each in reversed(list(enumerate(shown)))}
    return tuple(sorted(shown, key=lambda each: first[each.group]))


_Kind = tuple[str, str, str, str, str]  # run, model, precision, runtime, workload


def _together(pooled: Sequence[Pooled]) -> dict[_Kind, int]:
    """Sessions that an arm of a run was taken together with; its baseline was in each of them."""
    found: dict[_Kind, int] = {}
    for one in pooled:
        for run, precision in product(
            {member.run_id for member in one.members}, (one.arm.precision, BASELINE)
        ):
            kind = run, one.arm.model, precision, one.arm.runtime, one.arm.workload.slug
            found[kind] = max(found.get(kind, 0), len(one.members))
    return found


def _kind(report: Report, arm: ArmReport) -> _Kind:
    return report.run_id, arm.model, arm.precision, arm.runtime, arm.workload.slug


def _group(arm: ArmReport, *, several: bool) -> str:
    return printable(f"{arm.model}, {arm.workload.slug}" if several else arm.model)


def _label(arm: ArmReport) -> str:
    again = f" #{arm.replica}" if arm.replica > 1 else ""
    return f"{arm.precision} {arm.runtime}{again}"


def _with_plan(each: Shown) -> Shown:
    return each._replace(label=f"{_label(each.arm)}, plan {printable(each.report.plan.name)}")


def _with_run(each: Shown) -> Shown:
    return each._replace(label=f"{_label(each.arm)}, run {printable(each.report.run_id)}")
