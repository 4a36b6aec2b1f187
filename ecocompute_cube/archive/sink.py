"""Where a bundle is written: folder or zip file, beside its place, hashed once, then renamed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from ecocompute_cube.archive.words import one_line
from ecocompute_cube.errors import DocumentInvalid, OutputError, UsageError, output_error
from ecocompute_cube.model.bundle import SAFE_PATH, BundledFile
from ecocompute_cube.model.files import called, part_folder, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_PIECE: Final = 2**20
_OLDEST: Final = "1980-01-01T00:00:00"  # a zip file knows no earlier time (APPNOTE 4.4.6)
_PLAIN: Final = 0o644
_SAFE: Final = re.compile(SAFE_PATH)


class Sink(Protocol):
    """Takes files by name."""

    def open(self, path: str, size: int) -> AbstractContextManager[BinaryIO]:
        """A new file of ``size`` bytes to write to."""


class FolderSink:
    """Files below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def open(self, path: str, size: int) -> Iterator[BinaryIO]:
        """Made with the folders it needs, and on the disk afterwards."""
        del size
        place = self._folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())


class ZipSink:
    """Members of a zip file, stored: what squeezing gives depends on the version of a library.

    All of them have one time, so that the same files are the same bytes.
    """

    def __init__(self, archive: zipfile.ZipFile, utc: str) -> None:
        self._archive = archive
        at = max(utc, _OLDEST)
        self._time = (
            *(int(part) for part in at[:10].split("-")),
            *(int(part) for part in at[11:19].split(":")),
        )

    @contextlib.contextmanager
    def open(self, path: str, size: int) -> Iterator[BinaryIO]:
        """A member with these many bytes."""
        member = zipfile.ZipInfo(path, self._time)  # type: ignore[arg-type]  # six numbers
        member.external_attr = (stat.S_IFREG | _PLAIN) << 16
        member.create_system = 3  # Unix, wherever this runs
        member.file_size = size
        with self._archive.open(member, "w") as file:
            yield file  # type: ignore[misc]  # IO[bytes], which is one


class Writer:
    """Writes files into a sink and remembers each with its size and hash."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._taken: set[str] = set()
        self.files: list[BundledFile] = []

    def write(self, path: str, data: bytes) -> BundledFile:
        """Put bytes at a path of the bundle."""
        with self._open(path, len(data)) as file:
            file.write(data)
        return self._remember(path, len(data), hashlib.sha256(data).hexdigest())

    def copy(self, path: str, source: Path, expected: str) -> BundledFile:
        """Put a file at a path of the bundle, piece by piece.

        Raises UsageError for a file that cannot be read, DocumentInvalid for one whose SHA-256 is
        not ``expected``.
        """
        digest, size = hashlib.sha256(), 0
        with reading(source) as file:
            declared = os.fstat(file.fileno()).st_size
            with self._open(path, declared) as target:
                while piece := _piece(file, source):
                    digest.update(piece)
                    size += len(piece)
                    target.write(piece)
        if digest.hexdigest() != expected:
            raise DocumentInvalid(
                f"'{path}' is not the file that its journal names (its SHA-256 differs).",
                "Restore the original, or move the file away: the bundle then says it is missing.",
            )
        return self._remember(path, size, digest.hexdigest())

    def _open(self, path: str, size: int) -> AbstractContextManager[BinaryIO]:
        """A place for a file that cannot lie outside the bundle, nor be one that is there."""
        if not _SAFE.fullmatch(path) or path.casefold() in self._taken:
            raise DocumentInvalid(
                f"'{one_line(path)}' cannot be a file of a bundle: its name is not safe, or taken.",
                "Take the run that it belongs to out of the results folder.",
            )
        self._taken.add(path.casefold())
        return self._sink.open(path, size)

    def _remember(self, path: str, size: int, sha256: str) -> BundledFile:
        self.files.append(BundledFile(path=path, bytes=size, sha256=sha256))
        return self.files[-1]


@contextlib.contextmanager
def reading(source: Path) -> Iterator[BinaryIO]:
    """A file to read. Raises UsageError when it cannot be opened."""
    try:
        file = source.open("rb")
    except OSError as error:
        raise _unreadable(source, error) from None
    with file:
        yield file


def _piece(file: BinaryIO, source: Path) -> bytes:
    try:
        return file.read(_PIECE)
    except OSError as error:
        raise _unreadable(source, error) from None


def _unreadable(source: Path, error: OSError) -> UsageError:
    return UsageError(
        f"'{source.name}' cannot be read ({error.strerror}).", "Make it readable, and try again."
    )


def check_renamable(out: Path) -> None:
    """See that a new folder can have this name. Raises OutputError.

    What a link leads to would stay as it is, and a shell whose folder is replaced stands nowhere.
    """
    if out.is_symlink():
        raise OutputError(
            f"'{called(out)}' is a link.", "Name the place that it leads to with --out."
        )
    if out.is_dir() and out.samefile(Path.cwd()):
        raise OutputError(
            f"'{called(out)}' is the folder in which this runs.",
            "Name one in it or beside it with --out.",
        )


@contextlib.contextmanager
def written_beside(out: Path, utc: str, may_replace: Callable[[Path], bool]) -> Iterator[Sink]:
    """A sink that becomes ``out`` when the block ends, and leaves nothing when it fails.

    ``may_replace`` is asked about what was written if something is there already. Raises
    OutputError or DiskFull.
    """
    out = out.absolute()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with part_folder(out.parent, out.name) as beside:
            made = beside / out.name
            if is_zip(out):
                with made.open("xb") as file:
                    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                        yield ZipSink(archive, utc)
                    file.flush()
                    os.fsync(file.fileno())
            else:
                made.mkdir()
                yield FolderSink(made)
            if out.exists() and not may_replace(made):
                raise OutputError(
                    f"'{out.name}' is there already and holds something else.",
                    "Choose another place with --out, or replace it with --force.",
                )
            _put(made, out, beside / "old")
    except OSError as error:
        wrong = output_error(error, f"write '{out.name}'")
        fix = "Choose a place with room that you can write to with --out."
        raise type(wrong)(wrong.cause, fix) from error


def is_zip(path: Path) -> bool:
    """Whether a path names a zip file."""
    return path.suffix.lower() == ".zip"


def _put(made: Path, out: Path, old: Path) -> None:
    """Give what was made its name. A folder that is in the way is set aside first, and put back."""
    for folder in sorted({path.parent for path in made.rglob("*")}):
        sync_folder(folder)
    if not out.is_dir() or not any(out.iterdir()):
        made.replace(out)
    else:
        try:
            out.replace(old)
            made.replace(out)
        except BaseException:  # Ctrl-C too must not cost the one that was there
            if old.exists() and not out.exists():
                old.replace(out)
            raise
    sync_folder(out.parent)
