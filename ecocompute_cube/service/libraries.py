"""What the doors need besides the core, looked for before anything is opened."""

from __future__ import annotations

import importlib.util
from typing import Final

from ecocompute_cube.errors import UsageError

REST: Final = ("fastapi", "uvicorn", "httptools", "uvloop")
TOOLS: Final = ("mcp",)


def require(*names: str) -> None:
    """Look for libraries without importing them. Raises UsageError."""
    lost = [name for name in names if importlib.util.find_spec(name) is None]
    if lost:
        raise UsageError(
            f"Python cannot find {', '.join(lost)}, which this command needs.",
            "Run `make setup`, or install ecocompute-cube[service].",
        )
