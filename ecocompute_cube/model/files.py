"""Writing whole files or none: beside, synced, renamed, and the new name synced."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.errors import output_error
from ecocompute_cube.model.base import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

_PART: Final = ".part"  # ends the name of a folder that is written in


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


def called(path: Path) -> str:
    """What a file or folder is called in a sentence, without its folders; ``.`` by its name."""
    return printable(path.absolute().name or str(path))


def sync_folder(folder: Path) -> None:
    """Force a folder's entries to disk, so that a new name survives a power cut.

    Raises OSError.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def part_folder(parent: Path, name: str) -> Iterator[Path]:
    """A hidden folder to write ``name`` in before it gets its place in ``parent``.

    It is taken away at the end; what a program left that was killed, by the next one. Raises
    OSError.
    """
    _sweep(parent, name)
    folder = Path(tempfile.mkdtemp(dir=parent, prefix=f".{name}.", suffix=_PART))
    held = _held(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _sweep(parent: Path, name: str) -> None:
    """Take away what nobody holds any more."""
    for left in parent.glob(f".{glob.escape(name)}.*{_PART}"):
        with contextlib.suppress(OSError):
            held = _held(left)
            shutil.rmtree(left, ignore_errors=True)
            os.close(held)


def _held(folder: Path) -> int:
    """Hold a folder until the descriptor is closed, or the process ends.

    Raises BlockingIOError when somebody else does.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
