"""What lies between this program and its host: a container, namespaces, /dev/shm.

Namespaces are told by their inodes: the host's own have fixed ones. A virtual machine is a host.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.base import Absent, MaybeInt, MaybeStr, present
from ecocompute_cube.model.journal import (
    ContainerKind,
    Isolation,
    Reach,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_HOST_NAMESPACE: Final = {
    "ipc": 0xEFFF_FFFF,  # include/linux/proc_ns.h PROC_IPC_INIT_INO
    "pid": 0xEFFF_FFFC,  # include/linux/proc_ns.h PROC_PID_INIT_INO
}
_IMAGE: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,79}", re.ASCII)
_DEVICES: Final = ("dev/nvidiactl", "dev/nvidia[0-9]*", "dev/dxg")  # the last: WSL2
SHM: Final = "dev/shm"


def isolation(
    root: Path = Path("/"), environment: Mapping[str, str] = os.environ, *, locked: bool = False
) -> Isolation:
    """What is seen below ``root``; ``locked`` when this program holds the lock of its board."""
    kind, host_ipc = container_kind(root, environment), in_host_namespace("ipc", root)
    return Isolation(
        container=kind,
        host_ipc=host_ipc,
        host_pids=in_host_namespace("pid", root),
        shm_mib=_shm_mib(root),
        image=_image(environment.get("ECO_IMAGE", "")),
        board_lock=_reach(kind, host_ipc) if locked else Absent(reason="no board was locked"),
    )


def _reach(kind: ContainerKind | Absent, host_ipc: bool | Absent) -> Reach:
    if not present(host_ipc):
        return "namespace" if present(kind) else "host"
    return "host" if host_ipc else "namespace"


def container_kind(root: Path, environment: Mapping[str, str]) -> ContainerKind | Absent:
    """The kind of container this is, by the marks that runtimes leave."""
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    told = environment.get("container", "")  # systemd.io/CONTAINER_INTERFACE
    if told in {"docker", "podman"}:
        return "docker" if told == "docker" else "podman"
    if told or (root / ".singularity.d").exists() or "KUBERNETES_SERVICE_HOST" in environment:
        return "other"
    return Absent(reason="no sign of a container")


def in_host_namespace(name: str, root: Path = Path("/")) -> bool | Absent:
    """Whether this process is in the host's own ``ipc`` or ``pid`` namespace."""
    try:
        link = os.readlink(root / "proc/self/ns" / name)
    except OSError as error:
        return Absent(reason=f"/proc/self/ns/{name}: {error.strerror or 'unreadable'}")
    inode = namespace_inode(name, link)
    return inode == _HOST_NAMESPACE[name] if present(inode) else inode


def namespace_inode(name: str, link: str) -> int | Absent:
    """The number in ``ipc:[4026531839]`` (namespaces(7))."""
    found = re.fullmatch(rf"{name}:\[([0-9]{{1,20}})\]", link, re.ASCII)
    return int(found[1]) if found else Absent(reason=f"/proc/self/ns/{name} names no namespace")


def _shm_mib(root: Path) -> MaybeInt:
    try:
        size = os.statvfs(root / SHM)
    except OSError as error:
        return Absent(reason=f"/{SHM}: {error.strerror or 'unreadable'}")
    return size.f_blocks * size.f_frsize // 2**20


def _image(text: str) -> MaybeStr:
    """A version and a revision, such as ``0.1.0+abcdef0``; anything else is not repeated."""
    if not text:
        return Absent(reason="ECO_IMAGE is not set")
    if text.endswith("+unknown"):  # the Dockerfile's default: two such images may differ
        return Absent(reason="the image was built without its revision")
    return text if _IMAGE.fullmatch(text) else Absent(reason="ECO_IMAGE is no version")


def has_gpu_files(root: Path) -> bool:
    """Whether NVIDIA's device files are here; a container may have them without a driver."""
    return any(True for pattern in _DEVICES for _ in root.glob(pattern))
