"""The arms that a page shows: in groups of one model and workload, with a label each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ecocompute_cube.model.base import printable
from ecocompute_cube.report.table import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.report import ArmReport, Report


class Shown(NamedTuple):
    """One arm of one run."""

    report: Report
    arm: ArmReport
    group: str  #: model, and workload where they differ
    label: str  #: what no other arm of the group is called

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
        return f"measured, {blocks} in {sessions}"

    @property
    def tier(self) -> str:
        """``full``, or what lowers it."""
        return ", ".join(self.arm.lowered_by) or "full"


def shown_arms(reports: Sequence[Report]) -> tuple[Shown, ...]:
    """Every arm of every run, by group; labels name plan or run where two arms would share one."""
    everyone = [(report, arm) for report in reports for arm in report.arms]
    several = len({arm.workload.slug for _, arm in everyone}) > 1
    shown = [
        Shown(report, arm, _group(arm, several=several), _label(arm)) for report, arm in everyone
    ]
    for more in (_with_plan, _with_run):
        times = Counter((each.group, each.label) for each in shown)
        shown = [more(each) if times[each.group, each.label] > 1 else each for each in shown]
    first = {each.group: place for place, each in reversed(list(enumerate(shown)))}
    return tuple(sorted(shown, key=lambda each: first[each.group]))


def _group(arm: ArmReport, *, several: bool) -> str:
    return printable(f"{arm.model}, {arm.workload.slug}" if several else arm.model)


def _label(arm: ArmReport) -> str:
    again = f" #{arm.replica}" if arm.replica > 1 else ""
    return f"{arm.precision} {arm.runtime}{again}"


def _with_plan(each: Shown) -> Shown:
    return each._replace(label=f"{_label(each.arm)}, plan {printable(each.report.plan.name)}")


def _with_run(each: Shown) -> Shown:
    return each._replace(label=f"{_label(each.arm)}, run {printable(each.report.run_id)}")
