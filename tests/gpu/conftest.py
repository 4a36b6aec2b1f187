"""The board these tests run on, or why they do not."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import pytest

from ecocompute_cube.device.nvml import choose_board
from ecocompute_cube.errors import EcoError

ROOT = Path(__file__).parent.parent.parent


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """No workers: two tests at once would measure each other."""
    return 0


@pytest.fixture(scope="session")
def uuid() -> str:
    """The board that a measurement here would use."""
    try:
        chosen = choose_board()
    except EcoError as error:
        pytest.skip(f"no board to measure: {error.cause}")
    chosen.claim.close()  # or every measurement that a test starts would be refused
    return chosen.uuid


@pytest.fixture(scope="session")
def cuda(uuid: str) -> dict[str, str]:
    """The environment of a process whose torch sees this board alone."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("torch is not installed")
    if version.endswith("+cpu"):
        pytest.skip(f"torch {version} is a CPU build")
    return {**os.environ, "CUDA_VISIBLE_DEVICES": uuid}
