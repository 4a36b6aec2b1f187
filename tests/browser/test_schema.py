"""The page's schema check says of a document what Python's jsonschema says."""

from __future__ import annotations

import copy
import importlib.resources
import json
import random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jsonschema import Draft202012Validator

from ecocompute_cube.report.page_schemas import RULES

from .conftest import ROOT, Look

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Json: TypeAlias = Any

_PUBLISHED: Final = ROOT / "tests/fixtures/published/mlcube"
_EACH: Final = 150  # mutations of a document
_ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**12,
    "",
    "FP16",
    "ecocompute-energy/2.0",
    "a" * 64,
    [],
    [1],
    {},
    {"reason": "gone"},
)


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Of each major version."""
    runs = ROOT / "data/h200/runs"
    for path in sorted(runs.glob("*/arms/*/energy.json"))[::3]:
        yield "2", json.loads(path.read_text())
    for path in sorted(_PUBLISHED.rglob("*.json")):
        found = json.loads(path.read_text())
        if str(found.get("schema_version", "")).startswith("ecocompute-energy/1"):
            yield "1", found


def mutated(document: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """With one place of it gone, replaced, or joined by a stranger."""
    changed = copy.deepcopy(document)
    inner: Any = changed
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        if not keys:
            break
        key = draw.choice(keys)
        if isinstance(inner[key], dict | list) and inner[key] and draw.random() < 0.8:
            inner = inner[key]
            continue
        how = draw.choice(["drop", "odd", "negate"])
        if how == "drop":
            del inner[key]
        elif how == "negate" and isinstance(inner[key], int | float):
            inner[key] = -inner[key]
        else:
            inner[key] = draw.choice(_ODD)
        break
    if isinstance(inner, dict) and draw.random() < 0.1:
        inner[draw.choice(["stranger", "constructor", "__proto__"])] = draw.choice(_ODD)
    return changed


def nearby(value: Json) -> list[Any]:
    """Of the same kind, and beside what is right: below and above, shorter and longer."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int | float):
        return [-1, 0, 0.5, 1.5, 1e9]
    if isinstance(value, str):
        return ["", f"{value}\u00e9"]
    if isinstance(value, list):
        return [[], value[:1], value * 2]
    return [{}, {**value, "stranger": 1}]


def beside(document: dict[str, Any], seen: set[tuple[str, ...]]) -> Iterator[dict[str, Any]]:
    """The document with one place changed to something nearby, for each place not yet seen."""
    for place in [*places(document)]:
        kind = tuple("*" if isinstance(key, int) else key for key in place)
        if kind in seen:
            continue
        seen.add(kind)
        for value in nearby(at(document, place)):
            changed = copy.deepcopy(document)
            at(changed, place[:-1])[place[-1]] = value
            yield changed


def places(value: Json, here: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        yield (*here, key)
        if isinstance(each, dict | list):
            yield from places(each, (*here, key))


def at(document: Json, place: tuple[str | int, ...]) -> Json:
    for key in place:
        document = document[key]
    return document


def validator(version: str) -> Draft202012Validator:
    name = {"1": "energy-1.x.schema.json", "2": "energy.schema.json"}[version]
    file = importlib.resources.files("ecocompute_cube") / "schemas" / name
    return Draft202012Validator(json.loads(file.read_text(encoding="utf-8")))


#: Of each case, whether it fits; of each keyword, whether a page without it would say otherwise.
_TOLD: Final = """([text, expected]) => {
    const cases = JSON.parse(text); // as a file is read: "__proto__" is a name like others
    const schemas = JSON.parse(document.getElementById("schemas").textContent);
    const fits = (all) => ([version, value]) => !schemaErrors(all[version], value).length;
    const found = cases.map(fits(schemas));
    const named = new Set(["$defs", "properties"]);
    const less = (schema, keyword) => {
        if (Array.isArray(schema)) return schema.map((each) => less(each, keyword));
        if (typeof schema !== "object" || schema === null) return schema;
        const parts = Object.entries(schema).filter(([name]) => name !== keyword);
        return Object.fromEntries(parts.map(([name, part]) => [name, named.has(name)
            ? Object.fromEntries(Object.entries(part).map(([a, b]) => [a, less(b, keyword)]))
            : less(part, keyword)]));
    };
    const unfelt = (keyword) => {
        const fitsLess = fits(less(schemas, keyword));
        return !cases.some((each, at) => fitsLess(each) !== expected[at]);
    };
    return [found, KEYWORDS.filter(unfelt)];
}"""


def test_it_agrees_with_jsonschema_on_documents_and_what_is_almost_right(
    look: Look, report: Path
) -> None:
    """And every keyword decides some case: a page that forgot one would differ."""
    draw = random.Random(5)
    whole = list(documents())
    seen: dict[str, set[tuple[str, ...]]] = {"1": set(), "2": set()}
    cases = [
        *whole,
        *((v, mutated(d, draw)) for v, d in whole for _ in range(_EACH)),
        *((v, changed) for v, d in whole for changed in beside(d, seen[v])),
    ]
    validators = {version: validator(version) for version in ("1", "2")}
    expected = [validators[version].is_valid(case) for version, case in cases]
    assert {version for version, _ in whole} == {"1", "2"}
    assert 0.1 < sum(expected) / len(expected) < 0.9  # neither answer is the easy one
    page = look((report / "report.html").as_uri()).page
    keywords = json.dumps(sorted(RULES))
    found, unfelt = page.evaluate(
        _TOLD.replace("KEYWORDS", keywords), [json.dumps(cases), expected]
    )
    differing = [case for case, a, b in zip(cases, expected, found, strict=True) if a != b]
    assert differing == []
    assert unfelt == []


_SENTENCES: Final = """([version, text]) => {
    const schemas = JSON.parse(document.getElementById("schemas").textContent);
    return schemaErrors(schemas[version], JSON.parse(text));
}"""


def test_a_number_beyond_what_numbers_hold_is_none(look: Look, report: Path) -> None:
    _, whole = next(documents())
    page = look((report / "report.html").as_uri()).page
    text = json.dumps(whole)
    assert page.evaluate(_SENTENCES, ["2", text]) == []
    size = json.dumps(whole["workload"]["params_b"])
    odd = text.replace(f'"params_b": {size}', '"params_b": 1e999')
    assert odd != text
    told = page.evaluate(_SENTENCES, ["2", odd])
    assert told and all(line.startswith("workload.params_b: ") for line in told)


def test_a_list_of_a_million_faults_is_told_like_a_short_one(look: Look, report: Path) -> None:
    _, whole = next(documents())
    page = look((report / "report.html").as_uri()).page
    text = json.dumps({**whole, "findings": [1] * 1_000_000})
    told = page.evaluate(_SENTENCES, ["2", text])
    assert told[0].startswith("findings.0: is no object") and 1000 <= len(told) < 1100


def test_of_several_forms_the_one_of_the_values_kind_speaks(look: Look, report: Path) -> None:
    page = look((report / "report.html").as_uri()).page
    form = {"type": "object", "required": ["low", "high"]}
    told = page.evaluate(
        "([schema, values]) => values.map((each) => schemaErrors(schema, each))",
        [{"anyOf": [{"type": "null"}, form, {"type": "string", "minLength": 1}]}, [{}, 5, ""]],
    )
    assert told == [
        ["low: is missing", "high: is missing"],
        ["document: is no null and is no object and is no string"],
        ["document: is too short"],
    ]
