"""``ecocompute bundle --check``: whether a bundle is whole, and follows from its journals."""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pydantic import ValidationError

from ecocompute_cube import __version__
from ecocompute_cube.analysis.documents import parse_document
from ecocompute_cube.archive.about import is_named, titled
from ecocompute_cube.archive.bundle import checksum_list
from ecocompute_cube.archive.computed import CSV_NAME, Energy
from ecocompute_cube.archive.contents import (
    DESCRIPTIONS,
    ZENODO_NAME,
    data_of,
    descriptions,
    surroundings,
)
from ecocompute_cube.archive.crate import CRATE_NAME
from ecocompute_cube.archive.croissant import CROISSANT_NAME
from ecocompute_cube.archive.describe import Contents
from ecocompute_cube.archive.opening import opened
from ecocompute_cube.archive.runs import Found, runs_in
from ecocompute_cube.archive.words import one_line
from ecocompute_cube.errors import DocumentInvalid, EcoError
from ecocompute_cube.model.base import printable
from ecocompute_cube.model.bundle import (
    DEEPEST,
    MANIFEST_NAME,
    POWER_FOLDER,
    SAFE_PATH,
    SUMS_NAME,
    BundledFile,
    BundleManifest,
)
from ecocompute_cube.report.build import build_report
from ecocompute_cube.report.csv import as_csv
from ecocompute_cube.report.energy_json import energy_reports
from ecocompute_cube.report.recompute import ARMS_FOLDER, recompute
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.table import counted
from ecocompute_cube.report.write import ENERGY_NAME, document_text
from ecocompute_cube.validate import Checked, validate_paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecocompute_cube.model.report import Report

Code = Literal[
    "checksum",
    "creator_unnamed",
    "description",
    "document",
    "figures",
    "foreign_file",
    "journal",
    "known_missing",
    "link",
    "missing_file",
    "not_computed_again",
    "power_folder",
    "signature",
    "unsafe_name",
]

_PIECE: Final = 2**20
_MOST_SHOWN: Final = 40
_SAFE: Final = re.compile(SAFE_PATH)
_AGAIN: Final = "Have the bundle made again from its results."
_PROSE_COLUMNS: Final = frozenset({"absent_because", "lowered_by"})
#: A bundle is about its evidence: what else validate finds is for documents without any. Its rule
#: of the change against FP16, for example, stumbles over blocks that vary much.
_OF_JOURNALS: Final = ("journal_broken", "journal_unreadable")


class Trouble(NamedTuple):
    """Something a reader of the bundle must know."""

    code: Code
    cause: str
    fix: str


class BundleChecked(NamedTuple):
    """What was found."""

    manifest: BundleManifest
    troubles: tuple[Trouble, ...]  #: each makes the bundle wanting
    warnings: tuple[Trouble, ...]

    @property
    def exit_status(self) -> int:
        """0: as it should be; 1: found wanting; 6: a document fails its schema."""
        if any(each.code == "document" for each in self.troubles):
            return DocumentInvalid.exit_status
        return 1 if self.troubles else 0


def check(place: Path, signers: Path | None, say: Callable[[str], None]) -> BundleChecked:
    """Look at a bundle, a folder or a zip file.

    Raises UsageError when it is none, DocumentInvalid when its manifest cannot be read.
    """
    with opened(place) as folder:
        return check_folder(folder, signers, say)


def check_folder(folder: Path, signers: Path | None, say: Callable[[str], None]) -> BundleChecked:
    """The same for a folder with a manifest in it."""
    manifest = read_manifest(folder)
    say(f"comparing {len(manifest.files)} files with their hashes")
    troubles = tuple(_whole(folder, manifest))
    if not any(each.code == "link" for each in troubles):  # what is no plain file is not entered
        say("computing every figure again from the journals")
        troubles += tuple(_documents(folder, manifest, signers))
        troubles += tuple(_described(folder, manifest))
    return BundleChecked(manifest, troubles, tuple(_warnings(manifest)))


def as_text(checked: BundleChecked) -> str:
    """To read: every trouble with its remedy, and a sentence at the end."""
    lines = [line for each in checked.troubles[:_MOST_SHOWN] for line in _lines(each)]
    if (rest := len(checked.troubles) - _MOST_SHOWN) > 0:
        lines.append(f"  and {rest} more")
    warned = checked.warnings[:_MOST_SHOWN]
    lines += [line for each in warned for line in _lines(each, "warning ")]
    runs = counted(len(checked.manifest.runs), "run")
    files = counted(len(checked.manifest.files), "file")
    wrong = f"{counted(len(checked.troubles), 'trouble')} found"
    lines.append(f"{runs}, {files}: {wrong if checked.troubles else 'all as it should be'}.")
    return "\n".join(lines) + "\n"


def _lines(trouble: Trouble, mark: str = "") -> tuple[str, str]:
    return f"  {mark}{trouble.code}: {printable(trouble.cause)}", f"      {printable(trouble.fix)}"


