"""Writing whole files or none: beside, synced, renamed, and the new name synced."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from ecocompute_cube.errors import output_error


def write_whole(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path`` so that a reader sees the old file or the new one, never a part.

    Raises DiskFull or OutputError; the old file is then untouched, unless the folder alone could
    not be forced to disk, and nothing is left behind.
    """
    temporary: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException as error:  # Ctrl-C too must leave nothing behind
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()
        if isinstance(error, OSError):
            raise output_error(error, f"write {path.name}") from error
        raise


def sync_folder(folder: Path) -> None:
    """Force a folder's entries to disk, so that a new name survives a power cut.

    Raises OSError.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
