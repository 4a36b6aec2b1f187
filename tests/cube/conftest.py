"""The real ``mlcube``, or why there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .engine import ROOT, missing


@pytest.fixture(scope="session")
def mlcube() -> Path:
    """The mlcube command in its own environment; ECO_MLCUBE names another one."""
    named = os.environ.get("ECO_MLCUBE")
    path = Path(named) if named else ROOT / ".venv-mlcube" / "bin" / "mlcube"
    if not os.access(path, os.X_OK):
        missing(f"There is no mlcube command at {path}: make mlcube.")
    return path
