"""``ecocompute bundle``: everything needed to check and to cite a set of runs, in one place.

    runs ─▶ evidence ─▶ what is computed ─▶ descriptions ─▶ manifest.json ─▶ SHA256SUMS

Written in this order, beside its place, each file hashed while it is copied. The bytes depend on
the results and the wishes alone: no clock, no name of a user or a machine.
"""

from __future__ import annotations

import hashlib
import shlex
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from ecocompute_cube import __version__
from ecocompute_cube.archive.about import Wishes, about, is_named
from ecocompute_cube.archive.computed import CSV_NAME, Computed, computed
from ecocompute_cube.archive.contents import data_of, descriptions, surroundings
from ecocompute_cube.archive.describe import Contents
from ecocompute_cube.archive.runs import Found, LeftOut, Run, runs_in
from ecocompute_cube.archive.sink import Writer, check_renamable, is_zip, written_beside
from ecocompute_cube.archive.words import as_json
from ecocompute_cube.errors import OutputError, UsageError
from ecocompute_cube.model.bundle import (
    FORMAT,
    MANIFEST_NAME,
    SUMS_NAME,
    About,
    BundledFile,
    BundleManifest,
    Layout,
)
from ecocompute_cube.model.journal_file import JOURNAL_NAME
from ecocompute_cube.report.recompute import ARMS_FOLDER
from ecocompute_cube.report.table import counted
from ecocompute_cube.report.write import ENERGY_NAME
from ecocompute_cube.signature import SUFFIX

_MOST_SUMS: Final = 256 * 2**20  # bytes of a list of checksums: a million files
_MOST_NAMED: Final = 20  # files on the screen


class Request(NamedTuple):
    """What to bundle, and where to."""

    results: Path
    out: Path
    report_dir: Path
    layout: Layout = Layout.STANDARD
    wishes: Wishes = Wishes()
    force: bool = False  #: replace another bundle


class Bundled(NamedTuple):
    """What was written, and what was not."""

    manifest: BundleManifest
    left_out: tuple[LeftOut, ...]

    @property
    def size_bytes(self) -> int:
        """Of all files that the manifest lists."""
        return sum(file.bytes for file in self.manifest.files)


def bundle(request: Request, say: Callable[[str], None]) -> Bundled:
    """Write a bundle.

    Raises UsageError (no journal, two that claim one run), DocumentInvalid (a document that is not
    plain JSON, a trace that is not its journal's), OutputError or DiskFull. Nothing is then left.
    """
    _check_place(request)
    found = runs_in(request.results)
    made = computed(found.runs, request.report_dir, say)
    described = tuple(run.described() for run in found.runs)
    told = about(described, request.wishes)
    newest = max(run.ended_utc for run in described)
    with written_beside(request.out, newest, lambda new: _may_replace(request, new)) as sink:
        writer = Writer(sink)
        manifest = _write(writer, request.layout, found, made, told)
    return Bundled(manifest, found.left_out)


def as_text(done: Bundled, out: Path) -> str:
    """What was written, what was left out, what is missing, and what to do next."""
    runs = counted(len(done.manifest.runs), "run")
    files = counted(len(done.manifest.files), "file")
    lines = [f"{out.name}: {runs}, {files}, {done.size_bytes / 1e6:.1f} MB"]
    for what, named in (
        ("left out", [f"{each.name}: {each.why}" for each in done.left_out]),
        ("missing", [f"{each.what}: {each.why}" for each in done.manifest.missing]),
    ):
        lines += [f"{what}: {name}" for name in named[:_MOST_NAMED]]
        if (rest := len(named) - _MOST_NAMED) > 0:
            lines.append(f"{what}: {rest} more")
    if not is_named(done.manifest.about):
        lines.append("nobody is named as its creator: --creator 'Family, Given'")
    lines.append(f"check it with: ecocompute bundle --check {shlex.quote(str(out))}")
    return "\n".join(lines) + "\n"


def _write(
    writer: Writer, layout: Layout, found: Found, made: Computed, told: About
) -> BundleManifest:
    data = data_of(layout, told)
    for run in found.runs:
        _write_run(writer, f"{data}runs/{run.folder}", run)
    for energy in made.energies:
        place = f"{data}runs/{energy.run}/{ARMS_FOLDER}/{energy.arm}/{ENERGY_NAME}"
        writer.write(place, energy.data)
    for name, page in made.pages.items():
        writer.write(f"{data}report/{name}", page)
    for path, content in surroundings(layout, told, found.runs, made.energies):
        writer.write(path, content)
    contents = Contents(
        about=told,
        layout=layout,
        tool_version=__version__,
        runs=tuple(run.described() for run in found.runs),
        energies=made.energies,
        missing=(*found.missing, *(each for run in found.runs for each in run.missing)),
        files=_sorted(writer.files),
        data=data,
    )
    for path, content in descriptions(contents, made.pages[CSV_NAME]):
        writer.write(path, content)
    manifest = BundleManifest(
        format=FORMAT,
        tool_version=__version__,
        layout=layout,
        about=told,
        runs=contents.runs,
        missing=contents.missing,
        files=_sorted(writer.files),
    )
    writer.write(MANIFEST_NAME, as_json(manifest.model_dump(mode="json")))
    writer.write(SUMS_NAME, checksum_list(writer.files))
    return manifest


def _write_run(writer: Writer, place: str, run: Run) -> None:
    writer.write(f"{place}/{JOURNAL_NAME}", run.data)
    if run.signature is not None:
        writer.write(f"{place}/{JOURNAL_NAME}{SUFFIX}", run.signature)
    for trace in run.traces:
        writer.copy(f"{place}/{trace.file}", run.source / trace.file, trace.sha256)


def checksum_list(listed: Iterable[BundledFile]) -> bytes:
    """SHA256SUMS, as ``sha256sum -c`` reads it."""
    return "".join(f"{file.sha256}  {file.path}\n" for file in _sorted(listed)).encode()


def _sorted(listed: Iterable[BundledFile]) -> tuple[BundledFile, ...]:
    return tuple(sorted(listed, key=lambda file: file.path))


# What lies there already


def _check_place(request: Request) -> None:
    """See before the work that it will not be for nothing. Raises UsageError or OutputError."""
    out, results = request.out.absolute(), request.results
    check_renamable(out)
    if out.resolve().is_relative_to(results.resolve()):
        raise UsageError(
            f"'{out.name}' lies in the results folder: the next bundle would hold this one.",
            "Choose a place beside it with --out.",
        )
    if not out.exists() or (out.is_dir() and not is_zip(out) and not any(out.iterdir())):
        return
    if _sums_of(out) is None:
        raise OutputError(
            f"'{out.name or out}' is there already, and it is no bundle.",
            "Choose another place with --out, or remove it yourself.",
        )


def _may_replace(request: Request, new: Path) -> bool:
    empty = request.out.is_dir() and not any(request.out.iterdir())
    return request.force or empty or _sums_of(request.out) == _sums_of(new)


def _sums_of(place: Path) -> str | None:
    """A hash of a bundle's list of hashes; None for anything else."""
    try:
        if not is_zip(place):
            if not (place / MANIFEST_NAME).is_file():
                return None
            return hashlib.sha256((place / SUMS_NAME).read_bytes()).hexdigest()
        with zipfile.ZipFile(place) as archive:
            archive.getinfo(MANIFEST_NAME)
            if archive.getinfo(SUMS_NAME).file_size > _MOST_SUMS:
                return None
            return hashlib.sha256(archive.read(SUMS_NAME)).hexdigest()
    except (OSError, KeyError, zipfile.BadZipFile, RuntimeError):
        return None
