"""The published schemas say what the models say: outsiders may check our documents without us."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from pydantic import BaseModel, ValidationError

from ecocompute_cube.archive.about import Wishes
from ecocompute_cube.archive.bundle import Request, bundle
from ecocompute_cube.doctor import Machine, examine
from ecocompute_cube.errors import EcoError
from ecocompute_cube.model import claims, energy, report
from ecocompute_cube.model.base import Absent, Record
from ecocompute_cube.model.bundle import Creator
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.model.readings import EARLY
from ecocompute_cube.model.schema import DOCUMENTS, drifted, schema_path
from ecocompute_cube.report.write import write_energy, write_report

from ..run.rig import Scene, plan
from ..run.two_boards import TwoBoards

Json = Any
calm = settings(deadline=None, max_examples=150)

QUICK = {
    "workloads": [{"output_tokens": 64}],
    "protocol": {"mode": "precise", "iterations": 1, "blocks": 2},
    "arms": ["FP16", "NF4"],
}


class Kind(NamedTuple):
    """A document's two definitions and real examples of it."""

    model: type[BaseModel]
    schema: Validator
    examples: list[Json]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kind]:
    folder = tmp_path_factory.mktemp("scene")
    scene = Scene(folder)
    run = scene.measure(plan(**QUICK))
    write_energy(run)
    rehearsal = Scene(folder).measure(plan(**QUICK), rehearse=True)
    write_energy(rehearsal)
    split = TwoBoards(folder / "two").measure(plan(**QUICK, boards=2))
    write_energy(split)
    write_report(scene.output, folder / "report", scene.lines.append)
    journal = [*_lines(run), *_lines(rehearsal), *_lines(split)]
    found = {
        "energy": [json.loads(p.read_text()) for p in folder.rglob("energy.json")],
        "journal-line": journal,
        "manifest": journal[0]["record"]["models"],
        "plan": [journal[0]["record"]["plan"], {"name": "p"}],
        "report": [json.loads((folder / "report" / "report.json").read_text())],
        "doctor": [_diagnosis(folder / "nothing")],
        "bundle": [_manifest(scene.output, folder)],
    }
    return {name: Kind(DOCUMENTS[name], _schema(name), each) for name, each in found.items()}


def _diagnosis(root: Path) -> Json:
    """Of a machine that has nothing."""
    found = examine(Machine({}, {}, root), Absent(reason="no plan was named"), root)
    return json.loads(found.model_dump_json())


def _manifest(results: Path, folder: Path) -> Json:
    """Of a bundle of both runs."""
    creators = (Creator(name="Doe, Jane", orcid="0000-0002-1825-0097"),)
    request = Request(
        results, folder / "bundle", folder / "report", wishes=Wishes(creators=creators)
    )
    bundle(request, lambda _: None)
    document: Json = json.loads((folder / "bundle" / "manifest.json").read_text())
    return document


def _lines(run: Path) -> list[Json]:
    return [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]


def _schema(name: str) -> Validator:
    return Draft202012Validator(json.loads(schema_path(name).read_text()))


# Where the two may differ: the one place


def tolerated(value: Json) -> Json:
    """The document as both sides see it alike.

    JSON Schema, as Python's jsonschema reads it, is laxer than the models in three ways, none of
    which a writer of ours can produce:

    * 512.0 is an integer to it; the models want 512;
    * a number beyond a double's range is a number to it; the models refuse infinity;
    * ``$`` in a pattern allows a newline at the end, which ECMA-262, the standard's own dialect,
      does not.
    """
    if isinstance(value, float) and (value.is_integer() or not math.isfinite(value)):
        return None
    if isinstance(value, int) and abs(value) > 2**53:
        return None
    if isinstance(value, str):
        return value.rstrip("\n")
    if isinstance(value, list):
        return [tolerated(inner) for inner in value]
    if isinstance(value, dict):
        return {key: tolerated(inner) for key, inner in value.items()}
    return value


def crosses_fields(model: type[BaseModel], document: Json) -> bool:
    """Whether the models refuse it for how fields go together, which no schema can say."""
    try:
        model.model_validate_json(json.dumps(document))
    except ValidationError as error:
        return any(detail["type"] == "value_error" for detail in error.errors())
    except EcoError:  # an architecture that does not exist
        return True
    return False


def accepted(model: type[BaseModel], document: Json) -> bool:
    try:
        model.model_validate_json(json.dumps(document))
    except (ValidationError, EcoError):
        return False
    return True


def assert_agreement(kind: Kind, document: Json) -> None:
    if crosses_fields(kind.model, document):
        return
    errors = [error.message[:200] for error in kind.schema.iter_errors(document)]
    assert accepted(kind.model, document) == (not errors), errors


# Mutations


def places(value: Json, here: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if here:
        yield here
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in inner:
        yield from places(each, (*here, key))


LEAVES = st.sampled_from(
    [
        None,
        True,
        0,
        1,
        -1,
        2,
        0.5,
        -0.5,
        10**6,
        "",
        "x",
        "NaN",
        "0" * 64,
        "0" * 63,
        "2026-01-02T03:04:05Z",
        "FP16",
        "measured",
        "unavailable",
        [],
        {},
        {"reason": "gone"},
        {"reason": ""},
        {"reason": "gone", "value": 0},
        ["x"],
        [1],
        [0.5, 0.5],
        [0.5, 0.5, 0.5],
    ]
)


def mutate(data: st.DataObject, document: Json) -> Json:
    changed = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 2), label="changes")):
        found = list(places(changed))
        if not found:
            break
        *way, last = data.draw(st.sampled_from(found), label="place")
        block = changed
        for key in way:
            block = block[key]
        how = data.draw(st.sampled_from(["drop", "add", "replace", "replace"]), label="how")
        if how == "drop":
            del block[last]
        elif how == "replace":
            block[last] = copy.deepcopy(data.draw(LEAVES, label="value"))
        elif isinstance(block, dict):
            block["extra"] = copy.deepcopy(data.draw(LEAVES, label="value"))
        else:
            block.append(copy.deepcopy(data.draw(LEAVES, label="value")))
    return changed


