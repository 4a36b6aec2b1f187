"""Run folders below an output folder: a new one, or the unfinished one of the same plan."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.errors import DiskFull, JournalBroken, OutputBusy, OutputError, output_error
from ecocompute_cube.model.files import sync_folder
from ecocompute_cube.model.journal import RunClosed, RunOpened
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal
from ecocompute_cube.model.plan import slug
from ecocompute_cube.units import gib

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ecocompute_cube.model.journal import Fact
    from ecocompute_cube.model.plan import Plan

_LEAST_FREE: Final = 64 * 2**20  # room for a day of traces at 20 Hz, compressed


class FolderLock:
    """Holds a folder for one process; the system lets go when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".lock"
        self._descriptor = -1

    def __enter__(self) -> FolderLock:
        """Raises OutputBusy when another process holds the folder."""
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise output_error(error, f"write to the folder '{self._path.parent.name}'") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            if not isinstance(error, BlockingIOError):
                raise output_error(error, f"lock the folder '{self._path.parent.name}'") from error
            raise OutputBusy(
                f"Another run is writing to '{self._path.parent.name}'.",
                "Wait for it, or choose another folder with --output_dir.",
            ) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)


def prepare_output(folder: Path) -> None:
    """Make the output folder and see that it can take results.

    Raises OutputError when it cannot be written, DiskFull below 64 MiB of room.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise OutputError(
            f"'{folder.name}' is a file, not a folder.", "Choose a folder with --output_dir."
        ) from None
    except OSError as error:
        raise output_error(error, f"make the folder '{folder.name}'") from error
    free = shutil.disk_usage(folder).free
    if free < _LEAST_FREE:
        raise DiskFull(
            f"Only {gib(free):.2f} GiB are free for results, {gib(_LEAST_FREE):.2f} are needed.",
            "Free some space, or choose another folder with --output_dir.",
        )


def unfinished_run(
    output: Path,
    wanted: Callable[[RunOpened, tuple[Fact, ...]], bool],
    whole: Callable[[Path, Plan], bool] = lambda folder, plan: True,
) -> Path | None:
    """The latest run folder that ``wanted`` accepts, unless it came to its end and is ``whole``.

    A run that was stopped after its last block, in a profile say, still owes its end.
    """
    for journal in sorted(output.glob(f"*/{JOURNAL_NAME}"), reverse=True):
        try:
            facts = read_journal(journal).records
        except (JournalBroken, OSError):
            continue  # someone else's file, or damaged: `report` and `validate` name it
        opened = facts[0]
        if isinstance(opened, RunOpened) and wanted(opened, facts):
            folder, plan = journal.parent, opened.plan
            return None if _closed(facts) and whole(folder, plan) else folder
    return None


def _closed(facts: tuple[Fact, ...]) -> bool:
    """Whether a run did what comes after its last block too."""
    return isinstance(facts[-1], RunClosed) and facts[-1].reason == "finished"


def new_run(output: Path, name: str, utc: str) -> Path:
    """A fresh run folder named by time and plan; an earlier one is never touched."""
    stamp = utc.replace("-", "").replace(":", "").split(".")[0].rstrip("Z")
    for number in range(100):
        suffix = f"-{number}" if number else ""
        folder = output / f"{stamp}Z-{slug(name)}{suffix}"
        try:
            folder.mkdir()
            sync_folder(output)
        except FileExistsError:
            continue
        except OSError as error:
            raise output_error(error, f"make the run folder '{folder.name}'") from error
        return folder
    raise OutputError("A hundred runs started in this second.", "Wait a second and try again.")
