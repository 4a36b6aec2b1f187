"""``# ecocompute: ignore[ECO101] reason`` at the end of a line, or alone above it."""

from __future__ import annotations

import io
import re
import tokenize
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.lint.found import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ecocompute_cube.lint.sources import Kind

_IGNORE: Final = re.compile(r"#\s*ecocompute:\s*ignore\b(?:\[([^\]\n]*)\])?[ \t]*([^\n]*)")
_MARK: Final = "ecocompute:"


class Ignore(NamedTuple):
    """One comment."""

    codes: tuple[str, ...]
    reason: str
    place: Place
    lines: tuple[int, int]  #: from and to that it speaks of


def ignores(text: str, kind: Kind) -> tuple[Ignore, ...]:
    """Every ignore of a file."""
    if _MARK not in text or kind == "json":
        return ()
    lines = text.split("\n")
    found = _comments(text) if kind in ("python", "notebook") else _hashes(lines)
    return tuple(
        each for line, column, comment in found for each in _read(line, column, comment, lines)
    )


def _comments(text: str) -> Iterator[tuple[int, int, str]]:
    """Real comments, not what looks like one within a text."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and _MARK in token.string:
                yield (*token.start, token.string)
    except (tokenize.TokenError, SyntaxError):
        return


def _hashes(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    for number, line in enumerate(lines, 1):
        column = line.find("#")
        if column >= 0 and _MARK in line[column:]:
            yield number, column, line[column:]


def _read(line: int, column: int, comment: str, lines: list[str]) -> Iterator[Ignore]:
    for match in _IGNORE.finditer(comment):
        alone = not lines[line - 1][:column].strip()
        codes = tuple(each.strip() for each in (match[1] or "").split(",") if each.strip())
        start = column + match.start() + 1
        place = Place(line, start, line, start + len(match[0].rstrip()))
        last = _next(line, lines) if alone else line
        yield Ignore(codes, match[2].strip(" -—:–\t"), place, (line, last))


def _next(line: int, lines: list[str]) -> int:
    """The next line that is no comment."""
    for number in range(line + 1, min(len(lines), line + 20) + 1):
        text = lines[number - 1].strip()
        if text and not text.startswith("#"):
            return number
    return line
