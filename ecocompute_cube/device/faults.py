"""What is wrong with a container that should have a GPU, and what to type instead."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

from ecocompute_cube.device.isolation import container_kind, has_gpu_files
from ecocompute_cube.errors import NoDevice, NvmlMissing
from ecocompute_cube.model.base import present

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_LIBRARY_NOT_FOUND: Final = 12  # nvml.h NVML_ERROR_LIBRARY_NOT_FOUND
_DRIVER_NOT_LOADED: Final = 9  # nvml.h NVML_ERROR_DRIVER_NOT_LOADED: also without device files
_CUDA: Final = "libcuda.so.1"
_CAPABILITIES: Final = "NVIDIA_DRIVER_CAPABILITIES=compute,utility"


def start_fault(code: int, root: Path, environment: Mapping[str, str]) -> NoDevice | None:
    """Why NVML does not start in this container; None outside, or when that is not the reason."""
    if not present(container_kind(root, environment)):
        return None
    if code in {_LIBRARY_NOT_FOUND, _DRIVER_NOT_LOADED} and not has_gpu_files(root):
        return NvmlMissing(
            "This container was started without a GPU: there are no NVIDIA device files in it.",
            "Add --gpus=all to docker run (podman: --device=nvidia.com/gpu=all); with mlcube use "
            "mlcube.yaml, not mlcube.cpu.yaml. Without a board you can still rehearse: ecocompute "
            "measure --rehearse.",
        )
    if code == _LIBRARY_NOT_FOUND:
        return NvmlMissing(
            "This container has NVIDIA device files, but not the driver's library "
            "libnvidia-ml.so.1.",
            "Install the NVIDIA container toolkit on the host, and start the container with "
            f"--gpus=all and {_CAPABILITIES}: without 'utility' the library is left out.",
        )
    return None


def require_cuda(
    root: Path,
    environment: Mapping[str, str],
    load: Callable[[str], object] = ctypes.CDLL,
) -> None:
    """See that a container has the driver's CUDA library, which NVML does without.

    Raises NoDevice.
    """
    if not present(container_kind(root, environment)):
        return
    try:
        load(_CUDA)
    except OSError:
        raise NoDevice(
            f"NVML answers in this container, but the driver's CUDA library {_CUDA} is not there.",
            f"Start the container with {_CAPABILITIES}: without 'compute' the library is left out.",
        ) from None
