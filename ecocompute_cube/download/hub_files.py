"""The files of one commit on the hub: their sizes and hashes, and where copies may lie already."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ecocompute_cube.download.folder import read_manifest, sha256_of
from ecocompute_cube.download.progress import Progress
from ecocompute_cube.errors import ModelError
from ecocompute_cube.model.base import MaybeStr
from ecocompute_cube.model.hub_reference import HubReference, is_git_hash

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_CHUNK: Final = 2**20  # bytes


@dataclass(frozen=True)
class HubFile:
    """One file, as the hub promises it."""

    name: str
    bytes: int
    sha256: str | None = None  #: of large files, which Git LFS holds
    blob: str | None = None  #: Git's SHA-1 of the others

    @property
    def oid(self) -> str | None:
        """What the file is called among the blobs of a hub cache."""
        return self.sha256 or self.blob

    def fault(self, path: Path, progress: Progress) -> str | None:
        """How what lies at a path differs from what was promised, or None.

        Raises OSError.
        """
        found = path.stat().st_size
        if found != self.bytes:
            return f"it has {found} bytes instead of {self.bytes}"
        if self.sha256 is not None:
            return None if sha256_of(path, progress) == self.sha256 else "its SHA-256 is another"
        if self.blob is not None:
            return None if _git_blob(path, self.bytes) == self.blob else "its Git hash is another"
        return None  # an offline cache without names of blobs: nothing to compare with


@dataclass(frozen=True)
class Listing:
    """One commit of a repository."""

    commit: str
    files: Mapping[str, HubFile]  #: of the repository's top folder, by name
    license: MaybeStr


@dataclass(frozen=True)
class HubCache:
    """A hub cache as huggingface_hub lays it out. It is only read."""

    folder: Path

    def _repository(self, repository: str) -> Path:
        return self.folder / f"models--{repository.replace('/', '--')}"

    def commit(self, reference: HubReference) -> str | None:
        """The commit that a revision was when the cache last heard of it, or None."""
        if reference.commit:
            return reference.commit
        try:
            path = self._repository(reference.repository) / "refs" / reference.revision
            text = path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None
        return text if is_git_hash(text) else None

    def snapshot(self, repository: str, commit: str) -> Path:
        """The folder of one commit, which need not be there."""
        return self._repository(repository) / "snapshots" / commit

    def copies(self, repository: str, commit: str, file: HubFile) -> Iterator[Path]:
        """Where this very file may lie."""
        if file.oid:
            yield self._repository(repository) / "blobs" / file.oid
        yield self.snapshot(repository, commit) / file.name

    def files(self, repository: str, commit: str) -> dict[str, HubFile]:
        """What the cache has of a commit; a blob's name tells its hash."""
        try:
            found = sorted(self.snapshot(repository, commit).iterdir())
        except OSError:
            return {}
        return {path.name: _as_cached(path) for path in found if path.is_file()}


def _as_cached(path: Path) -> HubFile:
    blob = path.readlink().name if path.is_symlink() else ""
    return HubFile(
        name=path.name,
        bytes=path.stat().st_size,
        sha256=blob if _SHA256.fullmatch(blob) else None,
        blob=blob if is_git_hash(blob) else None,
    )


def copies_beside(models_dir: Path, file: HubFile) -> Iterator[Path]:
    """Where this file may lie among the models that were fetched before, at another revision."""
    for folder in sorted(models_dir.glob("hub-*")):
        try:
            known = {each.path: each for each in read_manifest(folder).files}
        except ModelError:
            continue
        has = known.get(file.name)
        if has and has.bytes == file.bytes and file.sha256 in (None, has.sha256):
            yield folder / file.name


def _git_blob(path: Path, size: int) -> str:
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)  # Git's own choice
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
