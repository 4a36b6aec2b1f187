"""What is told about the machine, and what never is."""

from __future__ import annotations

import getpass
import platform
import re
from pathlib import Path

import pytest

from ecocompute_cube.device.host import host_facts, package_versions
from ecocompute_cube.device.presence import driver_present
from ecocompute_cube.model.base import Absent, present, sha256_hex

CPUINFO = (
    "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\nflags\t\t: fpu\n\nmodel name\t: Other\n"
)
MEMINFO = "MemTotal:       16777216 kB\nMemFree:         1000 kB\n"
BOOT = "1f0b5c2e-0000-4000-8000-000000000001"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "proc/cpuinfo", CPUINFO)
    write(tmp_path, "proc/meminfo", MEMINFO)
    write(tmp_path, "proc/sys/kernel/random/boot_id", BOOT + "\n")
    return tmp_path


def write(root: Path, name: str, content: str | bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_facts_come_from_proc(root: Path) -> None:
    host = host_facts(root)
    assert host.cpu == "Some CPU @ 2.00GHz"
    assert host.memory_mib == 16384
    assert host.boot_sha256 == sha256_hex(BOOT.encode())
    assert host.cores >= 1
    assert host.platform == platform.platform()


def test_an_empty_machine_gives_reasons(tmp_path: Path) -> None:
    host = host_facts(tmp_path)
    assert host.cpu == Absent(reason="/cpuinfo: No such file or directory")
    assert host.memory_mib == Absent(reason="/meminfo: No such file or directory")
    assert host.boot_sha256 == Absent(reason="/boot_id: No such file or directory")
    assert host.container == Absent(reason="no sign of a container")
    assert host.wsl2 == Absent(reason="/osrelease: No such file or directory")


@pytest.mark.parametrize(
    "cpuinfo",
    ["", "CPU implementer\t: 0x41\n", "model name\n", "model name\t: \n", b"\xff\xfe\x00: \x80\n"],
    ids=["empty", "Arm", "no colon", "no value", "no text"],
)
def test_a_cpu_without_a_name_is_absent(root: Path, cpuinfo: str | bytes) -> None:
    write(root, "proc/cpuinfo", cpuinfo)
    assert host_facts(root).cpu == Absent(reason="/proc/cpuinfo names no model")


def test_a_cpu_name_in_odd_bytes_is_kept_as_far_as_it_is_text(root: Path) -> None:
    write(root, "proc/cpuinfo", b"model name\t: CPU\xae 9000\n")
    assert host_facts(root).cpu == "CPU\ufffd 9000"


@pytest.mark.parametrize(
    "meminfo", ["", "MemTotal:\n", "MemTotal: much kB\n", "MemTotal\n", "MemTotalish: 4 kB\n"]
)
def test_memory_that_cannot_be_read_is_absent(root: Path, meminfo: str) -> None:
    write(root, "proc/meminfo", meminfo)
    assert host_facts(root).memory_mib == Absent(reason="/proc/meminfo has no total")


@pytest.mark.parametrize("boot", ["", "\n"])
def test_an_empty_boot_id_does_not_make_all_boots_the_same(root: Path, boot: str) -> None:
    write(root, "proc/sys/kernel/random/boot_id", boot)
    assert host_facts(root).boot_sha256 == Absent(reason="/boot_id is empty")


def test_a_folder_in_a_files_place_is_a_reason(root: Path) -> None:
    (root / "proc/cpuinfo").unlink()
    (root / "proc/cpuinfo").mkdir()
    assert host_facts(root).cpu == Absent(reason="/cpuinfo: Is a directory")


@pytest.mark.parametrize(
    ("sign", "name"), [(".dockerenv", "docker"), ("run/.containerenv", "podman")]
)
def test_a_container_is_known_by_its_sign(root: Path, sign: str, name: str) -> None:
    write(root, sign, "")
    assert host_facts(root).container == name


@pytest.mark.parametrize(
    ("release", "windows"),
    [
        ("6.6.87.2-microsoft-standard-WSL2\n", True),
        ("4.4.0-19041-Microsoft\n", True),
        ("6.1.0-18-amd64\n", False),
        ("", False),
    ],
)
def test_nv_wsl_a_linux_under_windows_is_known_by_its_kernel(
    root: Path, release: str, windows: bool
) -> None:
    """NV-WSL: the environment says so; a container in it shows the same kernel."""
    write(root, "proc/sys/kernel/osrelease", release)
    assert host_facts(root).wsl2 is windows


def user_name() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return None


@pytest.mark.parametrize("secret", [platform.node(), user_name()])
def test_neither_host_nor_user_is_told(secret: str | None) -> None:
    if not secret:
        pytest.skip("this machine or this user has no name")
    told = host_facts().model_dump_json() + str(package_versions())
    assert re.search(rf"\b{re.escape(secret)}\b", told) is None


def test_the_boot_id_itself_is_not_told(root: Path) -> None:
    assert BOOT not in host_facts(root).model_dump_json()


def test_reasons_tell_no_path_of_this_machine(tmp_path: Path) -> None:
    assert str(tmp_path) not in host_facts(tmp_path).model_dump_json()


def test_versions_are_of_what_is_installed() -> None:
    versions = package_versions()
    assert "nvidia-ml-py" in versions
    assert all(re.match(r"\d+\.", version) for version in versions.values()), versions


# presence


def test_no_sign_of_a_driver(tmp_path: Path) -> None:
    assert not driver_present(tmp_path)


@pytest.mark.parametrize("sign", ["proc/driver/nvidia", "dev/nvidiactl", "dev/dxg"])
def test_each_sign_of_a_driver_is_enough(tmp_path: Path, sign: str) -> None:
    write(tmp_path, sign, "")
    assert driver_present(tmp_path)


def test_a_dangling_sign_is_none(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").symlink_to(tmp_path / "nothing")
    assert not driver_present(tmp_path)


def test_this_machines_own_facts_can_be_had() -> None:
    host = host_facts()
    assert present(host.memory_mib) and host.memory_mib > 0
