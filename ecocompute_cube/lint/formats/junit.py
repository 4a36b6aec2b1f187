"""JUnit's XML, for servers that show test results."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

from ecocompute_cube.lint.evidence import told
from ecocompute_cube.lint.rules import BY_CODE

if TYPE_CHECKING:
    from ecocompute_cube.lint.found import Finding, Found

_FORBIDDEN: Final = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def written(found: Found) -> str:
    """One test a finding, all failed; one that passed where there is none."""
    cases = [_case(each) for each in found.findings]
    if not cases:
        cases = ['  <testcase classname="ecocompute.lint" name="nothing found"/>']
    skipped = [
        f'  <testcase classname={_attr(each.path)} name="not read">'
        f"<skipped message={_attr(each.reason)}/></testcase>"
        for each in found.skipped
    ]
    count = len(cases) + len(skipped)
    head = (
        f'<testsuite name="ecocompute lint" tests="{count}" failures="{len(found.findings)}" '
        f'errors="0" skipped="{len(skipped)}">'
    )
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, *skipped, "</testsuite>"]
    return "".join(f"{line}\n" for line in lines)


def _case(finding: Finding) -> str:
    name = f"{finding.code} {BY_CODE[finding.code].name}, line {finding.place.line}"
    said = "\n".join([*map(told, finding.evidence), finding.fix])
    return (
        f"  <testcase classname={_attr(finding.path)} name={_attr(name)}>"
        f"<failure type={_attr(finding.severity)} message={_attr(finding.message)}>"
        f"{escape(_allowed(said))}</failure></testcase>"
    )


def _attr(text: str) -> str:
    return quoteattr(_allowed(text))


def _allowed(text: str) -> str:
    """Without characters that XML cannot hold."""
    return _FORBIDDEN.sub("?", text)
