"""What lies between a run and its host is told by the marks that container runtimes leave."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.device.host import host_facts
from ecocompute_cube.device.isolation import isolation, namespace_inode
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.journal import Isolation

from .machine import HOST_IPC, make_machine

NO_SIGN = Absent(reason="no sign of a container")


def seen(root: Path, **environment: str) -> Isolation:
    return isolation(root, environment, locked=True)


def test_a_plain_host(tmp_path: Path) -> None:
    host = seen(make_machine(tmp_path))
    assert host.container == NO_SIGN
    assert (host.host_ipc, host.host_pids, host.board_lock) == (True, True, "host")
    assert host.image == Absent(reason="ECO_IMAGE is not set")
    assert present(host.shm_mib) and host.shm_mib > 0


@pytest.mark.parametrize(
    ("signs", "environment", "kind"),
    [
        (".dockerenv", {}, "docker"),
        ("run/.containerenv", {}, "podman"),
        (".singularity.d/labels", {}, "other"),
        ("", {"container": "docker"}, "docker"),
        ("", {"container": "podman"}, "podman"),
        ("", {"container": "lxc"}, "other"),
        ("", {"container": "oci"}, "other"),
        ("", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "other"),
    ],
)
def test_every_mark_of_a_container(
    tmp_path: Path, signs: str, environment: dict[str, str], kind: str
) -> None:
    root = make_machine(tmp_path, signs=signs)
    assert seen(root, **environment).container == kind
    assert host_facts(root, environment).container == kind


def test_an_empty_word_is_no_container(tmp_path: Path) -> None:
    assert seen(make_machine(tmp_path), container="").container == NO_SIGN


def test_a_container_with_its_own_namespaces_locks_only_within(tmp_path: Path) -> None:
    own = seen(make_machine(tmp_path, ipc=4026532561, pids=4026532563, signs=".dockerenv"))
    assert (own.host_ipc, own.host_pids, own.board_lock) == (False, False, "namespace")


def test_a_container_with_the_hosts_ipc_locks_for_the_host(tmp_path: Path) -> None:
    shared = seen(make_machine(tmp_path, pids=4026532563, signs=".dockerenv"))
    assert (shared.host_ipc, shared.host_pids, shared.board_lock) == (True, False, "host")


@pytest.mark.parametrize(("signs", "reach"), [(".dockerenv", "namespace"), ("", "host")])
def test_where_namespaces_are_not_told_the_container_decides(
    tmp_path: Path, signs: str, reach: str
) -> None:
    found = seen(make_machine(tmp_path, ipc=None, pids=None, signs=signs))
    assert found.host_ipc == Absent(reason="/proc/self/ns/ipc: No such file or directory")
    assert not present(found.host_pids)
    assert found.board_lock == reach


def test_a_board_that_was_not_locked_is_not_called_locked(tmp_path: Path) -> None:
    assert not present(isolation(make_machine(tmp_path), {}).board_lock)


def test_no_shared_memory_at_all(tmp_path: Path) -> None:
    size = seen(tmp_path).shm_mib
    assert isinstance(size, Absent)
    assert size.reason.endswith("No such file or directory")


@pytest.mark.parametrize("text", ["0.1.0+abcdef0", "1", "0.2.0rc1+1234567-dirty"])
def test_the_images_version_is_told(tmp_path: Path, text: str) -> None:
    assert seen(tmp_path, ECO_IMAGE=text).image == text


@given(text=st.text(min_size=1))
def test_of_an_image_nothing_but_a_version_is_repeated(text: str) -> None:
    image = isolation(Path("/nowhere"), {"ECO_IMAGE": text}).image
    harmless = re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,79}", text, re.ASCII)
    assert image == (text if harmless else Absent(reason="ECO_IMAGE is no version"))


@pytest.mark.parametrize("text", ["/srv/build", "registry.example/eco:1", "a" * 81, "1.0\n", "-v"])
def test_a_path_or_a_registry_is_no_version(tmp_path: Path, text: str) -> None:
    assert not present(seen(tmp_path, ECO_IMAGE=text).image)


@given(inode=st.integers(0, 2**63))
def test_every_namespace_is_read_back(inode: int) -> None:
    assert namespace_inode("ipc", f"ipc:[{inode}]") == inode


@given(text=st.text())
def test_what_is_no_namespace_has_a_reason(text: str) -> None:
    found = namespace_inode("pid", text)
    assert present(found) == bool(re.fullmatch(r"pid:\[[0-9]{1,20}\]", text, re.ASCII))


@pytest.mark.parametrize(
    "text", [f"ipc:[{HOST_IPC}]", f"pid:[{HOST_IPC}", "pid:[]", "pid:[\u0663]"]
)
def test_another_namespaces_link_is_not_taken(text: str) -> None:
    assert not present(namespace_inode("pid", text))


def test_neither_identity_nor_path_of_a_container_is_told(tmp_path: Path) -> None:
    root = make_machine(tmp_path, signs=".dockerenv")
    told = isolation(root, {"HOSTNAME": "0123456789ab", "ECO_IMAGE": "/srv/x"}).model_dump_json()
    assert "0123456789ab" not in told and str(tmp_path) not in told and "/srv" not in told


def test_an_image_that_does_not_know_its_revision_has_none(tmp_path: Path) -> None:
    image = seen(tmp_path, ECO_IMAGE="0.1.0+unknown").image
    assert image == Absent(reason="the image was built without its revision")
