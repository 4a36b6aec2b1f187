from __future__ import annotations

from pathlib import Path

import pytest

from .rig import ONE_BLOCK, THREE_BLOCKS, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """One recorded run: three arms, one block."""
    return Desk(tmp_path, ONE_BLOCK)


@pytest.fixture
def two_runs(tmp_path: Path) -> Desk:
    """Two recorded runs, one of them with random weights."""
    return Desk(tmp_path, ONE_BLOCK, THREE_BLOCKS)


@pytest.fixture
def bundled(desk: Desk) -> Desk:
    """The same, bundled."""
    desk.bundle()
    return desk
