"""One file from the hub: what is there is kept, the rest is fetched, the whole is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.download.hub_errors import stopped
from ecocompute_cube.download.links import bytes_at
from ecocompute_cube.download.progress import Progress, Say
from ecocompute_cube.errors import HubUnreachable, ModelCorrupt

if TYPE_CHECKING:
    from ecocompute_cube.download.hub_client import HubClient
    from ecocompute_cube.download.hub_files import HubFile

_PATIENCE: Final = 4  # attempts in a row that bring nothing; the pauses between them make 15 s


@dataclass
class Fetch:
    """Files of one commit, fetched one after the other."""

    client: HubClient
    repository: str
    commit: str
    progress: Progress
    say: Say
    pause: Callable[[float], None]

    def file(self, file: HubFile, target: Path) -> None:
        """Make ``target`` the whole file; what it holds is taken for its beginning.

        Raises ModelCorrupt for bytes that the hub did not promise, HubRefused, HubBusy,
        HubUnreachable, OSError.
        """
        kept = bytes_at(target)
        if kept > file.bytes:
            target.unlink()
        self.progress.advance(bytes_at(target))
        self._fill(file, target)
        fault = self._fault(file, target)
        if fault and kept:  # its beginning was another file's, or damaged: once more, from nothing
            self.say(f"what was kept of {file.name} is of no use: {fault}; fetching it again")
            self.progress.advance(-file.bytes)
            target.unlink()
            self._fill(file, target)
            fault = self._fault(file, target)
        if fault:
            target.unlink()
            raise ModelCorrupt(
                f"{file.name} of {self.repository} did not arrive as the hub promised: {fault}.",
                "Run the same command again; if it stays so, what lies between here and the hub "
                "(a mirror, a proxy) alters files.",
            )

    def _fault(self, file: HubFile, target: Path) -> str | None:
        return file.fault(target, Progress(f"checking {file.name}", file.bytes, self.say))

    def _fill(self, file: HubFile, target: Path) -> None:
        idle = 0
        while (have := bytes_at(target)) < file.bytes:
            try:
                self._append(file, target)
                if bytes_at(target) < file.bytes:
                    asking = self.client.asking(self.repository, self.commit)
                    raise stopped(asking, file.name, bytes_at(target), file.bytes)
            except HubUnreachable as error:
                idle = 0 if bytes_at(target) > have else idle + 1
                if idle > _PATIENCE:
                    raise
                self.say(f"{error.cause} Trying again.")
                self.pause(2.0**idle / 2)

    def _append(self, file: HubFile, target: Path) -> None:
        start = bytes_at(target)
        reading = self.client.reading(self.repository, self.commit, file.name, start)
        with reading as (begins, chunks), target.open("ab") as out:
            if begins != start:
                self.progress.advance(begins - start)
            out.truncate(begins)
            for chunk in chunks:
                out.write(chunk)
                out.flush()  # what has arrived must outlive a kill
                self.progress.advance(len(chunk))
                if out.tell() > file.bytes:
                    return  # too long: what was promised is wrong, and the hash will say so
