"""Facts about the machine around the board. No host name, no user name, no path, no serial."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.device.isolation import container_kind
from ecocompute_cube.model.base import Absent, MaybeInt, MaybeStr, present, sha256_hex
from ecocompute_cube.model.journal import Host

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Packages whose versions decide what was measured.
_PACKAGES: Final = (
    "torch",
    "transformers",
    "bitsandbytes",
    "torchao",
    "triton",
    "accelerate",
    "safetensors",
    "tokenizers",
    "numpy",
    "nvidia-ml-py",
)


def host_facts(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> Host:
    """What /proc and /sys below ``root`` say of this machine."""
    return Host(
        platform=platform.platform(),
        cpu=_cpu(root),
        cores=len(os.sched_getaffinity(0)),
        memory_mib=_memory(root),
        boot_sha256=_boot(root),
        container=container_kind(root, environment),
        wsl2=_wsl2(root),
        governor=_governor(root),
    )


def package_versions() -> dict[str, str]:
    """Installed versions of the packages that matter; missing ones are left out."""
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _read(path: Path) -> str | Absent:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return Absent(reason=f"/{path.name}: {error.strerror or 'unreadable'}")


def _cpu(root: Path) -> MaybeStr:
    text = _read(root / "proc/cpuinfo")
    if isinstance(text, Absent):
        return text
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return Absent(reason="/proc/cpuinfo names no model")


def available_mib(root: Path) -> MaybeInt:
    """Memory that programs could have now, by the system's estimate."""
    return _meminfo(root, "MemAvailable", "an estimate of what is available")


def _memory(root: Path) -> MaybeInt:
    return _meminfo(root, "MemTotal", "total")


def _meminfo(root: Path, name: str, what: str) -> MaybeInt:
    text = _read(root / "proc/meminfo")
    if isinstance(text, Absent):
        return text
    for line in text.splitlines():
        key, _, value = line.partition(":")
        number = value.split()[:1]
        if key == name and number and number[0].isdecimal():
            return int(number[0]) // 1024
    return Absent(reason=f"/proc/meminfo has no {what}")


def _wsl2(root: Path) -> bool | Absent:
    """By the name of the kernel (…-microsoft-standard-WSL2), which a container in it shows too."""
    release = _read(root / "proc/sys/kernel/osrelease")
    return "microsoft" in release.lower() if present(release) else release


def _governor(root: Path) -> MaybeStr:
    text = _read(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if isinstance(text, Absent):
        return Absent(reason="the system names no governor of the processor's clock")
    return text.strip() or Absent(reason="/scaling_governor is empty")


def _boot(root: Path) -> str | Absent:
    text = _read(root / "proc/sys/kernel/random/boot_id")
    if isinstance(text, Absent):
        return text
    if not text.strip():  # a hash of nothing would make all such boots the same one
        return Absent(reason="/boot_id is empty")
    return sha256_hex(text.strip().encode())
