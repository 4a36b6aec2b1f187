"""Putting the site on disk: all of its files, or the old ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ecocompute_cube import __version__
from ecocompute_cube.errors import OutputError, UsageError
from ecocompute_cube.model.files import called
from ecocompute_cube.report.folder import UNFINISHED, put_together
from ecocompute_cube.site.build import site_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Written last: who finds it finds every page that it lists.
MANIFEST: Final = "site.json"


def write_site(folder: Path, paths: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Write every page and file; their names. The same version gives the same bytes.

    ``paths`` of the server that will show it are listed on its API page. Raises UsageError when
    the folder holds anything else, DiskFull or OutputError.
    """
    _refuse_others(folder)
    files = site_files(paths)
    listed = {"format": "ecocompute-site/1", "version": __version__, "files": sorted(files)}
    files[MANIFEST] = (json.dumps(listed, indent=1) + "\n").encode()
    try:
        put_together(folder, files, (), "site")
    except OutputError as error:
        fix = "Choose a folder with room that you can write to with --out."
        raise type(error)(error.cause, fix) from error
    return tuple(files)


def _refuse_others(folder: Path) -> None:
    ours = any((folder / name).is_file() for name in (MANIFEST, UNFINISHED))
    if folder.is_dir() and not ours and any(folder.iterdir()):
        raise UsageError(
            f"'{called(folder)}' holds files that are no site of ours.",
            "Name an empty folder, or a new one, with --out.",
        )
