"""Which lines a change adds, as git tells."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.lint.found import Place

_HUNK: Final = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")
_PLAIN: Final = ("--no-color", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/")
_EVERY: Final = (1, 2**31)
_ESCAPES: Final = re.compile(rb"\\([0-7]{3}|.)")
_NAMED: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f"}

Lines = dict[Path, list[tuple[int, int]]]  #: from and to, by real path


def added_lines(reference: str, folder: Path) -> Lines:
    """The lines that are new since a commit, in files that are there. Raises UsageError."""
    if not reference or reference.startswith("-"):
        raise UsageError(f"'{reference}' is no commit.", "Name a branch, tag or commit.")
    root = Path(os.fsdecode(_git(folder, "rev-parse", "--show-toplevel").rstrip(b"\n")))
    common = _try(folder, "merge-base", reference, "HEAD")
    base = os.fsdecode(common).strip() if common is not None else reference
    told = _git(folder, "diff", "-U0", *_PLAIN, base, "--")
    lines = {root / name: found for name, found in parse_diff(told).items()}
    others = _git(folder, "ls-files", "--others", "--exclude-standard", "-z", "--full-name")
    for each in filter(None, others.split(b"\0")):
        lines[root / os.fsdecode(each)] = [_EVERY]
    return lines


def touches(lines: Sequence[tuple[int, int]], place: Place) -> bool:
    """Whether a stretch holds one of these lines."""
    return any(first <= place.end_line and place.line <= last for first, last in lines)


def parse_diff(told: bytes) -> dict[str, list[tuple[int, int]]]:
    """The added lines of each file of a patch without context."""
    found: dict[str, list[tuple[int, int]]] = {}
    current: list[tuple[int, int]] | None = None
    left = 0  # lines of a hunk still to come: they may look like headers
    for line in told.split(b"\n"):
        if left and line[:1] in (b"+", b"-", b"\\"):
            left -= line[:1] != b"\\"
            continue
        hunk = _HUNK.match(line.decode("ascii", "replace"))
        if hunk is not None:
            first, count = int(hunk[1]), int(hunk[2] or 1)
            left = count + _removed(line)
            if current is not None and count:
                current.append((first, first + count - 1))
        elif line.startswith(b"+++ "):
            name = _name(line[4:])
            current = None if name is None else found.setdefault(name, [])
    return found


def _removed(line: bytes) -> int:
    old = line.split(b" ")[1]
    return int(old.split(b",")[1]) if b"," in old else 1


def _name(told: bytes) -> str | None:
    """A file's name of a patch, unquoted; None for a file that is gone."""
    told = told.rstrip(b"\t\r")
    if told.startswith(b'"'):
        told = _ESCAPES.sub(_unescaped, told[1:-1])
    return None if told == b"/dev/null" else os.fsdecode(told.removeprefix(b"b/"))


def _unescaped(match: re.Match[bytes]) -> bytes:
    found = match[1]
    if len(found) > 1:
        return bytes([int(found, 8) & 0xFF])
    return _NAMED.get(found, found)


def _git(folder: Path, *words: str) -> bytes:
    found = _try(folder, *words)
    if found is None:
        raise UsageError(
            f"git {words[0]} does not answer for {words[-2] if len(words) > 1 else 'it'}.",
            "Run it within a clone that has the commit: fetch-depth: 0 in a workflow.",
        )
    return found


def _try(folder: Path, *words: str) -> bytes | None:
    try:
        done = subprocess.run(  # noqa: S603  # an argument list of our own, and no shell
            ["git", "-C", str(folder), *words],  # noqa: S607  # the user's git
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
