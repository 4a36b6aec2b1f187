"""How an error is told by the doors: what is wrong, with which parameter, what would be right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ecocompute_cube.analysis.cards import ARCHES
from ecocompute_cube.analysis.query import RUNTIMES
from ecocompute_cube.analysis.shapes import BITS
from ecocompute_cube.errors import EcoError, UsageError
from ecocompute_cube.model.base import printable
from ecocompute_cube.service.answers import FORMS

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMED: Final = re.compile(r"'?([^':]{1,41})'?: ")
_SUPPORTED: Final[Mapping[str, tuple[str, ...]]] = {
    "arch": tuple(ARCHES),
    "precision": tuple(BITS),
    "runtime": RUNTIMES,
    "form": FORMS,
}


def mistake(error: EcoError) -> dict[str, Any]:
    """``error``: a sentence of cause; ``fix``, ``parameter`` and, of few choices, ``supported``."""
    told: dict[str, Any] = {"error": printable(error.cause), "fix": printable(error.fix)}
    if isinstance(error, UsageError) and (named := _NAMED.match(error.cause)):
        told["parameter"] = printable(named[1])
        if named[1] in _SUPPORTED:
            told["supported"] = list(_SUPPORTED[named[1]])
    return told
