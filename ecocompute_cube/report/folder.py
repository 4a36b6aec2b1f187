"""A folder of pages: every file of one report (or site), or a note that says that it is not so.

No file system renames several files at once: a program that is killed between two names leaves
pages of both reports. The last file is gone before the first rename and comes after the last, so
that whoever finds it finds one report; until then ``UNFINISHED.txt`` says what the folder holds.

    write all beside ▸ UNFINISHED.txt ▸ the old last file goes ▸ names ▸ the last ▸ the note goes
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from ecocompute_cube.errors import output_error
from ecocompute_cube.model.files import part_folder, sync_folder, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

UNFINISHED: Final = "UNFINISHED.txt"
_NOTE: Final = (
    "A {what} was stopped while its files got their names: the pages here may be of two {what}s.\n"
    "Make it again: ecocompute {what}. This note then goes.\n"
)


def put_together(
    folder: Path, files: Mapping[str, bytes], gone: Iterable[str], what: str = "report"
) -> None:
    """Write every file beside its place before the first gets its name; ``gone`` is removed.

    The last of ``files`` speaks for the others; ``what`` is the command that makes them. Raises
    DiskFull or OutputError.
    """
    doing = f"make the folder '{folder.name}'"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with part_folder(folder, what) as part:
            for name, content in files.items():
                doing = f"write {name}"
                _write(part, folder, name, content)
            doing = f"replace the old {what}"
            write_whole(part / UNFINISHED, _NOTE.format(what=what).encode())
            _rename(part, folder, list(files), gone)
    except OSError as error:
        raise output_error(error, doing) from error


def _write(part: Path, folder: Path, name: str, content: bytes) -> None:
    for place in (part, folder):
        (place / name).parent.mkdir(exist_ok=True)
    write_whole(part / name, content)
    if (folder / name).is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))


def _rename(part: Path, folder: Path, names: Sequence[str], gone: Iterable[str]) -> None:
    *pages, last = names
    (part / UNFINISHED).replace(folder / UNFINISHED)
    (folder / last).unlink(missing_ok=True)
    sync_folder(folder)
    for name in pages:
        (part / name).replace(folder / name)
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    for kept in {(folder / name).parent for name in names}:
        sync_folder(kept)
    (part / last).replace(folder / last)
    sync_folder(folder)
    (folder / UNFINISHED).unlink()
    sync_folder(folder)
