"""For one comment on a pull request, which is found again by its first line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ecocompute_cube.lint.evidence import told
from ecocompute_cube.lint.formats.text import summary
from ecocompute_cube.lint.rules import BY_CODE

if TYPE_CHECKING:
    from ecocompute_cube.lint.found import Finding, Found

MARKER: Final = "<!-- ecocompute-lint -->"
_MOST: Final = 60_000  # characters; GitHub takes 65,536 in a comment
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def written(found: Found) -> str:
    """A table, and the evidence folded away below."""
    head = f"{MARKER}\n**ecocompute lint** – {_escaped(summary(found)[0])}\n"
    parts = [head]
    if found.findings:
        parts.append("\n| where | rule | what |\n|---|---|---|\n")
    left = _MOST - sum(map(len, parts))
    shown = 0
    for finding in found.findings:
        row = _row(finding)
        if len(row) > left:
            break
        parts.append(row)
        left, shown = left - len(row), shown + 1
    if shown < len(found.findings):
        parts.append(f"\n{len(found.findings) - shown} more findings are in the job's log.\n")
    return "".join(parts)


def _row(finding: Finding) -> str:
    cell = f", cell {finding.cell}" if finding.cell is not None else ""
    where = f"{_code(finding.path)}:{finding.place.line}{cell}"
    rule = BY_CODE[finding.code]
    said = [_escaped(finding.message), f"*Fix:* {_escaped(finding.fix)}"]
    if finding.evidence:
        lines = "<br>".join(_escaped(told(each)) for each in finding.evidence)
        said.append(f"<details><summary>measured</summary>{lines}</details>")
    return f"| {where} | {finding.severity} {finding.code} {rule.name} | {'<br>'.join(said)} |\n"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text).replace("\n", " ").replace("@", "@\u200b")


def _code(text: str) -> str:
    bare = text.replace("`", "'").replace("|", "\\|").replace("\n", " ")
    return f"`{bare}`"
