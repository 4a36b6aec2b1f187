"""A report's folder: every file of one report, or none of it."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from ecocompute_cube.errors import output_error
from ecocompute_cube.model.files import part_folder, sync_folder, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def put_together(folder: Path, files: Mapping[str, bytes], gone: Iterable[str]) -> None:
    """Write every file beside its place before the first gets its name: all of them or none.

    The last of ``files`` speaks for the others: an earlier one is taken away before the first gets
    its name, so that whoever finds it finds one report, also after a kill in between. What is
    ``gone`` is removed. Raises DiskFull or OutputError.
    """
    doing = f"make the folder '{folder.name}'"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with part_folder(folder, "report") as part:
            for name, content in files.items():
                doing = f"write {name}"
                _write(part, folder, name, content)
            (folder / next(reversed(list(files)))).unlink(missing_ok=True)
            for name in files:
                (part / name).replace(folder / name)
        for name in gone:
            doing = f"remove {name}"
            (folder / name).unlink(missing_ok=True)
        for kept in {(folder / name).parent for name in files}:
            sync_folder(kept)
    except OSError as error:
        raise output_error(error, doing) from error


def _write(part: Path, folder: Path, name: str, content: bytes) -> None:
    for place in (part, folder):
        (place / name).parent.mkdir(exist_ok=True)
    write_whole(part / name, content)
    if (folder / name).is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
