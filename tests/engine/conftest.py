from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> Iterator[None]:
    """A window begins with a collection of garbage: not over all that the tests have imported."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
