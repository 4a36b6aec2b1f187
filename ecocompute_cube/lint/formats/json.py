"""For programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ecocompute_cube import __version__
from ecocompute_cube.lint.rules import BY_CODE

if TYPE_CHECKING:
    from ecocompute_cube.lint.found import Finding, Found

FORMAT: Final = "ecocompute-lint/1"


def written(found: Found) -> str:
    """One document."""
    return json.dumps(document(found), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def document(found: Found) -> dict[str, Any]:
    """As it is written."""
    return {
        "format": FORMAT,
        "version": __version__,
        "gpu": found.gpu,
        "files": found.files,
        "suppressed": found.suppressed,
        "in_baseline": found.known,
        "findings": [_finding(each) for each in found.findings],
        "skipped": [each._asdict() for each in found.skipped],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": BY_CODE[finding.code].name,
        "severity": finding.severity,
        "path": finding.path,
        "cell": finding.cell,
        **finding.place._asdict(),
        "message": finding.message,
        "fix": finding.fix,
        "fixable": bool(finding.edits),
        "evidence": [each._asdict() for each in finding.evidence],
        "fingerprint": finding.fingerprint(),
    }
