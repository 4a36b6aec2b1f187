"""A home for the arms' processes where the user has none: a container's user id without a name.

PyTorch, Triton and the hub's libraries keep what they compile and fetch below HOME.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Where each library writes, unless the user has said where.
_CACHES: Final = {
    "XDG_CACHE_HOME": ".cache",
    "TORCHINDUCTOR_CACHE_DIR": ".cache/torchinductor",
    "TRITON_CACHE_DIR": ".triton/cache",
}


@contextlib.contextmanager
def with_home(
    environment: Mapping[str, str], make: Callable[[], str] = tempfile.mkdtemp
) -> Iterator[dict[str, str]]:
    """The environment, with a home that can be written: its own, or a temporary one.

    Without room for a temporary one it stays as it is: most of what writes there can do without.
    """
    named = {**_named(), **environment}
    if _writable(environment.get("HOME", "")):
        yield named
        return
    try:
        home = make()
    except OSError:
        yield named
        return
    try:
        caches = {name: str(Path(home, place)) for name, place in _CACHES.items()}
        yield {**caches, **named, "HOME": home}
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _writable(home: str) -> bool:
    return bool(home) and os.path.isdir(home) and os.access(home, os.W_OK | os.X_OK)


def _named() -> dict[str, str]:
    """A user's name for what asks getpass, where the system knows none for this user id."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return {"USER": "nobody"}
    return {}
