"""The fuzzer loads when it is asked for: ``-m fuzz``, or ``make test-fuzz``."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Nothing here without it; ECO_REQUIRE_FUZZ makes its absence an error."""
    if config.getoption("markexpr") != "fuzz":
        return True
    if importlib.util.find_spec("schemathesis") is None:
        if os.environ.get("ECO_REQUIRE_FUZZ"):
            pytest.exit("schemathesis is not installed: make test-fuzz", returncode=1)
        return True
    return None
