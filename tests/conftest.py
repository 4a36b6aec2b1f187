from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def small_heap() -> Iterator[None]:
    """Every window collects garbage first: let it not look through pytest and torch each time."""
    gc.freeze()
    yield
    gc.unfreeze()
