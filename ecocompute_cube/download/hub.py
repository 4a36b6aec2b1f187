"""A model of the Hugging Face hub: one commit's safetensors, config, tokenizer and licence.

revision ▶ commit ▶ config and index, to refuse early ▶ say the size ▶ gather ▶ link
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from ecocompute_cube.download.checkpoint import (
    CONFIG,
    INDEX,
    WEIGHTS,
    describe,
    read_json,
    shape_of,
    shards_in,
)
from ecocompute_cube.download.checks import (
    MAY_NAME_CODE,
    refuse_code,
    refuse_config,
    refuse_only_pickles,
    require_tokenizer,
    wanted,
)
from ecocompute_cube.download.folder import fetching_folder, model_folder, read_manifest
from ecocompute_cube.download.hub_client import HUB, HubClient, HubSettings
from ecocompute_cube.download.hub_files import HubCache, HubFile, Listing
from ecocompute_cube.download.hub_gather import Gathering
from ecocompute_cube.download.links import link_or_move
from ecocompute_cube.download.local import license_of
from ecocompute_cube.download.progress import Progress, Say, silent, size
from ecocompute_cube.download.source import Identity
from ecocompute_cube.errors import ModelError, ModelMissing
from ecocompute_cube.model.base import Absent, present, printable
from ecocompute_cube.model.hub_reference import HubReference, parse_hub
from ecocompute_cube.model.manifest import Manifest, Weights

_WORTH_SAYING: Final = 2**20  # bytes; config and index have been looked into by then


@dataclass
class HubModel:
    """One repository at one revision, and the hub and the caches that it may come from."""

    asked: HubReference
    models_dir: Path
    settings: HubSettings
    replaceable: bool = True
    _chosen: list[HubFile] | None = field(default=None, init=False, repr=False)

    @classmethod
    def named(cls, model: str, models_dir: Path, settings: HubSettings) -> HubModel:
        """The source for a plan's ``hub:OWNER/NAME@REVISION``."""
        return cls(parse_hub(model), models_dir, settings)

    @property
    def reference(self) -> str:
        """As the plan names it, less ``@main``."""
        return str(self.asked)

    def announce(self, say: Say) -> str:
        """Resolve the revision and look into the small files; then how much is taken of what."""
        commit = self._listing.commit
        with self._tidied():
            files = self._files(say)
        total = sum(file.bytes for file in files)
        there = sum(self._gathering.on_disk(file) for file in files)
        if self.asked.commit is None:
            say(f"{self.asked.revision} is commit {commit}; the plan can pin it: {self._pinned}")
        kept = f"; {size(there)} of it lie on this disk already" if there >= _WORTH_SAYING else ""
        return f"taking {len(files)} files, {size(total)}, of commit {commit} {self._from}{kept}"

    def needs_bytes(self, models_dir: Path) -> int:
        """Size of what is not there yet, and cannot be hard-linked."""
        return sum(self._gathering.lacking(file) for file in self._files(silent))

    def contradicts(self, manifest: Manifest, folder: Path, say: Say) -> str | None:
        """Whether the folder holds another commit than the plan's; a branch is not asked again."""
        if self.asked.commit is None:
            say(
                f"{self.asked.revision} was commit {manifest.commit} when it was taken; remove "
                f"'{folder}' to take it anew"
            )
        elif manifest.commit != self.asked.commit:
            return f"it is commit {manifest.commit}"
        return None

    def build(self, folder: Path, say: Say) -> Identity:
        """Gather every file, then link them into the folder."""
        with self._tidied():
            files = self._files(say)
            progress = Progress("taking", sum(file.bytes for file in files), say)
            paths = [self._gathering.whole(file, progress, say) for file in files]
            for path in paths:
                link_or_move(path, folder / path.name)
            describe(folder)
        listing = self._listing
        return Identity(
            name=self._pinned.name,
            weights=Weights.ORIGINAL,
            origin=f"{self.asked.repository} at commit {listing.commit}, {self._from}.",
            license=listing.license if present(listing.license) else license_of(folder),
            seed=Absent(reason="The weights were not drawn."),
            commit=listing.commit,
        )

    # Which commit, which files

    @cached_property
    def _client(self) -> HubClient:
        return HubClient(self.settings)

    @cached_property
    def _cache(self) -> HubCache:
        return HubCache(self.settings.cache)

    @property
    def _from(self) -> str:
        if self.settings.offline:
            return "from a hub cache, offline"
        mirror = "" if self.settings.endpoint == HUB else "a mirror of "
        return f"from {mirror}the Hugging Face hub"

    @cached_property
    def _gathering(self) -> Gathering:
        return Gathering(
            folder=fetching_folder(self.reference, self.models_dir),
            repository=self.asked.repository,
            commit=self._listing.commit,
            cache=self._cache,
            client=None if self.settings.offline else self._client,
            pause=self.settings.pause,
        )

    @cached_property
    def _listing(self) -> Listing:
        if self.settings.offline:
            return self._cached_listing()
        return self._client.listing(self.asked.repository, self._revision())

    @property
    def _pinned(self) -> HubReference:
        return self.asked._replace(revision=self._listing.commit)

    def _revision(self) -> str:
        """What is asked for; a damaged folder is built again from the commit that it was."""
        with contextlib.suppress(ModelError):
            commit = read_manifest(model_folder(self.reference, self.models_dir)).commit
            if self.asked.commit is None and present(commit):
                return commit
        return self.asked.revision

    def _cached_listing(self) -> Listing:
        repository = self.asked.repository
        commit = self._cache.commit(self.asked)
        files = self._cache.files(repository, commit) if commit else {}
        if not commit or not files:
            raise self._missing("does not hold it")
        return Listing(commit, files, license_of(self._cache.snapshot(repository, commit)))

    def _files(self, say: Say) -> list[HubFile]:
        """What is taken. Looks into config and index, and refuses before anything large is fetched.

        Raises ModelError.
        """
        if self._chosen is None:
            self._check_names()
            self._check_words(say)
            names = wanted(self._listing.files) + self._weights(say)
            self._chosen = [self._listing.files[name] for name in names]
        return self._chosen

    def _check_names(self) -> None:
        model, names = self.asked.repository, self._listing.files.keys()
        refuse_only_pickles(model, names)
        if CONFIG not in names:
            raise self._lacks(CONFIG)
        if WEIGHTS not in names and INDEX not in names:
            raise self._lacks(WEIGHTS, " and no index")
        require_tokenizer(model, names, "Give the repository of a whole model.")

    def _lacks(self, name: str, more: str = "") -> ModelError:
        if self.settings.offline:
            return self._missing(f"holds only a part of it, without {name}")
        return ModelError(
            f"'{self.asked.repository}' holds no {name}{more}.",
            "Give a repository in the layout of transformers, with safetensors; one of GGUF "
            "files or adapters cannot be measured.",
        )

    def _check_words(self, say: Say) -> None:
        model = self.asked.repository
        config = self._json(CONFIG, say)
        refuse_config(model, config)
        for name in MAY_NAME_CODE:
            if name in self._listing.files:
                refuse_code(model, name, self._json(name, say))
        shape_of(config)

    def _weights(self, say: Say) -> list[str]:
        files = self._listing.files
        if WEIGHTS in files:
            return [WEIGHTS]
        shards = shards_in(self.asked.repository, self._json(INDEX, say))
        lost = [name for name in shards if name not in files]
        if lost and self.settings.offline:
            raise self._missing(f"holds only a part of it, without {lost[0]}")
        if lost:
            raise ModelError(
                f"{INDEX} of '{self.asked.repository}' names {printable(lost[0])}, which is not "
                "there.",
                "Give another revision, or tell the model's owner.",
            )
        return [INDEX, *shards]

    def _json(self, name: str, say: Say) -> Mapping[str, object]:
        file = self._listing.files[name]
        path = self._gathering.whole(file, Progress(f"taking {name}", file.bytes, say), say)
        return read_json(path, self.asked.repository)

    def _missing(self, what: str) -> ModelMissing:
        return ModelMissing(
            f"Nothing is fetched offline (HF_HUB_OFFLINE); '{self.models_dir}' has no finished "
            f"{self.reference}, and the hub cache '{self.settings.cache}' {what}.",
            "Unset HF_HUB_OFFLINE to fetch it, or name a cache that holds it with --hub_cache.",
        )

    @contextlib.contextmanager
    def _tidied(self) -> Iterator[None]:
        """What is refused for good leaves nothing behind; what may yet come is kept to go on with.

        Around what looks into the model, and not around asking for it.
        """
        folder = fetching_folder(self.reference, self.models_dir)
        try:
            yield
        except ModelError as error:
            if type(error) is ModelError:  # the others say: not now, not here, not for this user
                shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                folder.rmdir()  # unless there is something in it
            raise
