"""One file at two places: hard links, which cost nothing, and what is done where there are none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ecocompute_cube.download.progress import Say, size


def can_link(source: Path, folder: Path) -> bool:
    """Whether a file can be hard-linked there: tried, for two mounts of one disk look alike."""
    trial = folder / ".trial"
    trial.unlink(missing_ok=True)
    try:
        os.link(source.resolve(), trial)
    except OSError:
        return False
    trial.unlink()
    return True


def link_or_copy(
    source: Path, target: Path, say: Say, link: Callable[[Path, Path], None] = os.link
) -> None:
    """Put a file at ``target`` that outlives ``source``, at no cost where that can be.

    Raises OSError.
    """
    whole = source.resolve()  # a hub cache holds links into its blobs
    try:
        link(whole, target)
    except OSError:  # another file system, or one without hard links
        say(f"copying {target.name} ({size(bytes_at(whole))})")
        shutil.copyfile(whole, target)


def link_or_move(source: Path, target: Path) -> None:
    """Link, so that a run that is stopped before the end finds the file again; or move.

    Raises OSError.
    """
    try:
        os.link(source, target)
    except OSError:
        source.rename(target)


def bytes_at(path: Path) -> int:
    """Size of a file; 0 where there is none that can be read."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