def read_manifest(folder: Path) -> BundleManifest:
    """manifest.json of a bundle. Raises DocumentInvalid, also for NaN."""
    data = (folder / MANIFEST_NAME).read_bytes()
    parse_document(data, MANIFEST_NAME)
    try:
        return BundleManifest.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise DocumentInvalid(
            f"{MANIFEST_NAME}: {one_line(at)}: {one_line(first['msg'])}.",
            "The bundle was edited, or made by another version.",
        ) from None


# Whole: every file that is listed, and no other


def _whole(folder: Path, manifest: BundleManifest) -> Iterator[Trouble]:
    found = {path.relative_to(folder).as_posix(): path for path in _walk(folder)}
    listed = {file.path: file for file in manifest.files}
    for name, path in sorted(found.items()):
        if not stat.S_ISREG(path.lstat().st_mode):
            yield Trouble("link", f"'{one_line(name)}' is no plain file.", _AGAIN)
        elif not _SAFE.fullmatch(name):
            yield Trouble("unsafe_name", f"'{one_line(name)}' is a name no bundle has.", _AGAIN)
        elif name not in listed and name not in (MANIFEST_NAME, SUMS_NAME):
            yield Trouble(
                "foreign_file",
                f"'{name}' is not in {MANIFEST_NAME}.",
                "Take it out: nothing vouches for it.",
            )
        if POWER_FOLDER in Path(name.casefold()).parts[:-1]:
            yield Trouble(
                "power_folder",
                f"'{one_line(name)}' lies in a folder '{POWER_FOLDER}', for meters at the wall.",
                "Take it out: NVML is no power result of MLPerf.",
            )
    for name, file in listed.items():
        yield from _one(found.get(name), file)
    yield from _sums(folder, manifest)


def _walk(folder: Path, depth: int = 1) -> Iterator[Path]:
    """Every file, and the folders that are deeper than any of a bundle."""
    for path in sorted(folder.iterdir()):
        if depth < DEEPEST and path.is_dir() and not path.is_symlink():
            yield from _walk(path, depth + 1)
        else:
            yield path


def _one(path: Path | None, file: BundledFile) -> Iterator[Trouble]:
    if path is None:
        yield Trouble("missing_file", f"'{file.path}' is not there.", _AGAIN)
    elif stat.S_ISREG(path.lstat().st_mode) and _sha256(path) != file.sha256:
        yield Trouble("checksum", f"'{file.path}' is not as it was.", _AGAIN)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sums(folder: Path, manifest: BundleManifest) -> Iterator[Trouble]:
    path = folder / SUMS_NAME
    own = (folder / MANIFEST_NAME).read_bytes()
    mine = BundledFile(path=MANIFEST_NAME, bytes=len(own), sha256=hashlib.sha256(own).hexdigest())
    if not path.is_file():
        yield Trouble("missing_file", f"'{SUMS_NAME}' is not there.", _AGAIN)
    elif path.read_bytes() != checksum_list([*manifest.files, mine]):
        yield Trouble("checksum", f"{SUMS_NAME} and {MANIFEST_NAME} do not agree.", _AGAIN)


# Documents: valid, and computed from the journals


def _documents(folder: Path, manifest: BundleManifest, signers: Path | None) -> Iterator[Trouble]:
    runs = folder / data_of(manifest.layout, manifest.about) / "runs"
    again = _Again()
    try:
        found = runs_in(runs)
        wanted = [(run, arm) for run in found.runs for arm in again.texts(run.source)]
    except EcoError as error:
        yield Trouble("journal", one_line(error.cause), _AGAIN)
        return
    yield from _runs(found, manifest)
    for run, arm in wanted:
        if not (run.source / ARMS_FOLDER / arm / ENERGY_NAME).is_file():
            yield Trouble("missing_file", f"{run.folder}: no energy.json of {arm}.", _AGAIN)
    figures = functools.partial(recompute, texts=again.texts)
    there = any(runs.rglob(ENERGY_NAME))
    checked = validate_paths([runs], recompute=figures, signers=signers) if there else ()
    for each in checked:
        yield from _told(each, folder)
    if any(each.schema_errors for each in checked):
        return
    if manifest.tool_version == __version__:
        yield from _made_again(folder, manifest, found, again)


def _runs(found: Found, manifest: BundleManifest) -> Iterator[Trouble]:
    """Whether the manifest describes the journals that are there."""
    listed = {run.folder: run for run in manifest.runs}
    there = {run.folder: run for run in found.runs}
    for name in sorted({*listed, *there}):
        if name not in there:
            yield Trouble("journal", f"{one_line(name)}: no journal of this run is there.", _AGAIN)
        elif name not in listed or there[name].described() != listed[name]:
            cause = f"{name}: the journal is not the one that {MANIFEST_NAME} describes."
            yield Trouble("journal", cause, _AGAIN)
    told = {each.what for each in manifest.missing}
    for run in found.runs:
        for each in run.missing:
            if each.what not in told:
                yield Trouble("missing_file", f"{each.what}: {each.why}.", _AGAIN)
    for left in found.left_out:
        yield Trouble("foreign_file", f"'{left.name}': {left.why}.", "Take it out.")


