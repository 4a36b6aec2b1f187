"""A run folder read back: its journal, its windows with their energies, what the gates say."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ecocompute_cube.analysis.evidence import Evidence, Visit, evidence, judged_windows
from ecocompute_cube.analysis.gates import Judged, judge, valid
from ecocompute_cube.analysis.traces import Trace, read_trace
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.claims import Finding
from ecocompute_cube.model.journal import TraceStored
from ecocompute_cube.model.journal_file import JOURNAL_NAME, Journal, read_journal
from ecocompute_cube.model.plan import Arm

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ecocompute_cube.model.manifest import Manifest


class RunEvidence(NamedTuple):
    """Everything a report of one run is made from."""

    journal: Journal
    known: Evidence
    windows: dict[str, tuple[Judged, ...]]
    findings: dict[str, tuple[Finding, ...]]  #: by arm, the windows' own
    traces: dict[Visit, Trace | Absent]

    def manifest(self, arm: Arm) -> Manifest:
        """The model an arm runs."""
        return next(m for m in self.known.run.models if m.reference == arm.model)

    def counted(self, arm: str) -> tuple[Judged, ...]:
        """The arm's windows that no finding forbids."""
        return tuple(window for window in self.windows[arm] if valid(judge(window)))


def read_run(folder: Path) -> RunEvidence:
    """Read a run folder. Raises JournalBroken as ``read_journal`` does."""
    journal = read_journal(folder / JOURNAL_NAME)
    known = evidence(journal.records)

    @cache
    def trace(visit: Visit) -> Trace | Absent:
        stored = known.traces.get(visit)
        if isinstance(stored, TraceStored):
            return read_trace(folder, stored)
        return Absent(reason=stored.reason if stored else "no trace was kept")

    windows = {arm.id: judged_windows(known, arm, trace) for arm in known.arms()}
    # A rehearsal has one finding of its own; gates on windows without a board would add noise.
    findings = {
        arm: _window_findings(found) if not known.run.rehearsal else ()
        for arm, found in windows.items()
    }
    return RunEvidence(journal, known, windows, findings, {v: trace(v) for v in known.traces})


def _window_findings(windows: tuple[Judged, ...]) -> tuple[Finding, ...]:
    """Each code once, with how many of the arm's windows it is about."""
    found = [finding for window in windows for finding in judge(window)]
    times = Counter(finding.code for finding in found)
    return tuple(
        finding.model_copy(
            update={"cause": f"{finding.cause} ({times[finding.code]} of {len(windows)} windows)"}
        )
        if len(windows) > 1
        else finding
        for finding in distinct(found)
    )


def distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The first finding of each code and subject."""
    first: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        first.setdefault((finding.code, finding.subject), finding)
    return tuple(first.values())
