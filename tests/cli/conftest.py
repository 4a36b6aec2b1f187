from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ..device.conftest import libraries  # noqa: F401 (the stand-in for the driver's library)
from ..run.rig import install_model
from .rig import Scene

#: Three arms, two blocks, some milliseconds of sleep for each.
QUICK: dict[str, object] = {
    "name": "staged",
    "models": ["random:smollm2-135m"],
    "protocol": {
        "mode": "precise",
        "window_s": 0.01,
        "idle_s": 0.05,
        "warmup": {"min_passes": 1, "max_passes": 1},
    },
    "workloads": [{"output_tokens": 8}],
}


@pytest.fixture(scope="session")
def staged_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A models folder that passes every check, for a backend that loads nothing."""
    folder = tmp_path_factory.mktemp("models")
    install_model(folder)
    return folder


@pytest.fixture
def scene(tmp_path: Path, staged_models: Path) -> Scene:
    return Scene(tmp_path, staged_models, QUICK)


@pytest.fixture
def scene_of(tmp_path: Path, staged_models: Path) -> Callable[..., Scene]:
    """A scene whose plan has these keys too."""

    def make(**changes: object) -> Scene:
        return Scene(tmp_path, staged_models, QUICK | changes)

    return make
