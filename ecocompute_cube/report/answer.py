"""The question in a line, and its answer in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.base import present
from ecocompute_cube.model.claims import Comparison, Verdict
from ecocompute_cube.model.plan import BASELINE, against_itself
from ecocompute_cube.report.labels import arm_label, label_of
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ecocompute_cube.model.report import ArmReport

_MOST_SAID: Final = 8  # arms that a sentence can hold

#: What a verdict says of an arm.
WORDS: Final = {
    Verdict.LOWER: "saves energy",
    Verdict.HIGHER: "costs energy",
    Verdict.SAME: "changes nothing that matters",
    Verdict.INCONCLUSIVE: "is undecided",
    Verdict.INVALID: "has no valid comparison",
}


#: Of an arm against itself, where any difference is the method's.
_AA_WORDS = {
    Verdict.LOWER: "differs from itself",
    Verdict.HIGHER: "differs from itself",
    Verdict.SAME: "is the same as itself",
    Verdict.INCONCLUSIVE: "is too noisy to tell itself from a change",
    Verdict.INVALID: "has no valid comparison",
}


def question(models: Iterable[str], arms: tuple[ArmReport, ...]) -> str:
    """What the run asks of models by these names."""
    if any(arm.replica > 1 for arm in arms) and all(
        arm.precision is arms[0].precision for arm in arms
    ):
        return f"Does {', '.join(models)} at {arms[0].precision} differ from itself on this board?"
    return f"Does quantizing {', '.join(models)} save energy on this board?"


def answer(
    rehearsal: bool, arms: tuple[ArmReport, ...], comparisons: tuple[Comparison, ...]
) -> str:
    """One sentence, with intervals and n."""
    if rehearsal:
        return "Not measured: this is a rehearsal without a board."
    parts: dict[str, dict[str, Comparison]] = {}
    for arm in arms:
        if not arm.is_baseline and arm.replica == 1 and present(arm.vs_baseline):
            compared = parts.setdefault(_against(arm.vs_baseline.against, arms), {})
            compared[arm_label(arm, arms)] = arm.vs_baseline
    if parts:
        return " ".join(f"{against}: {_said(compared)}." for against, compared in parts.items())
    pairs = [
        f"{label_of(each.arm, arms)} against {label_of(each.against, arms)} {describe(each)}"
        for each in comparisons
    ]
    return "; ".join(pairs) + "." if pairs else "Nothing was compared."


def _said(compared: Mapping[str, Comparison]) -> str:
    """Each arm, or where nobody would read them all how many there are of each verdict."""
    if len(compared) <= _MOST_SAID:
        return "; ".join(f"{label} {describe(each)}" for label, each in compared.items())
    by_verdict: dict[Verdict, list[Comparison]] = {}
    for each in compared.values():
        by_verdict.setdefault(each.verdict, []).append(each)
    counted = [
        f"{len(alike)} of {len(compared)} arms: {WORDS[verdict]}{_range(alike)}"
        for verdict, alike in sorted(by_verdict.items())
    ]
    return "; ".join(counted)


def _range(alike: Sequence[Comparison]) -> str:
    """From where to where their intervals reach; nothing where none has one."""
    ends = [
        end
        for each in alike
        if present(each.interval_pct)
        for end in (each.interval_pct.low, each.interval_pct.high)
    ]
    if not ends:
        return ""
    confidence = min(each.interval_pct.confidence for each in alike if present(each.interval_pct))
    fewest, most = min(each.n for each in alike), max(each.n for each in alike)
    count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return (
        f" ({100 * confidence:g}% intervals within {signed(min(ends))} to {signed(max(ends))} %, "
        f"n = {count} {alike[0].unit})"
    )


def _against(partner: str, arms: tuple[ArmReport, ...]) -> str:
    precision = next(arm.precision for arm in arms if arm.arm == partner)
    if precision is BASELINE:
        return f"Against {BASELINE}"
    return f"{BASELINE} does not fit this board; against {precision}"


def describe(comparison: Comparison) -> str:
    """Verdict, change, interval, n; of an A/A also whether zero is inside."""
    words = _words(comparison)
    if not present(comparison.change_pct):
        return f"{words} ({comparison.reason})"
    if not present(comparison.interval_pct):
        return f"{words} ({signed(comparison.change_pct)} %, {comparison.reason})"
    low, high = comparison.interval_pct.low, comparison.interval_pct.high
    confidence = comparison.interval_pct.confidence
    return (
        f"{words} ({signed(comparison.change_pct)} %, {100 * confidence:g}% interval "
        f"{signed(low)} to {signed(high)} %, n = {comparison.n} {comparison.unit})"
    )


def _words(comparison: Comparison) -> str:
    if not against_itself(comparison.arm, comparison.against):
        return WORDS[comparison.verdict]
    found = comparison.interval_pct
    if not present(found):
        return _AA_WORDS[comparison.verdict]
    held = "holds zero" if found.low <= 0 <= found.high else "misses zero"
    return f"{held}, {_AA_WORDS[comparison.verdict]}"
