"""Where the journals below a results folder are, and what hides others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ecocompute_cube.model.journal_file import JOURNAL_NAME


class Found(NamedTuple):
    """Everything called a journal, whatever it is, and folders that were not looked into."""

    journals: tuple[Path, ...]
    unseen: tuple[str, ...]  #: a sentence each


def journals_below(results: Path) -> Found:
    """In order. Links to folders are not followed (they may lead back): one with a journal is told.

    A link that leads nowhere counts as a journal too: reading it says what is wrong.
    """
    journals: list[Path] = []
    unseen: list[str] = []

    def refused(error: OSError) -> None:
        unseen.append(f"{Path(error.filename).name}: {error.strerror}")

    for name, folders, files in os.walk(results, onerror=refused):
        here = Path(name)
        if JOURNAL_NAME in {*folders, *files}:
            journals.append(here / JOURNAL_NAME)
        unseen += [
            f"{folder}: a link to a folder, and none is followed; copy the run to here"
            for folder in sorted(folders)
            if (here / folder).is_symlink() and (here / folder / JOURNAL_NAME).exists()
        ]
    return Found(tuple(sorted(journals)), tuple(unseen))
