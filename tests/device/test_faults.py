"""A container that was started wrongly is told apart from a host without a driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecocompute_cube.device.faults import require_cuda, start_fault
from ecocompute_cube.errors import NoDevice

NOT_FOUND, NOT_LOADED, NO_PERMISSION = 12, 9, 4


def machine(root: Path, *files: str) -> Path:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def told(code: int, root: Path, **environment: str) -> str:
    fault = start_fault(code, root, environment)
    assert fault is not None
    assert fault.exit_status == 3
    return str(fault)


@pytest.mark.parametrize("code", [NOT_FOUND, NOT_LOADED])
def test_a_container_without_a_gpu(tmp_path: Path, code: int) -> None:
    words = told(code, machine(tmp_path, ".dockerenv"))
    assert "started without a GPU" in words
    assert "--gpus=all" in words and "mlcube.yaml, not mlcube.cpu.yaml" in words


@pytest.mark.parametrize("device", ["dev/nvidiactl", "dev/nvidia0", "dev/nvidia12", "dev/dxg"])
def test_a_container_whose_driver_was_not_mounted(tmp_path: Path, device: str) -> None:
    words = told(NOT_FOUND, machine(tmp_path, device), container="lxc")
    assert "device files, but not the driver's library libnvidia-ml.so.1" in words
    assert "container toolkit" in words and "'utility'" in words


def test_a_folder_of_device_nodes_alone_is_no_gpu(tmp_path: Path) -> None:
    words = told(NOT_FOUND, machine(tmp_path, ".dockerenv", "dev/nvidia-caps/x", "dev/nvidia-uvm"))
    assert "started without a GPU" in words


@pytest.mark.parametrize("code", [NOT_FOUND, NOT_LOADED, NO_PERMISSION])
@pytest.mark.parametrize("files", [(), ("dev/nvidiactl",)])
def test_outside_a_container_nothing_is_added(
    tmp_path: Path, code: int, files: tuple[str, ...]
) -> None:
    assert start_fault(code, machine(tmp_path, *files), {}) is None


@pytest.mark.parametrize("code", [NOT_LOADED, NO_PERMISSION, 999])
def test_other_faults_keep_their_words_in_a_container(tmp_path: Path, code: int) -> None:
    assert start_fault(code, machine(tmp_path, ".dockerenv", "dev/nvidiactl"), {}) is None


def missing(library: str) -> object:
    raise OSError(f"{library}: cannot open shared object file: No such file or directory")


def test_a_container_without_the_cuda_library(tmp_path: Path) -> None:
    with pytest.raises(NoDevice, match=r"CUDA library libcuda\.so\.1 is not there") as refusal:
        require_cuda(machine(tmp_path, ".dockerenv"), {}, missing)
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in refusal.value.fix
    assert "'compute'" in refusal.value.fix
    assert refusal.value.exit_status == 3


def test_with_the_library_or_outside_a_container_all_is_well(tmp_path: Path) -> None:
    asked: list[str] = []
    require_cuda(tmp_path, {}, missing)
    require_cuda(machine(tmp_path, ".dockerenv"), {}, asked.append)
    assert asked == ["libcuda.so.1"]
