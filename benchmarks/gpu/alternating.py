"""Paired comparison of runs made in turn: ``A/1`` with ``B/1``, ``A/2`` with ``B/2``, and so on.

``python -m benchmarks.gpu.alternating A B`` prints, for each arm, energy per output token in both,
and the change from A to B with its 95 % interval: Student's t on the log ratios of the pairs. The
pair is the replicate: one run of each kind, in folders of the same name. A pair that lacks one of
its runs, or whose runs were not finished, is named and left out. Runs of a pair must share plan,
models, board, packages and program.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ecocompute_cube.analysis.ratios import as_percent, t_interval
from ecocompute_cube.model.base import present
from ecocompute_cube.model.journal import RunClosed
from ecocompute_cube.model.journal_file import JOURNAL_NAME
from ecocompute_cube.model.report import Report
from ecocompute_cube.report.build import build_report
from ecocompute_cube.report.run import read_run
from ecocompute_cube.units import percent

_CONFIDENCE = 0.95


class Unpairable(Exception):
    """Two runs that must not be compared, and why."""


class Change(NamedTuple):
    """One arm in all pairs: mJ per output token, and the change from A to B in percent."""

    arm: str
    pairs: int
    a_mj: float  #: geometric mean
    b_mj: float
    change_pct: float
    low_pct: float | None  #: None with fewer than two pairs
    high_pct: float | None


def changes(a: Path, b: Path) -> list[Change]:
    """Every arm's change between two folders of runs, paired by the names of their folders.

    Raises Unpairable when no pair is whole, or one is of runs that are not alike.
    """
    first, second = _reports(a), _reports(b)
    pairs = [_paired(first[name], second[name]) for name in sorted(first.keys() & second.keys())]
    if not pairs:
        raise Unpairable(f"{a.name} and {b.name} hold no whole pair.")
    arms = pairs[0][0].keys()
    return [_change(arm, [(first[arm], second[arm]) for first, second in pairs]) for arm in arms]


def left_out(a: Path, b: Path) -> list[str]:
    """Names of pairs that are not whole."""
    names = {path.name for folder in (a, b) for path in folder.iterdir() if path.is_dir()}
    return sorted(names - (_reports(a).keys() & _reports(b).keys()))


def _reports(folder: Path) -> dict[str, Report]:
    """The finished run of each pair, by the name of its folder."""
    found = {}
    for journal in sorted(folder.glob(f"*/*/{JOURNAL_NAME}")):
        run = read_run(journal.parent)
        last = run.journal.records[-1]
        if isinstance(last, RunClosed) and last.reason == "finished":
            found[journal.parent.parent.name] = build_report(run)
    return found


def _paired(a: Report, b: Report) -> tuple[dict[str, float], dict[str, float]]:
    for what, of_a, of_b in zip(_SAME, _identity(a), _identity(b), strict=True):
        if of_a != of_b:
            raise Unpairable(f"{a.run_id} and {b.run_id} differ in their {what}.")
    return _energies(a), _energies(b)


_SAME = ("plan", "board", "packages", "program")


def _identity(report: Report) -> tuple[object, ...]:
    boards = [s.board.uuid_sha256 if present(s.board) else None for s in report.sessions]
    packages = [s.packages for s in report.sessions]
    return report.plan_sha256, boards, packages, report.tool_version


def _energies(report: Report) -> dict[str, float]:
    found = {arm.arm: arm.energy.mj_per_token for arm in report.arms if present(arm.energy)}
    if len(found) != len(report.arms):
        raise Unpairable(f"{report.run_id} has an arm without energy.")
    return found


def _change(arm: str, values: Sequence[tuple[float, float]]) -> Change:
    ratios = [math.log(b / a) for a, b in values]
    interval = as_percent(t_interval(ratios, _CONFIDENCE, "blocks"))
    return Change(
        arm=arm,
        pairs=len(values),
        a_mj=statistics.geometric_mean(a for a, _ in values),
        b_mj=statistics.geometric_mean(b for _, b in values),
        change_pct=percent(math.exp(statistics.fmean(ratios))),
        low_pct=interval.low if present(interval) else None,
        high_pct=interval.high if present(interval) else None,
    )


def as_text(found: Sequence[Change], a: str, b: str) -> str:
    """The table."""
    width = max(len(change.arm) for change in found)
    lines = [f"{'arm':{width}}  pairs  {a:>10}  {b:>10}  mJ/token; change from {a} to {b}"]
    for change in found:
        lines.append(
            f"{change.arm:{width}}  {change.pairs:5}  {change.a_mj:10.1f}  {change.b_mj:10.1f}  "
            f"{change.change_pct:+.2f} %{_interval(change)}"
        )
    return "\n".join(lines)


def _interval(change: Change) -> str:
    if change.low_pct is None or change.high_pct is None:
        return ""
    return f" ({change.low_pct:+.2f} to {change.high_pct:+.2f})"


def main(arguments: Sequence[str]) -> int:
    """Print the comparison; status 2 when there is none to make."""
    if len(arguments) != 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    a, b = map(Path, arguments)
    try:
        found = changes(a, b)
    except Unpairable as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for name in left_out(a, b):
        sys.stderr.write(f"pair {name} is not whole and is left out\n")
    sys.stdout.write(as_text(found, a.name, b.name) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
