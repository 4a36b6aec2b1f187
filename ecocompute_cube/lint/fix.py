"""``--fix``: the edits that change nothing but waste, written whole or not at all."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

from ecocompute_cube.lint.found import NotRead
from ecocompute_cube.lint.sources import decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ecocompute_cube.lint.found import Edit, Finding


def fixed(text: str, edits: Iterable[Edit]) -> tuple[str, int]:
    """A text with its edits, and how many were made; of two that overlap the first is."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    spans = sorted(
        (starts[e.place.line - 1] + e.place.column - 1, _end(starts, e), e.text) for e in set(edits)
    )
    parts, at, made = [], 0, 0
    for start, end, new in spans:
        if start < at or end > len(text):
            continue
        parts += [text[at:start], new]
        at, made = end, made + 1
    return "".join([*parts, text[at:]]), made


def _end(starts: Sequence[int], edit: Edit) -> int:
    return starts[edit.place.end_line - 1] + edit.place.end_column - 1


def fix_file(path: Path, findings: Sequence[Finding]) -> int:
    """Edit a Python file; how many edits were made. Raises OutputError."""
    from ecocompute_cube.model.files import write_whole

    data = path.read_bytes()
    try:
        before = decoded(data, "python")
    except NotRead:
        return 0
    after, made = fixed(before.text, [edit for each in findings for edit in each.edits])
    if not made or not _parses(after):
        return 0
    mode = path.stat().st_mode
    text = after.replace("\n", before.newline)
    write_whole(path.resolve(), text.encode(before.encoding))
    path.chmod(mode)
    return made


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
