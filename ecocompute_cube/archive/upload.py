"""``ecocompute upload``: a bundle that was checked, as a record of Zenodo.

    check ─▶ one zip file, and README, manifest and table beside it ─▶ draft ─▶ files ─▶ publish

What was done is written beside the bundle, so that the same command goes on where it stopped, and
nothing is ever published twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import ValidationError

from ecocompute_cube.archive.about import is_named
from ecocompute_cube.archive.check import check_folder
from ecocompute_cube.archive.computed import CSV_NAME
from ecocompute_cube.archive.contents import data_of
from ecocompute_cube.archive.deposit import (
    Deposit,
    Payload,
    Published,
    is_id,
    metadata_of,
    not_yet,
)
from ecocompute_cube.archive.opening import opened
from ecocompute_cube.archive.scratch import scratch
from ecocompute_cube.archive.service import Client
from ecocompute_cube.archive.sink import ZipSink, is_zip
from ecocompute_cube.archive.words import as_json, one_line
from ecocompute_cube.errors import (
    DocumentInvalid,
    OutputBusy,
    ServiceRefused,
    UsageError,
    output_error,
)
from ecocompute_cube.model.base import Record, Sha256
from ecocompute_cube.model.bundle import MANIFEST_NAME, SUMS_NAME, BundleManifest
from ecocompute_cube.model.files import write_whole
from ecocompute_cube.model.plan import slug

_MOST_BYTES: Final = 50_000_000_000  # a record's quota, by Zenodo's own pages
_PIECE: Final = 2**20


class State(Record):
    """NAME.HOST.upload.json, beside a bundle: what was done with it at one service. No token."""

    format: Literal["ecocompute-upload/1"]
    record: str
    version_of: str | None  #: the record that this one is the next version of
    sums_sha256: Sha256  #: of the bundle's SHA256SUMS when it was last sent
    status: Literal["draft", "publishing", "published"]
    doi: str | None


class Wanted(NamedTuple):
    """What to upload, and how far to go."""

    bundle: Path
    publish: bool = False
    version_of: str | None = None


class Uploaded(NamedTuple):
    """Where it is now."""

    record: str
    page: str
    doi: str | None
    published: bool
    complaints: tuple[str, ...]  #: what the service still finds wrong with a draft


def upload(
    wanted: Wanted,
    client: Client,
    say: Callable[[str], None],
    bar: Callable[[int], Callable[[int], None]],
    pause: Callable[[float], None] = time.sleep,
) -> Uploaded:
    """Bring a bundle into a draft, and with ``publish`` make it public.

    ``bar`` is given the bytes to send, and gives what is told of those that have gone. Raises
    DocumentInvalid for a bundle that is found wanting, UsageError, OutputError and ServiceError.
    """
    if wanted.version_of is not None and not is_id(wanted.version_of):
        raise UsageError(
            f"'{one_line(wanted.version_of)}' is no number of a record.",
            "It stands at the end of the record's address: …/records/NUMBER",
        )
    with _alone(wanted.bundle), opened(wanted.bundle) as folder:
        manifest = _checked(folder, say)
        sums = hashlib.sha256((folder / SUMS_NAME).read_bytes()).hexdigest()
        place = _state_of(wanted.bundle, client)
        _check_place(place)
        state = _read(place)
        if state is not None and (done := _done_before(state, wanted, sums, client)):
            _write(place, state.model_copy(update={"status": "published", "doi": done.doi}))
            return done
        deposit = _deposit(state, wanted, manifest, client)
        state = State(
            format="ecocompute-upload/1",
            record=deposit.record,
            version_of=wanted.version_of,
            sums_sha256=sums,
            status="draft",
            doi=None,
        )
        _write(place, state)
        say(f"draft {deposit.record} at {client.service.address}")
        wrong = deposit.describe(metadata_of(manifest))
        with _payloads(wanted.bundle, folder, manifest) as payloads:
            deposit.put_files(payloads, bar(sum(each.size for each in payloads)))
        if not wanted.publish:
            return _drafted(deposit, client, wrong)
        _refuse_complaints(wrong)
        _write(place, state.model_copy(update={"status": "publishing"}))
        found = deposit.publish(pause)
        _write(place, state.model_copy(update={"status": "published", "doi": found.doi}))
        return _public(found)


# Before


@contextlib.contextmanager
def _alone(bundle: Path) -> Iterator[None]:
    """Hold the bundle itself, so that no second upload of it runs beside. Raises OutputBusy."""
    if not bundle.is_dir() and not bundle.is_file():
        yield  # told by whoever opens it; a pipe would be waited for here
        return
    descriptor = os.open(bundle, os.O_RDONLY)
    try:
        _lock(descriptor, bundle)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, bundle: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutputBusy(
            f"Another upload of '{one_line(bundle.name)}' is under way.", "Wait for it."
        ) from None


def _checked(folder: Path, say: Callable[[str], None]) -> BundleManifest:
    checked = check_folder(folder, None, say)
    if checked.troubles:
        raise DocumentInvalid(
            f"The bundle is found wanting: {checked.troubles[0].cause}",
            "See all of it with ecocompute bundle --check, and have it made again.",
        )
    for path in _beside(checked.manifest):
        if not (folder / path).is_file():
            raise DocumentInvalid(f"The bundle holds no {path}.", "Have it made again.")
    if not is_named(checked.manifest.about):
        raise UsageError(
            "Nobody is named as the creator of the bundle.",
            "Make it again with --creator 'Family, Given', or --about FILE.",
        )
    return checked.manifest


def _beside(manifest: BundleManifest) -> tuple[str, ...]:
    """What lies beside the zip file in a record: what people look at first."""
    table = f"{data_of(manifest.layout, manifest.about)}report/{CSV_NAME}"
    return "README.md", MANIFEST_NAME, table


# What was done before


def _state_of(bundle: Path, client: Client) -> Path:
    host = urlsplit(client.service.address).netloc.replace(":", "_")
    whole = bundle.resolve()
    return whole.with_name(f"{whole.name}.{host}.upload.json")


def _check_place(place: Path) -> None:
    """See that what is done can be noted, before anything is. Raises OutputError or DiskFull."""
    try:
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{place.name}."):
            pass
    except OSError as error:
        wrong = output_error(error, f"write {one_line(place.name)}")
        fix = "Copy the bundle to where you can write: what is done with it is noted beside it."
        raise type(wrong)(wrong.cause, fix) from error


def _read(place: Path) -> State | None:
    if not place.is_file():
        return None
    try:
        return State.model_validate_json(place.read_bytes())
    except ValidationError:
        raise DocumentInvalid(
            f"{one_line(place.name)} is not what an upload wrote.",
            "Look at the service what was uploaded; then move the file away.",
        ) from None


def _write(place: Path, state: State) -> None:
    write_whole(place, as_json(state.model_dump(mode="json")))


def _done_before(state: State, wanted: Wanted, sums: str, client: Client) -> Uploaded | None:
    """The record, if this very bundle is public already, by this command or by hand.

    Raises UsageError if another content was published, or a draft was begun for something else.
    """
    begun = Deposit(client, state.record)
    if state.status != "published" and begun.is_draft():
        if state.version_of != wanted.version_of:
            raise UsageError(
                f"A draft of this bundle was begun as record {state.record}, and not as this.",
                "Go on with the options of before, or discard that draft and its .upload.json.",
            )
        return None
    found = begun.published()
    if found is None:
        if state.status == "draft":  # it was discarded
            return None
        if state.status == "publishing":
            raise not_yet()
        raise ServiceRefused(
            f"Record {state.record}, which this bundle was published as, is not there.",
            "See with the service what became of it.",
        )
    if state.sums_sha256 == sums:
        return _public(found)
    if wanted.version_of is None:
        raise UsageError(
            f"This bundle was published as record {state.record}, and has changed since.",
            f"Upload it as a new version: --new_version {state.record}",
        )
    return None


def _deposit(
    state: State | None, wanted: Wanted, manifest: BundleManifest, client: Client
) -> Deposit:
    """The draft that was begun, if it is still there; else a new one."""
    if state is not None and state.status != "published":
        begun = Deposit(client, state.record)
        if begun.is_draft():
            return begun
    if wanted.version_of is not None:
        return Deposit.begun_as_version_of(client, wanted.version_of)
    return Deposit.begun(client, metadata_of(manifest))


# What is sent


@contextlib.contextmanager
def _payloads(bundle: Path, folder: Path, manifest: BundleManifest) -> Iterator[list[Payload]]:
    """One zip file, since a record may have a hundred files, and what lies beside it.

    Raises UsageError when they are more than a record may hold.
    """
    name = slug(bundle.resolve().name.removesuffix(".zip"))
    with scratch() as temporary:
        packed = bundle if is_zip(bundle) else _packed(folder, manifest, temporary)
        beside = [folder / path for path in _beside(manifest)]
        found = [_payload(f"{name}.zip", packed)]
        found += [_payload(path.name, path) for path in beside]
        size = sum(each.size for each in found)
        if size > _MOST_BYTES:
            raise UsageError(
                f"The bundle has {size / 1e9:.1f} GB; a record may hold {_MOST_BYTES / 1e9:.0f}.",
                "Make bundles of fewer runs.",
            )
        yield found


def _packed(folder: Path, manifest: BundleManifest, temporary: Path) -> Path:
    """The folder as a zip file: always the same bytes."""
    place = temporary / "bundle.zip"
    newest = max(run.ended_utc for run in manifest.runs)
    names = sorted([*(file.path for file in manifest.files), MANIFEST_NAME, SUMS_NAME])
    with zipfile.ZipFile(place, "x", zipfile.ZIP_STORED) as archive:
        sink = ZipSink(archive, newest)
        for name in names:
            source = folder / name
            with source.open("rb") as file, sink.open(name, source.stat().st_size) as target:
                while piece := file.read(_PIECE):
                    target.write(piece)
    return place


def _payload(key: str, path: Path) -> Payload:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
    return Payload(key, path, path.stat().st_size, digest.hexdigest())


# After


def _drafted(deposit: Deposit, client: Client, wrong: list[str]) -> Uploaded:
    page = f"{client.service.address}/uploads/{deposit.record}"
    return Uploaded(deposit.record, page, None, published=False, complaints=tuple(wrong))


def _refuse_complaints(wrong: list[str]) -> None:
    if wrong:
        raise ServiceRefused(
            f"The draft cannot be published: {'; '.join(wrong).rstrip('.')}.",
            "Correct the bundle, and run the same command again; the draft is kept.",
        )


def _public(found: Published) -> Uploaded:
    return Uploaded(found.record, found.page, found.doi, published=True, complaints=())


def as_text(done: Uploaded) -> str:
    """Where it is, and what to do next."""
    if done.published:
        doi = f", DOI {one_line(done.doi)}" if done.doi else ""
        return f"published: record {done.record}{doi}\n{done.page}\n"
    lines = [f"draft: record {done.record}, not public", done.page]
    lines += [f"still wrong: {each}" for each in done.complaints]
    lines.append("look at it there; publish it there, or with --publish. That cannot be undone")
    return "\n".join(lines) + "\n"
