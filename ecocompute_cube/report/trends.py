"""Whether energy moved with place or time, and whether that is large beside what is claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.analysis.trends import Cell, drift, position
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.claims import Effect, Finding
from ecocompute_cube.model.report import Trends
from ecocompute_cube.report.comparisons import comparisons_of
from ecocompute_cube.units import Joule, mj_per_token, signed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ecocompute_cube.report.run import RunEvidence

_SURE: Final = 0.01  # chance of a false alarm, for each of the two tests of a session
_MATTERS: Final = 0.25  # of the plan's threshold: nobody's claim turns on less


def trends_of(run: RunEvidence) -> tuple[Trends, ...]:
    """Both tests for every session and group that was measured."""
    confidence = run.known.run.plan.protocol.confidence
    cells: dict[tuple[int, int], list[Cell]] = {}
    for place, cell in _cells(run):
        cells.setdefault(place, []).append(cell)
    return tuple(
        Trends(
            session=session,
            group=group,
            position=position(found, confidence),
            drift=drift(found, confidence),
        )
        for (session, group), found in sorted(cells.items())
    )


def _cells(run: RunEvidence) -> Iterator[tuple[tuple[int, int], Cell]]:
    for arm in run.known.arms:
        for window in run.counted(arm.id):
            if present(window.energy):
                fact = window.fact
                mj = mj_per_token(Joule(window.energy.energy), window.tokens)
                yield (fact.session, fact.group), Cell(arm.id, fact.block, fact.position, mj)


def trend_findings(run: RunEvidence) -> tuple[Finding, ...]:
    """Effects that are sure, and larger than half of the widest interval that is claimed."""
    least = max(_half_width(run), _MATTERS * run.known.run.plan.protocol.threshold_pct)
    return tuple(
        finding
        for trends in trends_of(run)
        for finding in (
            _finding(trends.position, "position_effect", least),
            _finding(trends.drift, "drift", least),
        )
        if finding is not None
    )


def _half_width(run: RunEvidence) -> float:
    found = [comparison.interval_pct for comparison in comparisons_of(run)]
    return max(((each.high - each.low) / 2 for each in found if present(each)), default=0.0)


_ABOUT: Final = {
    "position_effect": (
        "from the first place of a block to the last",
        "Places are drawn by lot, so no ratio leans to one side; a longer cooldown narrows them.",
    ),
    "drift": (
        "from the first block to the last",
        "Ratios are paired within blocks; trust them more than the absolute figures.",
    ),
}


def _finding(effect: Effect | Absent, code: str, least_pct: float) -> Finding | None:
    if not present(effect) or effect.p >= _SURE or abs(effect.change_pct) <= least_pct:
        return None
    where, fix = _ABOUT[code]
    return Finding(
        code=code,
        subject="run",
        cause=f"Energy changed by {described(effect)} {where}.",
        fix=fix,
        effect="note",
    )


def described(effect: Effect) -> str:
    """Change, interval, p."""
    low, high = effect.interval_pct.low, effect.interval_pct.high
    span = f"{signed(low, 2)} to {signed(high, 2)} %"
    return f"{signed(effect.change_pct, 2)} % ({span}, p = {effect.p:.2g})"
