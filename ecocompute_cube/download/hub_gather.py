"""Where a model's files gather until they are whole: from this disk if they are there, or the hub.

The folder outlives a download that is killed. What leaves it has the size and hash that the hub
promised; where nothing is promised, offline and without names of blobs, the size alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ecocompute_cube.download.hub_fetch import Fetch
from ecocompute_cube.download.hub_files import HubCache, HubFile, copies_beside
from ecocompute_cube.download.links import bytes_at, can_link, link_or_copy
from ecocompute_cube.download.progress import Progress, Say
from ecocompute_cube.errors import ModelMissing

if TYPE_CHECKING:
    from ecocompute_cube.download.hub_client import HubClient


@dataclass
class Gathering:
    """The files of one commit, as far as they are there."""

    folder: Path  #: inside the models folder
    repository: str
    commit: str
    cache: HubCache
    client: HubClient | None  #: None: offline
    pause: Callable[[float], None]
    _checked: set[str] = field(default_factory=set)

    def whole(self, file: HubFile, progress: Progress, say: Say) -> Path:
        """A file in the folder that is whole and what the hub promised.

        Raises ModelCorrupt, ModelMissing (offline), HubRefused, HubBusy, HubUnreachable, OSError.
        """
        self.folder.mkdir(exist_ok=True)
        target = self.folder / file.name
        if file.name in self._checked or self._taken_from_disk(file, target, say):
            progress.advance(file.bytes)
        else:
            self._fetch(file, target, progress, say)
        self._checked.add(file.name)
        return target

    def on_disk(self, file: HubFile) -> int:
        """Bytes of a file that need not be fetched."""
        copied = any(True for _ in self._copies(file))
        return file.bytes if copied else min(file.bytes, bytes_at(self.folder / file.name))

    def lacking(self, file: HubFile) -> int:
        """Bytes that a file will take anew: none where it can be hard-linked."""
        for copy in self._copies(file):
            return 0 if can_link(copy, self.folder) else file.bytes
        return max(0, file.bytes - bytes_at(self.folder / file.name))

    def _taken_from_disk(self, file: HubFile, target: Path, say: Say) -> bool:
        if bytes_at(target) == file.bytes:
            return False  # left by a run that was stopped; fetching begins with looking at that
        for copy in self._copies(file):
            fault = file.fault(copy, Progress(f"checking '{copy}'", file.bytes, say))
            if fault is None:
                target.unlink(missing_ok=True)
                link_or_copy(copy, target, say)
                return True
            say(f"not using '{copy}': {fault}")
        return False

    def _copies(self, file: HubFile) -> Iterator[Path]:
        """Files of the right size that may be this one."""
        places = chain(
            self.cache.copies(self.repository, self.commit, file),
            copies_beside(self.folder.parent, file),
        )
        return (path for path in places if bytes_at(path) == file.bytes)

    def _fetch(self, file: HubFile, target: Path, progress: Progress, say: Say) -> None:
        if self.client is None:
            raise ModelMissing(
                f"Nothing is fetched offline (HF_HUB_OFFLINE), and {file.name} of "
                f"{self.repository} in the hub cache '{self.cache.folder}' is damaged.",
                "Unset HF_HUB_OFFLINE to fetch it, or name another cache with --hub_cache.",
            )
        fetch = Fetch(self.client, self.repository, self.commit, progress, say, self.pause)
        fetch.file(file, target)
