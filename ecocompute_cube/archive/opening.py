"""A bundle made ready to read: a folder as it is, a zip file unpacked where nothing can escape."""

from __future__ import annotations

import contextlib
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from ecocompute_cube.archive.scratch import ELSEWHERE
from ecocompute_cube.archive.sink import reading
from ecocompute_cube.archive.words import one_line
from ecocompute_cube.errors import NO_ROOM, DiskFull, DocumentInvalid, UsageError
from ecocompute_cube.model.bundle import MANIFEST_NAME, SAFE_PATH
from ecocompute_cube.model.files import called
from ecocompute_cube.units import gib

if TYPE_CHECKING:
    from collections.abc import Iterator

_SAFE: Final = re.compile(SAFE_PATH)
_ENCRYPTED: Final = 0x1  # bit of a member's flags (APPNOTE 4.4.4)
_REMEDY: Final = "Have the bundle made again, or packed again from its folder."


@contextlib.contextmanager
def opened(place: Path) -> Iterator[Path]:
    """The folder that holds a bundle's manifest.

    Raises UsageError when there is none, DocumentInvalid for a zip file that is damaged or holds
    names that lead out of it, DiskFull.
    """
    if place.is_dir():
        yield _root(place, place)
        return
    if not place.is_file():
        raise UsageError(
            f"There is no bundle '{called(place)}'.", "Name its folder or its zip file."
        )
    with tempfile.TemporaryDirectory(prefix="ecocompute-") as name:
        folder = Path(name)
        _unpack(place, folder)
        yield _root(folder, place)


def _root(folder: Path, place: Path) -> Path:
    """The folder itself, or the only one in it where a program packed it with its folder."""
    inside = [each for each in folder.iterdir() if each.is_dir() and not each.is_symlink()]
    candidates = [folder, *inside] if len(inside) == 1 else [folder]
    for candidate in candidates:
        if (candidate / MANIFEST_NAME).is_file():
            return candidate
    raise UsageError(
        f"'{called(place)}' is no bundle: it holds no {MANIFEST_NAME}.",
        "Make one: ecocompute bundle RESULTS --out DIR",
    )


def _unpack(place: Path, folder: Path) -> None:
    name = called(place)
    try:
        with reading(place) as file, zipfile.ZipFile(file) as archive:
            members = _below_top([each for each in archive.infolist() if not each.is_dir()])
            _check_members(members, name, shutil.disk_usage(folder).free)
            for inside, member in members:
                _unpack_member(archive, member, folder / inside)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DocumentInvalid(
            f"{name} is damaged, or no zip file ({one_line(str(error))}).", _REMEDY
        ) from None
    except OSError as error:
        if error.errno in NO_ROOM:
            cause = f"No room left for unpacking {name} ({error.strerror})."
            raise DiskFull(cause, ELSEWHERE) from error
        raise


def _below_top(members: list[zipfile.ZipInfo]) -> list[tuple[str, zipfile.ZipInfo]]:
    """Members with their names, less that of the folder that some programs put around them."""
    names = [member.filename for member in members]
    top = "" if MANIFEST_NAME in names or not names else f"{names[0].partition('/')[0]}/"
    if not all(name.startswith(top) for name in names):
        top = ""
    return [(name.removeprefix(top), each) for name, each in zip(names, members, strict=True)]


def _check_members(members: list[tuple[str, zipfile.ZipInfo]], archive: str, free: int) -> None:
    times = Counter(name.casefold() for name, _ in members)
    folders = {str(up) for name in times for up in PurePosixPath(name).parents}
    for name, member in members:
        kind = stat.S_IFMT(member.external_attr >> 16)
        if not _SAFE.fullmatch(name):
            why = "has a name that no bundle has"
        elif kind not in (0, stat.S_IFREG):
            why = "is no plain file"
        elif member.flag_bits & _ENCRYPTED:
            why = "is encrypted"
        elif times[name.casefold()] > 1:
            why = "is there twice"
        elif name.casefold() in folders:
            why = "is file and folder in one"
        else:
            continue
        raise DocumentInvalid(f"{archive}: '{one_line(name)}' {why}.", _REMEDY)
    size = sum(member.file_size for _, member in members)
    if size > free:
        raise DiskFull(
            f"{archive} unpacks to {gib(size):.1f} GiB, {gib(free):.1f} GiB are free for it.",
            ELSEWHERE,
        )


def _unpack_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, place.open("xb") as target:
        shutil.copyfileobj(source, target, 2**20)
