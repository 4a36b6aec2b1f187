"""Annotations of a GitHub workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.lint.evidence import told
from ecocompute_cube.lint.formats.text import summary
from ecocompute_cube.lint.rules import BY_CODE

if TYPE_CHECKING:
    from ecocompute_cube.lint.found import Finding, Found

_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def written(found: Found) -> str:
    """One workflow command a finding."""
    lines = [_annotation(each) for each in found.findings]
    return "".join(f"{line}\n" for line in [*lines, *map(_data, summary(found))])


def _annotation(finding: Finding) -> str:
    place = finding.place
    values = {"file": finding.path, "line": place.line, "endLine": place.end_line}
    if place.line == place.end_line:
        values |= {"col": place.column, "endColumn": place.end_column}
    values["title"] = f"{finding.code} {BY_CODE[finding.code].name}"
    named = ",".join(f"{name}={_property(str(value))}" for name, value in values.items())
    said = "\n".join([finding.message, *map(told, finding.evidence), f"Fix: {finding.fix}"])
    return f"::{_LEVELS[finding.severity]} {named}::{_data(said)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