@pytest.mark.parametrize("name", DOCUMENTS)
def test_both_accept_what_we_write(name: str, kinds: dict[str, Kind]) -> None:
    kind = kinds[name]
    for document in kind.examples:
        kind.schema.validate(document)
        kind.model.model_validate_json(json.dumps(document))


@pytest.mark.parametrize("name", DOCUMENTS)
@calm
@given(data=st.data())
def test_model_and_schema_agree_about_any_changed_document(
    name: str, data: st.DataObject, kinds: dict[str, Kind]
) -> None:
    kind = kinds[name]
    document = data.draw(st.sampled_from(kind.examples), label="document")
    assert_agreement(kind, tolerated(mutate(data, document)))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_model_and_schema_agree_about_every_key_that_is_missing_or_null(
    name: str, kinds: dict[str, Kind]
) -> None:
    kind = kinds[name]
    seen: set[tuple[str, ...]] = set()
    for document in kind.examples:
        kind_of = str(document.get("record", {}).get("kind", ""))
        for place in places(document):
            shape = (kind_of, *(str(key) for key in place if isinstance(key, str)))
            if shape in seen:
                continue
            seen.add(shape)
            for drop in (True, False):
                changed = copy.deepcopy(document)
                block = changed
                for key in place[:-1]:
                    block = block[key]
                if drop:
                    del block[place[-1]]
                else:
                    block[place[-1]] = None
                assert_agreement(kind, tolerated(changed))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("name", ["energy", "journal-line", "report"])
def test_no_number_is_not_a_number(name: str, text: str, kinds: dict[str, Kind]) -> None:
    """Python's own json reads them; the models do not, whatever the field."""
    refused = 0
    for document in kinds[name].examples:
        written = json.dumps(document)
        for match in list(re.finditer(r"(?<=: )-?\d+\.\d+(?=[,}])", written))[:20]:
            changed = written[: match.start()] + text + written[match.end() :]
            with pytest.raises(ValidationError):
                kinds[name].model.model_validate_json(changed)
            refused += 1
    assert refused


# The tolerated differences, each as it is


def test_an_integral_float_is_an_integer_to_the_schema_alone(kinds: dict[str, Kind]) -> None:
    kind = kinds["plan"]
    document: Json = {"name": "p", "protocol": {"blocks": 512.0}}
    assert kind.schema.is_valid(document) and not accepted(kind.model, document)


def test_a_newline_after_a_hash_passes_the_schema_alone(kinds: dict[str, Kind]) -> None:
    kind = kinds["journal-line"]
    document = {**kind.examples[0], "prev": "0" * 64 + "\n"}
    assert kind.schema.is_valid(document) and not accepted(kind.model, document)


def test_how_fields_go_together_is_for_the_model_alone(kinds: dict[str, Kind]) -> None:
    kind = kinds["plan"]
    documents: list[Json] = [
        {"name": "p", "workloads": [{"batch": 2}]},
        {"name": "p", "arms": ["FP16", "FP16"]},
        {"name": "p", "arms": ["NF5"]},
        {"name": "p", "protocol": {"warmup": {"min_passes": 99}}},
        {"name": "p", "models": ["random:none"]},
    ]
    for document in documents:
        assert kind.schema.is_valid(document) and not accepted(kind.model, document)


# Rules about the models themselves


def test_the_committed_schemas_are_the_models() -> None:
    assert drifted() == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_is_a_schema_and_closes_every_object(name: str) -> None:
    schema = json.loads(schema_path(name).read_text())
    Draft202012Validator.check_schema(schema)
    for each in (schema, *schema["$defs"].values()):
        if each.get("type") == "object":
            assert each["additionalProperties"] is False


def records(module: object) -> list[type[Record]]:
    found = [value for value in vars(module).values() if isinstance(value, type)]
    return [each for each in found if issubclass(each, Record) and each is not Record]


@pytest.mark.parametrize("module", [energy, report, claims])
def test_report_models_have_no_defaults_and_compute_nothing(module: object) -> None:
    own = [each for each in records(module) if not issubclass(each, Plan)]
    used = {each for each in own if each.__module__.endswith((".energy", ".report", ".claims"))}
    assert used
    for each in used:
        free = {name: f.default for name, f in each.model_fields.items() if not f.is_required()}
        assert all(default == EARLY for default in free.values()), free  # of older documents
        assert not each.model_computed_fields


@pytest.mark.parametrize("model", [m for m in DOCUMENTS.values() if m is not Plan])
def test_every_record_is_strict_frozen_closed_and_finite(model: type[BaseModel]) -> None:
    for each in _within(model, set()):
        config = each.model_config
        assert config["strict"] and config["frozen"] and config["extra"] == "forbid"
        assert config["allow_inf_nan"] is False


def _within(model: type[BaseModel], seen: set[type[BaseModel]]) -> set[type[BaseModel]]:
    if model in seen:
        return seen
    seen.add(model)
    for field in model.model_fields.values():
        for part in _types(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel):
                _within(part, seen)
    return seen


def _types(annotation: object) -> Iterator[object]:
    yield annotation
    for inner in get_args(annotation):
        yield from _types(inner)
