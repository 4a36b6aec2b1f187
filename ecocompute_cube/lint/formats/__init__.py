"""How findings are written: one module a format, each a function from what was found to a text."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecocompute_cube.lint.found import Found

FORMATS: Final = ("text", "json", "sarif", "github", "markdown", "junit")


def written(found: Found, form: str) -> str:
    """What was found, in one of the formats."""
    module = import_module(f"{__name__}.{form}")
    write: Callable[[Found], str] = module.written
    return write(found)
