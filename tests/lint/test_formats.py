"""Every format says the same, and is what its readers expect."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from ecocompute_cube.lint.formats import FORMATS, written
from ecocompute_cube.lint.formats.markdown import MARKER
from ecocompute_cube.lint.found import Edit, Evidence, Finding, Found, Place, Skipped
from ecocompute_cube.lint.rules import BY_CODE

from .rig import EIGHT, found_in

SCHEMA: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "sarif" / "sarif-2.1.0-rtm.5.json").read_text()
)
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


def one(**changed: object) -> Finding:
    (finding,) = found_in(EIGHT)
    return finding._replace(**changed)  # type: ignore[arg-type]


NASTY: Final = Found(
    findings=(
        one(path="a b/%,:.py", message="<b>|`x`\n@you & ]]> %0A ::error::", cell=3),
        one(
            code="ECO114",
            severity="note",
            evidence=(),
            edits=(Edit(Place(1, 2, 1, 3), "é"),),
        ),
        one(severity="error", path="../é.py"),
    ),
    skipped=(Skipped("b.py", "binary & odd <"),),
    files=4,
    suppressed=1,
    known=2,
)
NONE: Final = Found((), (), 0)


@pytest.mark.parametrize("found", [NASTY, NONE], ids=["nasty", "none"])
def test_sarif_is_valid_by_its_schema(found: Found) -> None:
    log = json.loads(written(found, "sarif"))
    assert [*Draft4Validator(SCHEMA).iter_errors(log)] == []
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for result, finding in zip(run["results"], found.findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.code
        region = result["locations"][0]["physicalLocation"]["region"]
        assert region["startLine"] == finding.place.line
        assert ("fixes" in result) == bool(finding.edits)


def test_the_schema_would_tell() -> None:
    log = json.loads(written(NASTY, "sarif"))
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert [*Draft4Validator(SCHEMA).iter_errors(log)]


def test_annotations_are_one_line_each_and_none_can_be_smuggled_in() -> None:
    lines = written(NASTY, "github").splitlines()
    commands = [line for line in lines if line.startswith("::")]
    assert len(commands) == 3 and len(lines) == 4
    assert commands[0].startswith("::warning file=a b/%25%2C%3A.py,line=2,endLine=2,col=28,")
    assert commands[1].startswith("::notice ") and commands[2].startswith("::error ")
    assert "%0A" in commands[0] and not any(line.startswith("::error::") for line in lines)


def test_junit_is_a_suite_with_a_failure_each() -> None:
    suite = ElementTree.fromstring(written(NASTY, "junit"))  # noqa: S314  # our own text
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "3", "1")
    assert len(suite.findall("testcase/failure")) == 3
    empty = ElementTree.fromstring(written(NONE, "junit"))  # noqa: S314  # our own text
    assert (empty.get("tests"), empty.get("failures")) == ("1", "0")


def test_markdown_begins_with_its_mark_and_keeps_its_table() -> None:
    text = written(NASTY, "markdown")
    assert text.startswith(MARKER + "\n")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) == 3
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert "<b>" not in text and "@you" not in text
    assert "|" not in written(NONE, "markdown")


def test_a_long_comment_is_cut_at_a_row_and_says_so() -> None:
    many = Found(tuple(one(path=f"{n}.py") for n in range(500)), (), 500)
    text = written(many, "markdown")
    assert len(text) < 65_000
    left = re.search(r"(\d+) more findings", text)
    shown = len(re.findall(r"^\| `", text, re.MULTILINE))
    assert left is not None and int(left[1]) + shown == 500


def test_json_has_everything() -> None:
    document = json.loads(written(NASTY, "json"))
    first = document["findings"][0]
    assert document["format"] == "ecocompute-lint/1" and document["suppressed"] == 1
    assert {"code", "severity", "path", "line", "column", "message", "fix"} <= first.keys()
    evidence = first["evidence"][0]
    assert {"gpu", "delta_pct", "interval", "n", "sources", "basis", "arm"} <= evidence.keys()
    assert document["skipped"] == [{"path": "b.py", "reason": "binary & odd <"}]


def test_people_read_place_rule_evidence_and_remedy() -> None:
    text = written(Found((one(path="app.py"),), (), 1), "text")
    assert text.startswith("app.py:2:28: warning ECO101 int8-default-threshold: ")
    assert "if it is an RTX 4090 at 0.5B: INT8/eager against FP16/eager +" in text
    assert "    fix: " in text and text.endswith("1 file: 1 warning\n")


_TEXTS = st.text(max_size=30)
_EVIDENCE = st.builds(
    Evidence,
    gpu=_TEXTS,
    arm=_TEXTS,
    against=_TEXTS,
    params_b=st.none() | st.floats(0.01, 900),
    delta_pct=st.none() | st.floats(-99, 1e4),
    interval=st.none() | st.tuples(st.floats(-99, 0), st.floats(0, 1e4)),
    basis=_TEXTS,
    n=st.integers(0, 9),
    sources=st.lists(_TEXTS, max_size=3).map(tuple),
    conditional=st.booleans(),
)
_PLACES = st.builds(Place, *[st.integers(1, 9)] * 4)
_FINDINGS = st.builds(
    Finding,
    code=st.sampled_from(sorted(BY_CODE)),
    severity=st.sampled_from(["error", "warning", "note"]),
    path=_TEXTS.filter(bool),
    place=_PLACES,
    message=_TEXTS.filter(bool),
    fix=_TEXTS,
    evidence=st.lists(_EVIDENCE, max_size=2).map(tuple),
    edits=st.lists(st.builds(Edit, _PLACES, _TEXTS), max_size=1).map(tuple),
    cell=st.none() | st.integers(1, 99),
    text=_TEXTS,
)


@settings(deadline=None, max_examples=40)
@given(st.lists(_FINDINGS, max_size=3))
def test_any_finding_can_be_written_in_any_format(findings: list[Finding]) -> None:
    found = Found(tuple(findings), (), 1)
    for form in FORMATS:
        assert written(found, form)
    assert [*Draft4Validator(SCHEMA).iter_errors(json.loads(written(found, "sarif")))] == []
    ElementTree.fromstring(written(found, "junit"))  # noqa: S314  # our own text
    assert not _CONTROL.search(written(found, "junit"))
