from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ecocompute_cube.analysis.documents import (
    MAX_BYTES,
    MAX_SHOWN,
    error_lines,
    parse_document,
    read_document,
    schema_errors,
    shown,
)
from ecocompute_cube.errors import DocumentInvalid, UsageError

Json = dict[str, Any]
Change = Callable[[Json, str, object], Json]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"[1, 2]", "holds a list"),
        (b'"x"', "holds a text"),
        (b"null", "holds null"),
        (b"7", "holds a number"),
        (b"{", "not valid JSON"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"a": 1e999}', "1e999 is beyond the range"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"a": {"b": 1, "b": 1}}', "the key 'b' stands twice"),
        (b'{"a": "\xff"}', "not UTF-8 (byte 7)"),
        (b'\xef\xbb\xbf{"a": 1}', "not valid JSON"),
        (b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}", "deeper than 64 levels"),
        (b'{"a": ' * 100_000, "deeper than 64 levels"),
    ],
)
def test_what_is_not_one_plain_object_is_refused_in_a_sentence(data: bytes, words: str) -> None:
    with pytest.raises(DocumentInvalid) as caught:
        parse_document(data, "energy.json")
    assert words in caught.value.cause
    assert caught.value.cause.endswith(".")
    assert "\n" not in str(caught.value)


def test_a_huge_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "energy.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)  # sparse: takes no room
    with pytest.raises(DocumentInvalid, match="larger than 64 MiB"):
        read_document(path)


@pytest.mark.parametrize("name", ["missing.json", "nul\0byte", "."])
def test_a_path_that_cannot_be_read_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        read_document(tmp_path / name)


def test_names_in_messages_are_escaped() -> None:
    with pytest.raises(DocumentInvalid) as caught:
        parse_document(b"", "energy\x1b[2J.json")
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("text", ["\x1b[31m", "a\nb", "\u202egnp", "\udc80", "\x00", "\u2028"])
def test_nothing_unprintable_is_shown(text: str) -> None:
    assert shown(text).isprintable()
    assert shown({text: [text]}).isprintable()


def test_long_values_are_cut() -> None:
    assert len(shown("x" * 10_000)) == 100


def test_the_published_schema_is_a_schema() -> None:
    text = files("ecocompute_cube").joinpath("schemas", "energy-1.x.schema.json").read_text()
    Draft202012Validator.check_schema(json.loads(text))


@pytest.mark.parametrize(
    ("place", "value", "line"),
    [
        (
            "results.energy_per_token_mj",
            -3,
            "results.energy_per_token_mj: -3 is less than the minimum of 0",
        ),
        ("workload.precision", "FP8", "workload.precision: 'FP8' is not one of ['FP16', 'NF4', "),
        ("results", ..., "the document: 'results' is a required property"),
        ("measurement.iterations", ..., "measurement: 'iterations' is a required property"),
        ("measurement.tokens_per_run", ..., "measurement: 'tokens_per_run' is a required property"),
        ("certified_benchmark_result", True, "certified_benchmark_result: False was expected"),
        ("system_under_test.accelerator_count", 0, "system_under_test.accelerator_count: 0 is "),
        ("power_trace.files", [{"role": "x"}], "power_trace.files[0]: 'file' is a required "),
    ],
)
def test_a_schema_error_is_one_line_with_its_place(
    conformant: Json, changed: Change, place: str, value: object, line: str
) -> None:
    assert schema_errors(changed(conformant, place, value))[0].startswith(line)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_older_versions_ask_for_less(conformant: Json, changed: Change, version: str) -> None:
    document = changed(conformant, "schema_version", f"ecocompute-energy/{version}")
    document = changed(document, "measurement.iterations", ...)
    assert schema_errors(changed(document, "measurement.sample_rate_hz", 5)) == ()


@pytest.mark.parametrize("version", ["1.2", "1.3", "1.4", "1.4-draft"])
def test_unknown_keys_are_allowed_in_published_versions(
    conformant: Json, changed: Change, version: str
) -> None:
    document = changed(conformant, "schema_version", f"ecocompute-energy/{version}")
    assert schema_errors(changed(document, "results.extra", {"anything": 1})) == ()


@pytest.mark.parametrize("version", [..., None, 13, "ecocompute-energy/1.5", "foreign/1"])
def test_an_unknown_version_names_the_known_ones(
    conformant: Json, changed: Change, version: object
) -> None:
    (line,) = schema_errors(changed(conformant, "schema_version", version))
    assert line.startswith("schema_version: ")
    assert "ecocompute-energy/1.0 to 1.4 and ecocompute-energy/2.x" in line


def test_at_most_twenty_errors_are_shown_and_the_rest_counted(
    conformant: Json, changed: Change
) -> None:
    lines = schema_errors(changed(conformant, "power_trace.columns", [1] * 50))
    assert len(lines) == MAX_SHOWN + 1
    assert lines[-1] == "and 30 more"


def test_a_wrong_array_of_many_is_not_counted_to_its_end(conformant: Json, changed: Change) -> None:
    lines = schema_errors(changed(conformant, "power_trace.columns", [1] * 5000))
    assert lines[-1] == "and at least 980 more"


def test_a_huge_wrong_value_does_not_drown_its_message(conformant: Json, changed: Change) -> None:
    (line,) = schema_errors(changed(conformant, "workload.precision", "x" * 100_000))
    assert len(line) < 200
    assert line.endswith("is not one of ['FP16', 'NF4', 'INT8']")


UNION = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"basis": {"const": "measured"}, "mj": {"minimum": 0}},
            "required": ["mj"],
        },
        {"type": "object", "properties": {"basis": {"enum": ["unavailable"]}}},
    ]
}


@pytest.mark.parametrize(
    ("results", "line"),
    [
        ({"basis": "measured", "mj": -3}, "results.mj: -3 is less than the minimum of 0"),
        ({"basis": "measured"}, "results: 'mj' is a required property"),
        (7, "results: 7 is not valid under any of the given schemas"),
    ],
)
def test_of_several_shapes_the_one_that_was_meant_is_explained(results: object, line: str) -> None:
    errors = Draft202012Validator({"properties": {"results": UNION}}).iter_errors(
        {"results": results}
    )
    assert error_lines(errors) == (line,)
