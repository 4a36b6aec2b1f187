"""A machine's folders as this program looks at them, made by a test."""

from __future__ import annotations

from pathlib import Path
from typing import Final

HOST_IPC: Final = 4026531839
HOST_PIDS: Final = 4026531836


def make_machine(
    root: Path, *, ipc: int | None = HOST_IPC, pids: int | None = HOST_PIDS, signs: str = ""
) -> Path:
    """A root with /dev/shm and these namespaces; ``signs`` are empty files in it."""
    (root / "dev/shm").mkdir(parents=True)
    (root / "proc/self/ns").mkdir(parents=True)
    for name, inode in {"ipc": ipc, "pid": pids}.items():
        if inode is not None:
            (root / "proc/self/ns" / name).symlink_to(f"{name}:[{inode}]")
    for sign in signs.split():
        (root / sign).parent.mkdir(parents=True, exist_ok=True)
        (root / sign).touch()
    return root
