"""Notebooks: the code of all cells as one program, and where each of its lines stands."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from ecocompute_cube.lint.python import Unreadable, parsed

_CELL_MAGIC: Final = "%%"
_MOST_LOST: Final = 20  # lines that cannot be found again; each costs a look through the file


class Origin(NamedTuple):
    """Where a line of the program stands."""

    line: int  #: of the file
    cell: int  #: from 1
    column: int  #: of the file, where the line's first character stands


class Notebook(NamedTuple):
    """One program, and the origin of each of its lines."""

    source: str
    origins: tuple[Origin, ...]


def notebook(text: str) -> Notebook:
    """Read a notebook. Raises Unreadable."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable("no notebook that can be read") from None
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        raise Unreadable("no notebook of format 4")
    finder = _Finder(text)
    lines: list[str] = []
    origins: list[Origin] = []
    for number, cell in enumerate(cells, 1):
        source = _source(cell)
        places = [finder.place(each) for each in source]
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        code = _code([each.rstrip("\r\n") for each in source])
        lines += code
        origins += [Origin(line, number, column) for line, column in places]
    return Notebook("\n".join(lines), tuple(origins))


def _source(cell: object) -> list[str]:
    told = cell.get("source") if isinstance(cell, dict) else None
    if isinstance(told, str):
        return told.splitlines(keepends=True)
    if isinstance(told, list):
        return [part for each in told if isinstance(each, str) for part in each.splitlines(True)]
    return []


def _code(lines: list[str]) -> list[str]:
    """A cell without what IPython alone understands; blank where it is no Python even so."""
    if lines and lines[0].startswith(_CELL_MAGIC) and not lines[0].startswith("%%time"):
        return [""] * len(lines)
    kept = [_plain(line) for line in lines]
    try:
        parsed("\n".join(kept))
    except Unreadable:
        return [""] * len(lines)
    return kept


def _plain(line: str) -> str:
    bare = line.lstrip()
    if bare.startswith(("%", "!", "?")) or bare.rstrip().endswith("?"):
        return line[: len(line) - len(bare)] + "pass"
    return line


class _Finder:
    """Finds the lines of the cells in the file's own text, in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted = 0
        self._line = 1
        self._lost = 0

    def place(self, line: str) -> tuple[int, int]:
        """Line and column of a source line's first character."""
        forms = {json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1]}
        if self._lost > _MOST_LOST:
            return self._line, 1
        found = [self._text.find(form, self._at) for form in forms if form]
        known = [each for each in found if each >= 0]
        if not known:
            self._lost += bool(found)
            return self._line, 1
        start = min(known)
        self._line += self._text.count("\n", self._counted, start)
        self._counted = start
        self._at = start + max(1, len(line))
        return self._line, start - self._text.rfind("\n", 0, start)
