"""What several runs say together, as lines for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.base import MaybeStr, present, printable
from ecocompute_cube.model.plan import BASELINE
from ecocompute_cube.report.answer import WORDS
from ecocompute_cube.report.table import counted, table, three_digits
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.base import Absent
    from ecocompute_cube.model.claims import Interval
    from ecocompute_cube.model.merged import ArmKind, Differing, Pooled, SizeCurve
    from ecocompute_cube.report.merged import Merged

_MOST_SAID: Final = 8  # arms that a first screen can hold
_POOLED: Final = ("arm", "mJ/token", "versus FP16", "interval", "n", "boards", "verdict")
_CURVES: Final = ("precision", "workload", "board", "sizes", "crossover", "says")


def merged_text(found: Merged) -> str:
    """Tables of pooled arms and of curves, and what keeps arms apart; empty of a single run."""
    lines = [*_pooled(found.pooled), *_apart(found), *_curves(found.crossovers)]
    return "".join(f"{printable(line)}\n" for line in lines)


def pooled_words(found: Sequence[Pooled]) -> tuple[str, ...]:
    """A sentence an arm that several runs measured alike; of very many only the first."""
    said = [printable(_sentence(one)) for one in found[:_MOST_SAID]]
    if len(found) > _MOST_SAID:
        said.append(f"The table holds {len(found) - _MOST_SAID} more.")
    return tuple(said)


def _sentence(one: Pooled) -> str:
    held = one.interval_pct
    span = (
        f"{100 * held.confidence:g}% interval {interval_words(held)}"
        if present(held)
        else held.reason
    )
    lowered = f" Its tier is lowered by {', '.join(one.lowered_by)}." if one.lowered_by else ""
    return (
        f"{arm_words(one.arm)} {WORDS[one.verdict]} against {BASELINE} "
        f"({signed(one.change_pct)} %, {span}, n = {counted(one.n, one.unit.removesuffix('s'))} on "
        f"{counted(one.boards, 'board')}).{lowered}"
    )


def _pooled(each: Sequence[Pooled]) -> list[str]:
    if not each:
        return []
    rows = [
        (
            arm_words(one.arm),
            three_digits(one.mj_per_token) if present(one.mj_per_token) else "–",
            f"{signed(one.change_pct)} %",
            interval_words(one.interval_pct),
            f"{one.n} {one.unit}",
            str(one.boards),
            one.verdict,
        )
        for one in each
    ]
    return ["several runs, taken together:", *table([_POOLED, *rows]), ""]


def _apart(found: Merged) -> list[str]:
    if not found.kept_apart:
        return []
    lines = [
        f"{arm_words(each.arm)}: {', '.join(each.runs)} not with {', '.join(each.others)}: "
        f"{differing_words(each.differs)}"
        for each in found.kept_apart
    ]
    return ["several runs, kept apart:", *lines, ""]


def _curves(curves: Sequence[SizeCurve]) -> list[str]:
    """Of curves that are none for want of sizes, only how many there are."""
    drawn = [curve for curve in curves if len(curve.crossover.points) > 1]
    if not drawn:
        return []
    rows = [
        (
            f"{curve.precision} {curve.runtime}",
            curve.workload.slug,
            curve.keys.get("board", "unknown board"),
            str(len(curve.crossover.points)),
            f"{curve.crossover.size_b:.3g}B" if present(curve.crossover.size_b) else "–",
            curve.crossover.says,
        )
        for curve in drawn
    ]
    return ["change of energy over model size:", *table([_CURVES, *rows]), ""]


def arm_words(arm: ArmKind) -> str:
    """Model, precision, runtime and workload."""
    return f"{arm.model} {arm.precision} {arm.runtime} {arm.workload.slug}"


def interval_words(interval: Interval | Absent) -> str:
    """An interval in percent, or that there is none."""
    if not present(interval):
        return "–"
    return f"{signed(interval.low)} to {signed(interval.high)} %"


def differing_words(differs: Sequence[Differing]) -> str:
    """``key here | there`` of each."""
    return "; ".join(f"{each.key} {_word(each.here)} | {_word(each.there)}" for each in differs)


def _word(told: MaybeStr) -> str:
    return told if present(told) else told.reason
