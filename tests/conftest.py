from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest

#: For every process that a test starts: under a limit of file size, as the tests of a full disk
#: set one, Python writes half a .pyc and fails on it ever after.
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

# A test that makes a machine says itself whether it is a container: these would say so for it.
for name in ("container", "KUBERNETES_SERVICE_HOST", "ECO_IMAGE"):
    os.environ.pop(name, None)

# A test run that a script put in the background ignores Ctrl-C, and one under nohup a closed
# terminal; and so would every process that the tests start and stop.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="module")
def small_heap() -> Iterator[None]:
    """Every window collects garbage first: let it not look through pytest and torch each time."""
    gc.freeze()
    yield
    gc.unfreeze()