class _Again:
    """Computes each run's documents anew, reading its evidence once."""

    def __init__(self) -> None:
        self.reports: dict[Path, Report] = {}
        self._texts: dict[Path, dict[str, str]] = {}

    def texts(self, folder: Path) -> dict[str, str]:
        """Every arm's energy.json. Raises JournalBroken."""
        if folder not in self._texts:
            run = read_run(folder)
            self.reports[folder] = build_report(run)
            reports = energy_reports(run, self.reports[folder])
            self._texts[folder] = {arm: document_text(each) for arm, each in reports.items()}
        return self._texts[folder]


def _told(checked: Checked, folder: Path) -> Iterator[Trouble]:
    name = one_line(checked.path.removeprefix(f"{folder}/"))
    for line in checked.schema_errors:
        yield Trouble("document", f"{name}: {line}", _AGAIN)
    for found in checked.findings:
        if found.code == "recomputed":
            yield Trouble("figures", f"{name}: {found.cause}", found.fix)
        elif found.code == "signature":
            yield Trouble("signature", f"{name}: {found.cause}", found.fix)
        elif found.code in _OF_JOURNALS:
            yield Trouble("journal", f"{name}: {found.cause}", found.fix)


# What was written around them


def _made_again(
    folder: Path, manifest: BundleManifest, found: Found, again: _Again
) -> Iterator[Trouble]:
    """What the same version makes of the same runs must be the same bytes."""
    data, told = data_of(manifest.layout, manifest.about), manifest.about
    energies = [
        Energy(run.folder, arm, raw, parse_document(raw, ENERGY_NAME))
        for run in found.runs
        for arm in again.texts(run.source)
        if (raw := _bytes(run.source / ARMS_FOLDER / arm / ENERGY_NAME)) is not None
    ]
    reports = sorted(again.reports.values(), key=lambda report: report.run_id)
    table = as_csv(reports).encode()
    if len(energies) < sum(len(again.texts(run.source)) for run in found.runs):
        return  # told above
    given = _bytes(folder / data / "report" / CSV_NAME)
    if given is None or _figures_in(given) != _figures_in(table):
        cause = f"report/{CSV_NAME} is not what the journals give."
        yield Trouble("figures", cause, "Trust the journals, and make the report again.")
        return
    around = dict(surroundings(manifest.layout, told, found.runs, energies))
    described = dict(descriptions(_contents(manifest, energies, data), given))
    for name, content in (around | described).items():
        if _bytes(folder / name) != content:
            yield Trouble("description", f"'{name}' is not what this version writes.", _AGAIN)


def _figures_in(table: bytes) -> list[dict[str, str]]:
    """The rows of a table without their words, which a later version may put better."""
    rows = csv.DictReader(io.StringIO(table.decode("utf-8", "replace")))
    return [{key: row[key] for key in row if key not in _PROSE_COLUMNS} for row in rows]


def _contents(manifest: BundleManifest, energies: Sequence[Energy], data: str) -> Contents:
    return Contents(
        about=manifest.about,
        layout=manifest.layout,
        tool_version=manifest.tool_version,
        runs=manifest.runs,
        energies=tuple(energies),
        missing=manifest.missing,
        files=tuple(file for file in manifest.files if file.path not in DESCRIPTIONS),
        data=data,
    )


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _described(folder: Path, manifest: BundleManifest) -> Iterator[Trouble]:
    """Whether the descriptions can be read, whoever wrote them, and say what they must."""
    for name in (ZENODO_NAME, CROISSANT_NAME, CRATE_NAME):
        data = _bytes(folder / name)
        try:
            if data is not None:
                parse_document(data, name)
        except DocumentInvalid as error:
            yield Trouble("description", error.cause, _AGAIN)
    title = titled(manifest.runs, manifest.about.title)
    if title != manifest.about.title:
        cause = f"The title does not say what it must: '{title}'."
        yield Trouble("description", cause, "Make the bundle again: titles are completed then.")


def _warnings(manifest: BundleManifest) -> Iterator[Trouble]:
    if not is_named(manifest.about):
        cause = "Nobody is named as the creator; Zenodo would not take it so."
        yield Trouble("creator_unnamed", cause, "Make it again with --creator 'Family, Given'.")
    if manifest.tool_version != __version__:
        cause = (
            f"EcoCompute cube {one_line(manifest.tool_version)} made this bundle, this is "
            f"{__version__}: figures were computed again, pages and descriptions were not."
        )
        yield Trouble("not_computed_again", cause, "Check it with that version for those.")
    for each in manifest.missing:
        yield Trouble("known_missing", f"{each.what}: {each.why}.", "Nothing to do: it is told.")
