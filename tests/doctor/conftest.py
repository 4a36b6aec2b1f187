from __future__ import annotations

from ..device.conftest import libraries, stub  # noqa: F401 (the stand-in for the driver's library)
