"""Whether this machine has an NVIDIA driver at all, found out without loading anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_SIGNS: Final = ("proc/driver/nvidia", "dev/nvidiactl", "dev/dxg")  # the last: WSL2


def driver_present(root: Path = Path("/")) -> bool:
    """A driver that is here but does not answer is a fault to be told, not a rehearsal."""
    return any(os.path.exists(root / sign) for sign in _SIGNS)
