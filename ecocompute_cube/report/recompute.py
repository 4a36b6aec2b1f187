"""Comparing an energy.json with what its journal gives. Light until there is a journal to read."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from ecocompute_cube.errors import EcoError, UsageError
from ecocompute_cube.model.journal_file import JOURNAL_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

ARMS_FOLDER: Final = "arms"
#: Words, not figures: they may be put better in a later version; figures must not change.
_PROSE: Final = frozenset({"cause", "fix", "note", "reason", "notice", "reasons"})
_SENTENCE: Final = "says"  # a finding, a colon, and words around figures: the words may change
_FIGURE: Final = re.compile(r"\d+(?:\.\d+)?")


def _texts(folder: Path) -> Mapping[str, str]:
    try:
        from ecocompute_cube.report.write import energy_texts
    except ImportError as error:
        raise _missing(error) from None
    return energy_texts(folder)


def recompute(
    path: Path,
    document: dict[str, object],
    texts: Callable[[Path], Mapping[str, str]] = _texts,
) -> list[str] | None:
    """One sentence a figure that the journal does not give; None where there is no journal.

    The journal is looked for where ``measure`` puts it, two folders up; ``texts`` gives every arm's
    document of a run. Raises JournalBroken, and UsageError when the libraries that compute are not
    installed.
    """
    journal = journal_of(path)
    if path.parent.parent.name != ARMS_FOLDER or not journal.exists():
        return None
    again = texts(journal.parent).get(path.parent.name)
    if again is None:
        return [f"the journal has no arm {path.parent.name}"]
    return _differences(document, json.loads(again), "")


def journal_of(document: Path) -> Path:
    """Where ``measure`` puts the journal that a document is computed from."""
    return document.parent.parent.parent / JOURNAL_NAME


def _missing(error: ImportError) -> EcoError:
    return UsageError(
        f"The figures cannot be recomputed: {error.name or 'a library'} is not installed.",
        "Run make setup, or install the package with its 'report' extra.",
    )


def _differences(given: object, expected: object, place: str) -> list[str]:
    if isinstance(given, list) and isinstance(expected, list) and len(given) == len(expected):
        given, expected = dict(enumerate(given)), dict(enumerate(expected))
    if isinstance(given, dict) and isinstance(expected, dict):
        return [
            line
            for key in sorted({*given, *expected} - _PROSE)
            if not str(key).endswith("_note")
            for line in _differences(given.get(key), expected.get(key), f"{place}.{key}".strip("."))
        ]
    if given == expected or (place.endswith(f".{_SENTENCE}") and _alike(given, expected)):
        return []
    return [f"{place} is {given!r} here, but the journal gives {expected!r}"]


def _alike(given: object, expected: object) -> bool:
    """Whether two sentences find the same and hold the same figures, in whatever words."""
    if not isinstance(given, str) or not isinstance(expected, str):
        return False
    return _gist(given) == _gist(expected)


def _gist(sentence: str) -> tuple[str, list[str]]:
    return sentence.partition(":")[0], _FIGURE.findall(sentence)
