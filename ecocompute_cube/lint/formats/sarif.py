"""SARIF 2.1.0, for code scanning."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ecocompute_cube import __version__
from ecocompute_cube.lint.evidence import told
from ecocompute_cube.lint.rules import RULES

if TYPE_CHECKING:
    from ecocompute_cube.lint.found import Edit, Finding, Found, Place

VERSION: Final = "2.1.0"
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_ORDER: Final = {rule.code: n for n, rule in enumerate(RULES)}


def written(found: Found) -> str:
    """One log with one run."""
    return json.dumps(log(found), indent=1, ensure_ascii=False) + "\n"


def log(found: Found) -> dict[str, Any]:
    """As it is written."""
    skipped = [
        {
            "level": "note",
            "message": {"text": f"{each.path} was not read: {each.reason}"},
            "descriptor": {"id": "not-read"},
        }
        for each in found.skipped
    ]
    run = {
        "tool": {
            "driver": {
                "name": "ecocompute lint",
                "semanticVersion": __version__,
                "rules": [_rule(n) for n in range(len(RULES))],
                "notifications": [
                    {"id": "not-read", "shortDescription": {"text": "A file that was not read."}}
                ],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": skipped}],
        "results": [_result(each) for each in found.findings],
    }
    return {"$schema": _SCHEMA, "version": VERSION, "runs": [run]}


def _rule(n: int) -> dict[str, Any]:
    rule = RULES[n]
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.what.replace("`", "")},
        "fullDescription": {"text": f"{rule.what.replace('`', '')}. Measured: {rule.measured}."},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": rule.severity},
        "properties": {"tags": ["energy"]},
    }


def _result(finding: Finding) -> dict[str, Any]:
    said = [finding.message, *(told(each) for each in finding.evidence), finding.fix]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": _ORDER[finding.code],
        "level": finding.severity,
        "message": {"text": "\n".join(said)},
        "locations": [_location(finding)],
        "partialFingerprints": {"ecocompute/v1": finding.fingerprint()},
    }
    if finding.edits:
        result["fixes"] = [_fix(finding)]
    return result


def _location(finding: Finding) -> dict[str, Any]:
    where = {"artifactLocation": _artifact(finding.path), "region": _region(finding.place)}
    return {"physicalLocation": where}


def _artifact(path: str) -> dict[str, str]:
    return {"uri": quote(path)}


def _region(place: Place) -> dict[str, int]:
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }


def _fix(finding: Finding) -> dict[str, Any]:
    changes = [_change(each) for each in finding.edits]
    where = _artifact(finding.path)
    return {
        "description": {"text": finding.fix},
        "artifactChanges": [{"artifactLocation": where, "replacements": changes}],
    }


def _change(edit: Edit) -> dict[str, Any]:
    return {"deletedRegion": _region(edit.place), "insertedContent": {"text": edit.text}}
