"""One lock a board, which every run on the host sees that shares its /dev/shm.

The lock is an flock on an empty file: the system lets go of it when the process ends, however it
ends. The file stays; removing it would take the lock from a run that waits at the door. (systemd
removes a user's files there when that user logs out for good: logind.conf(5), RemoveIPC.)
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from typing import TYPE_CHECKING, Final

from ecocompute_cube.device.isolation import SHM
from ecocompute_cube.model.base import Absent, sha256_hex

if TYPE_CHECKING:
    from pathlib import Path

#: Never through a link that another user has put there; never waiting for a pipe's other end.
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TRIES: Final = 10  # the file may come or go between two looks
_WORLD: Final = 0o666  # other users' runs open it too


class Claim:
    """A board held against other runs, or the reason why it cannot be."""

    def __init__(self, descriptor: int | Absent) -> None:
        self._descriptor = descriptor

    @property
    def trouble(self) -> str | None:
        """Why the board is not locked."""
        return self._descriptor.reason if isinstance(self._descriptor, Absent) else None

    def close(self) -> None:
        """Let others have the board."""
        if isinstance(self._descriptor, int):
            os.close(self._descriptor)
            self._descriptor = Absent(reason="the lock was given back")


def lock_name(uuid: str) -> str:
    """The lock's file: by a hash that is not the one in documents, never the UUID itself."""
    return f"ecocompute-{sha256_hex(b'ecocompute board lock ' + uuid.encode())[:32]}.lock"


def claim(uuid: str, root: Path) -> Claim | None:
    """Hold a board; None when another run does. What cannot be locked is claimed with a reason."""
    folder = root / SHM
    if not folder.is_dir():
        return Claim(Absent(reason=f"there is no /{SHM}"))
    try:
        return _locked(folder / lock_name(uuid))
    except OSError as error:
        why = error.strerror or type(error).__name__
        return Claim(Absent(reason=f"its lock in /{SHM} cannot be opened: {why}"))


def _locked(path: Path) -> Claim | None:
    for _ in range(_TRIES):
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(path, descriptor):
                return Claim(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _open(path: Path) -> int:
    """Open without O_CREAT first: fs.protected_regular refuses it on another user's file."""
    for _ in range(_TRIES):
        try:
            return _regular(os.open(path, _FLAGS))
        except FileNotFoundError:
            pass
        try:
            return _created(path)
        except FileExistsError:
            continue
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _created(path: Path) -> int:
    mask = os.umask(0)
    try:
        return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, _WORLD)
    finally:
        os.umask(mask)


def _regular(descriptor: int) -> int:
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a file")


def _is(path: Path, descriptor: int) -> bool:
    """Whether the file that was locked is still the one under this name."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False
