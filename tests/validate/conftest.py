from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecocompute_cube.analysis.documents import schema_errors

PUBLISHED = Path(__file__).parents[1] / "fixtures" / "published" / "mlcube" / "fixtures"

Json = dict[str, Any]
Change = Callable[[Json, str, object], Json]


@pytest.fixture(scope="session")
def published() -> Path:
    return PUBLISHED


@pytest.fixture
def conformant() -> Json:
    """The published document that its own checker calls dataset-eligible."""
    document: Json = json.loads((PUBLISHED / "conformant-v1.1.json").read_text())
    return document


@pytest.fixture
def ours(conformant: Json) -> Json:
    """The same measurement as our own version would put it, two blocks of it."""
    document = copy.deepcopy(conformant)
    document["schema_version"] = "ecocompute-energy/2.0"
    document["measurement"]["method"] = "NVML on-board energy counter, total energy since boot"
    document["measurement"] |= {"mode": "protocol-v1.1", "blocks": 2, "sessions": 1}
    document["workload"] |= {"runtime": "eager", "weights": "original"}
    document["results"] |= {"total_energy_joules": 18153.698, "tokens_generated": 5120}
    document["results"]["throughput_tokens_per_s"] = 27.1
    document["certificate"] = {"settings": {}}
    return document


@pytest.fixture
def changed() -> Change:
    """A copy with the value at a dotted place changed, or taken away by ``...``."""

    def change(document: Json, place: str, value: object) -> Json:
        copied = copy.deepcopy(document)
        *parents, last = place.split(".")
        inner = copied
        for key in parents:
            inner = inner[key]
        if value is ...:
            del inner[last]
        else:
            inner[last] = value
        return copied

    return change


@pytest.fixture
def no_schema() -> Callable[[Json], tuple[str, ...]]:
    """Stands in for the schema of our own version, so that a clause is tested by itself."""

    def check(document: Json) -> tuple[str, ...]:
        return schema_errors(document) if "/1." in document["schema_version"] else ()

    return check
