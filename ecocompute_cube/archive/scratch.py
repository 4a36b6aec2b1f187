"""A folder for what is needed for a while, and what to say when its disk is full."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.errors import NO_ROOM, DiskFull

if TYPE_CHECKING:
    from collections.abc import Iterator

ELSEWHERE: Final = "Free some space, or have TMPDIR name a folder on a larger disk."


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder. To be used for nothing but filling it: raises DiskFull about it."""
    try:
        with tempfile.TemporaryDirectory(prefix="ecocompute-") as name:
            yield Path(name)
    except DiskFull as error:
        raise DiskFull(error.cause, ELSEWHERE) from error
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        cause = f"No room left in the temporary folder ({error.strerror})."
        raise DiskFull(cause, ELSEWHERE) from error
