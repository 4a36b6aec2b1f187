from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecocompute_cube.analysis.documents import Document
from ecocompute_cube.analysis.protocol import Profile, Verdict
from ecocompute_cube.errors import JournalBroken, UsageError
from ecocompute_cube.validate import (
    Validation,
    as_json,
    as_text,
    exit_status,
    validate_paths,
)

Json = dict[str, Any]
Change = Callable[[Json, str, object], Json]


def _written(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_folder_stands_for_the_documents_below_it_in_order(
    tmp_path: Path, conformant: Json
) -> None:
    for name in ("b/energy.json", "a/energy_NF4.json", "a/other.json", "c/rtx.energy.json"):
        _written(tmp_path / name, conformant)
    (tmp_path / "energy.json").mkdir()
    names = [
        Path(each.path).relative_to(tmp_path).as_posix() for each in validate_paths([tmp_path])
    ]
    assert names == ["a/energy_NF4.json", "b/energy.json", "c/rtx.energy.json"]


def test_a_document_named_twice_is_checked_once(tmp_path: Path, conformant: Json) -> None:
    path = _written(tmp_path / "energy.json", conformant)
    assert len(validate_paths([path, tmp_path, path])) == 1


def test_a_name_of_both_kinds_is_checked_once(tmp_path: Path, conformant: Json) -> None:
    _written(tmp_path / "energy_NF4.energy.json", conformant)
    assert len(validate_paths([tmp_path])) == 1


def test_a_folder_without_documents_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no energy\*\.json or \*\.energy\.json"):
        validate_paths([tmp_path])


def test_a_missing_path_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no file 'energy\.json'"):
        validate_paths([tmp_path / "energy.json"])


def test_a_broken_file_does_not_hide_its_neighbours(tmp_path: Path, conformant: Json) -> None:
    (tmp_path / "energy_a.json").write_bytes(b"{")
    _written(tmp_path / "energy_b.json", conformant)
    checked = validate_paths([tmp_path])
    assert [each.verdict for each in checked] == [
        Verdict.SCHEMA_INVALID,
        Verdict.PROTOCOL_CONFORMANT,
    ]
    assert exit_status(checked) == 6


@pytest.mark.parametrize("profile", Profile)
def test_all_reaching_the_profile_is_status_0(published: Path, profile: Profile) -> None:
    checked = validate_paths([published / "conformant-v1.1.json"], profile)
    assert exit_status(checked, profile) == 0


def test_conformant_is_not_enough_for_the_dataset(
    tmp_path: Path, conformant: Json, changed: Change
) -> None:
    path = _written(tmp_path / "energy.json", changed(conformant, "power_trace", ...))
    assert exit_status(validate_paths([path])) == 0
    assert exit_status(validate_paths([path], Profile.DATASET), Profile.DATASET) == 1


def test_one_found_wanting_is_status_1(published: Path) -> None:
    names = ("conformant-v1.1.json", "re-measured-4090-nf4.json")
    assert exit_status(validate_paths([published / name for name in names])) == 1


def test_one_schema_invalid_is_status_6(published: Path) -> None:
    names = ("re-measured-4090-nf4.json", "schema-invalid-minimal.json")
    assert exit_status(validate_paths([published / name for name in names])) == 6


def test_figures_that_do_not_fit_are_status_1_and_leave_the_verdict(
    tmp_path: Path, conformant: Json, changed: Change
) -> None:
    path = _written(tmp_path / "energy.json", changed(conformant, "results.avg_power_watts", 1.0))
    checked = validate_paths([path])
    assert checked[0].verdict is Verdict.PROTOCOL_CONFORMANT
    assert exit_status(checked) == 1
    assert "in 1 the figures do not fit" in as_text(checked)


def test_what_the_journal_contradicts_is_status_1(published: Path) -> None:
    def recompute(path: Path, document: Document) -> list[str]:
        assert path.name == "conformant-v1.1.json"
        assert document["scenario"] == "SingleStream"
        return ["The journal says 3600 mJ\x07."]

    checked = validate_paths([published / "conformant-v1.1.json"], recompute=recompute)
    assert [each.code for each in checked[0].findings] == ["recomputed"]
    assert exit_status(checked) == 1
    assert "The journal says 3600 mJ\\x07." in as_text(checked)


def test_a_broken_journal_is_a_finding_of_its_document(published: Path) -> None:
    def recompute(path: Path, document: Document) -> list[str]:
        raise JournalBroken("Line 3 does not follow.", "Restore the file.")

    checked = validate_paths([published / "conformant-v1.1.json"], recompute=recompute)
    assert [each.code for each in checked[0].findings] == ["journal_broken"]


@pytest.mark.parametrize(("effect", "status"), [("invalid", 1), ("lowers the tier", 0)])
def test_what_a_document_says_forbids_its_figures_is_status_1(
    tmp_path: Path, conformant: Json, effect: str, status: int
) -> None:
    finding = {"code": "counter_reset", "cause": "It ran back.", "fix": "Again.", "effect": effect}
    path = _written(tmp_path / "energy.json", conformant | {"findings": [finding]})
    assert exit_status(validate_paths([path])) == status


def test_an_invalid_document_is_not_recomputed(published: Path) -> None:
    def recompute(path: Path, document: Document) -> list[str]:
        raise AssertionError("never asked")

    validate_paths([published / "schema-invalid-minimal.json"], recompute=recompute)


def test_the_text_gives_verdict_clause_cause_and_fix(published: Path) -> None:
    text = as_text(validate_paths([published / "re-measured-4090-nf4.json"]))
    assert "re-measured-4090-nf4.json: schema-valid" in text
    assert "  4.4.1 window: measurement.window is not stated.\n      Measure generation" in text
    assert text.endswith("1 document against v1.1-core: 1 schema-valid.\n")


def test_control_characters_of_a_document_never_reach_the_screen(
    tmp_path: Path, conformant: Json, changed: Change
) -> None:
    evil = "x\x1b[2J\u202e\r\n\x9b31m\ud800"
    document = changed(conformant, "workload.model_name", evil)
    document = changed(document, "workload.decoding", evil)
    document = changed(document, "system_under_test.gpu", evil)
    document["thermal"]["arm_order"] = evil
    document["software"]["differs_from_reference_pins"] = [evil]
    document["power_trace"]["files"][0]["file"] = evil
    path = _written(tmp_path / "energy\x1b.json", document)
    checked = validate_paths([path])
    text = as_text(checked)
    assert all(line.isprintable() for line in text.split("\n"))
    assert "x\\x1b[2J\\u202e\\r\\n\\x9b31m\\ud800" in text
    assert all(line.isprintable() for line in as_json(checked).split("\n"))


def test_the_json_is_stable_sorted_and_of_its_model(published: Path) -> None:
    paths = [published / "negative-probe.json", published / "conformant-v1.1.json"]
    once, again = (as_json(validate_paths(paths)) for _ in range(2))
    assert once == again
    report = json.loads(once)
    assert list(report) == sorted(report)
    validation = Validation.model_validate_json(once)
    assert validation.exit_status == 1
    assert [each.verdict for each in validation.documents] == [
        "schema-valid",
        "protocol-conformant",
    ]


def test_importing_it_does_not_load_jsonschema() -> None:
    code = "import sys, ecocompute_cube.validate; sys.exit('jsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
