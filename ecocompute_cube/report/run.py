"""A run folder read back: its journal, its windows with their energies, what the gates say."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ecocompute_cube.analysis.evidence import Evidence, Kept, evidence, judged_windows
from ecocompute_cube.analysis.gates import Judged, judge, valid
from ecocompute_cube.analysis.traces import Trace, read_trace
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.claims import Finding
from ecocompute_cube.model.journal import TraceStored
from ecocompute_cube.model.journal_file import JOURNAL_NAME, Journal, read_journal
from ecocompute_cube.model.plan import Arm
from ecocompute_cube.units import Joule, mj_per_token

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ecocompute_cube.model.manifest import Manifest


class RunEvidence(NamedTuple):
    """Everything a report of one run is made from."""

    journal: Journal
    known: Evidence
    windows: dict[str, tuple[Judged, ...]]
    counting: dict[str, tuple[Judged, ...]]  #: the windows that no finding forbids
    findings: dict[str, tuple[Finding, ...]]  #: by arm, the windows' own
    traces: dict[Kept, Trace | Absent]

    def manifest(self, arm: Arm) -> Manifest:
        """The model an arm runs."""
        return next(m for m in self.known.run.models if m.reference == arm.model)

    def counted(self, arm: str) -> tuple[Judged, ...]:
        """The arm's windows that no finding forbids."""
        return self.counting[arm]


def read_run(folder: Path) -> RunEvidence:
    """Read a run folder. Raises JournalBroken as ``read_journal`` does."""
    journal = read_journal(folder / JOURNAL_NAME)
    known = evidence(journal.records)

    @cache
    def trace(kept: Kept) -> Trace | Absent:
        stored = known.traces.get(kept)
        if isinstance(stored, TraceStored):
            return read_trace(folder, stored)
        return Absent(reason=stored.reason if stored else "no trace was kept")

    windows = {arm.id: judged_windows(known, arm, trace) for arm in known.arms}
    verdicts = {arm: tuple((w, judge(w)) for w in found) for arm, found in windows.items()}
    return RunEvidence(
        journal=journal,
        known=known,
        windows=windows,
        counting={
            arm: tuple(w for w, said in pairs if valid(said)) for arm, pairs in verdicts.items()
        },
        # A rehearsal has one finding of its own; gates on windows without a board would add noise.
        findings={
            arm: () if known.run.rehearsal else _window_findings([said for _, said in pairs])
            for arm, pairs in verdicts.items()
        },
        traces={kept: trace(kept) for kept in known.traces},
    )


def _window_findings(windows: list[tuple[Finding, ...]]) -> tuple[Finding, ...]:
    """Each code once, with how many of the arm's windows it is about."""
    found = [finding for said in windows for finding in said]
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


def by_block(windows: Iterable[Judged]) -> dict[tuple[int, int], float]:
    """Energy per token in mJ of each (session, block); windows of one block are summed first."""
    energy: dict[tuple[int, int], float] = defaultdict(float)
    tokens: dict[tuple[int, int], int] = defaultdict(int)
    for window in windows:
        key = window.fact.session, window.fact.block
        if present(window.energy):
            energy[key] += window.energy.energy
            tokens[key] += window.tokens
    return {key: mj_per_token(Joule(energy[key]), tokens[key]) for key in energy}
