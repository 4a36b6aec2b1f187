"""JSON Schemas of our documents, generated from the models.

``python -m ecocompute_cube.model.schema`` writes them; with ``--check`` it only says whether the
committed ones are the models' (status 1 when not).
"""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ecocompute_cube.model.bundle import BundleManifest
from ecocompute_cube.model.doctor import Diagnosis
from ecocompute_cube.model.energy import EnergyReport
from ecocompute_cube.model.files import write_whole
from ecocompute_cube.model.journal import Line
from ecocompute_cube.model.manifest import Manifest
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.model.report import ReportFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

Json: TypeAlias = Any

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

DOCUMENTS: Final[dict[str, type[BaseModel]]] = {
    "bundle": BundleManifest,
    "doctor": Diagnosis,
    "energy": EnergyReport,
    "journal-line": Line,
    "manifest": Manifest,
    "plan": Plan,
    "report": ReportFile,
}


def schema_text(model: type[BaseModel]) -> str:
    """One model's schema as it is committed. Written and read documents share one schema."""
    schema = {"$schema": _DIALECT, **model.model_json_schema(mode="validation")}
    for choice in _choices(schema):
        _require_tag(schema, choice)
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _choices(node: Json) -> Iterator[dict[str, Json]]:
    """Every place where a tag decides between records."""
    if isinstance(node, dict):
        if "discriminator" in node:
            yield node
        for inner in node.values():
            yield from _choices(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _choices(inner)


def _require_tag(schema: dict[str, Json], choice: dict[str, Json]) -> None:
    """A record that has its tag by default must still show it when read: the models insist."""
    tag = choice["discriminator"]["propertyName"]
    for reference in choice["oneOf"]:
        record = schema["$defs"][reference["$ref"].rpartition("/")[2]]
        if tag not in record.setdefault("required", []):
            record["required"].append(tag)


def schema_path(name: str) -> Path:
    """Where a document's schema lies in the package."""
    return Path(str(files("ecocompute_cube") / "schemas" / f"{name}.schema.json"))


def drifted() -> list[str]:
    """Documents whose committed schema is not the model's."""
    return [name for name, model in DOCUMENTS.items() if _committed(name) != schema_text(model)]


def _committed(name: str) -> str | None:
    path = schema_path(name)
    return path.read_text(encoding="utf-8") if path.exists() else None


def main(arguments: list[str]) -> int:
    """Write the schemas, or check them."""
    if arguments == ["--check"]:
        for name in drifted():
            sys.stderr.write(f"{name}.schema.json is not what the models say: run make schema\n")
        return 1 if drifted() else 0
    for name, model in DOCUMENTS.items():
        write_whole(schema_path(name), schema_text(model).encode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
