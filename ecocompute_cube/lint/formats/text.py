"""For people at a terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ecocompute_cube.lint.found import Finding, Found


def written(found: Found) -> str:
    """Each finding with its evidence, then one line about all."""
    lines = [line for finding in found.findings for line in _finding(finding)]
    return "".join(f"{line}\n" for line in [*lines, *summary(found)])


def _finding(finding: Finding) -> Iterator[str]:
    from ecocompute_cube.lint.evidence import told
    from ecocompute_cube.lint.rules import BY_CODE

    cell = f" (cell {finding.cell})" if finding.cell is not None else ""
    where = f"{finding.path}:{finding.place.line}:{finding.place.column}{cell}"
    rule = BY_CODE[finding.code]
    yield f"{where}: {finding.severity} {finding.code} {rule.name}: {finding.message}"
    for each in finding.evidence:
        yield f"    {'if it is an ' if each.conditional else ''}{told(each)}"
    yield f"    fix: {finding.fix}"


def summary(found: Found) -> list[str]:
    """What was looked at, and what was left out."""
    counted = Counter(each.severity for each in found.findings)
    parts = [f"{counted[s]} {s}{'s' if counted[s] != 1 else ''}" for s in counted]
    told_of = ", ".join(parts) if parts else "nothing found"
    lines = [f"{found.files} file{'s' if found.files != 1 else ''}: {told_of}"]
    left = [
        f"{count} {what}"
        for count, what in ((found.suppressed, "ignored"), (found.known, "in the baseline"))
        if count
    ]
    if left:
        lines[0] += f" ({', '.join(left)})"
    return lines
