"""The page's schema check says of a document what Python's jsonschema says."""

from __future__ import annotations

import copy
import importlib.resources
import json
import random
from typing import TYPE_CHECKING, Any, Final

from jsonschema import Draft202012Validator

from .conftest import ROOT, Look

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


def validator(version: str) -> Draft202012Validator:
    name = {"1": "energy-1.x.schema.json", "2": "energy.schema.json"}[version]
    file = importlib.resources.files("ecocompute_cube") / "schemas" / name
    return Draft202012Validator(json.loads(file.read_text(encoding="utf-8")))


def test_it_agrees_with_jsonschema_on_documents_and_their_mutations(
    look: Look, report: Path
) -> None:
    draw = random.Random(5)
    whole = list(documents())
    cases = [*whole, *((v, mutated(d, draw)) for v, d in whole for _ in range(_EACH))]
    validators = {version: validator(version) for version in ("1", "2")}
    expected = [validators[version].is_valid(case) for version, case in cases]
    assert {version for version, _ in whole} == {"1", "2"}
    assert 0.1 < sum(expected) / len(expected) < 0.9  # neither answer is the easy one
    page = look((report / "report.html").as_uri()).page
    found = page.evaluate(
        """text => {
            const cases = JSON.parse(text); // as a file is read: "__proto__" is a name like others
            const schemas = JSON.parse(document.getElementById("schemas").textContent);
            const fits = ([version, value]) => !schemaErrors(schemas[version], value).length;
            return cases.map(fits);
        }""",
        json.dumps(cases),
    )
    differing = [case for case, a, b in zip(cases, expected, found, strict=True) if a != b]
    assert differing == []
