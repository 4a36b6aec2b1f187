"""JSON Schemas of our documents, generated from the models.

``python -m ecocompute_cube.model.schema`` writes them; with ``--check`` it only says whether the
committed ones are the models' (status 1 when not).
"""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.energy import EnergyReport
from ecocompute_cube.model.files import write_whole
from ecocompute_cube.model.journal import Line
from ecocompute_cube.model.manifest import Manifest
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.model.report import ReportFile

if TYPE_CHECKING:
    from pydantic import BaseModel

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

DOCUMENTS: Final[dict[str, type[BaseModel]]] = {
    "energy": EnergyReport,
    "journal-line": Line,
    "manifest": Manifest,
    "plan": Plan,
    "report": ReportFile,
}


def schema_text(model: type[BaseModel]) -> str:
    """One model's schema as it is committed. Written and read documents share one schema."""
    schema = {"$schema": _DIALECT, **model.model_json_schema(mode="validation")}
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


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
            sys.stderr.write(f"{name}.schema.json is not what the models say: run make schemas\n")
        return 1 if drifted() else 0
    for name, model in DOCUMENTS.items():
        write_whole(schema_path(name), schema_text(model).encode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
