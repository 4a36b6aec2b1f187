from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest

#: For every process that a test starts: under a limit of file size, as the tests of a full disk
#: set one, Python writes half a .pyc and fails on it ever after.
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

# A test run that a script put in the background ignores Ctrl-C, and so would every process that
# the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def small_heap() -> Iterator[None]:
    """Every window collects garbage first: let it not look through pytest and torch each time."""
    gc.freeze()
    yield
    gc.unfreeze()
