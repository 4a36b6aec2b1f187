"""Writing a journal so that no crash loses or tears a fact, and reading it back.

A line is written, flushed and fsynced before the next thing happens. A crash can leave at most one
torn line at the end: reading drops and names it, resuming sets it aside in a file of its own.
Any other break of the chain is an error.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from ecocompute_cube.errors import JournalBroken, PlanError, output_error
from ecocompute_cube.model.base import canonical_json, sha256_hex
from ecocompute_cube.model.files import sync_folder, write_whole
from ecocompute_cube.model.journal import (
    GENESIS,
    Fact,
    Line,
    RunOpened,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

JOURNAL_NAME = "journal.jsonl"
_MOST_DIGITS = 19  # of a number in 64 bits, and in a computation in floating point
_LONG = re.compile(rb"[:,\[]-?\d{%d}" % (_MOST_DIGITS + 1))  # or such digits in a text


class Journal(NamedTuple):
    """A journal read back: its whole lines, its last hash, and the bytes of a torn end."""

    lines: tuple[Line, ...]
    head: str  #: SHA-256 of the last whole line
    torn: bytes

    @property
    def records(self) -> tuple[Fact, ...]:
        """The facts in order."""
        return tuple(line.record for line in self.lines)


def read_journal(path: Path) -> Journal:
    """Every whole line, checked against the chain.

    Raises JournalBroken for a line that does not follow from the one before it, or for a journal
    without a single whole line.
    """
    if path.exists() and not path.is_file():  # a pipe or a device might never end
        raise JournalBroken(f"{path.name} is not a regular file.", "Restore the original file.")
    *whole, torn = path.read_bytes().split(b"\n")
    lines: list[Line] = []
    head = GENESIS
    for number, raw in enumerate(whole):
        lines.append(_follows(raw, number, head, path.name))
        head = sha256_hex(raw)
    if not lines:
        raise JournalBroken(
            f"{path.name} holds no whole line.", "Remove that run's folder and measure again."
        )
    return Journal(tuple(lines), head, torn)


def _follows(raw: bytes, number: int, head: str, name: str) -> Line:
    try:
        line = Line.model_validate_json(raw)
    except (ValidationError, PlanError) as error:  # PlanError: a model that this version lacks
        raise JournalBroken(
            f"{name}, line {number + 1}: {_wrong(error)}",
            "The journal was edited or written by another version; restore the original file.",
        ) from None
    if _LONG.search(raw) and _has_long_number(raw):
        raise JournalBroken(
            f"{name}, line {number + 1}: a number is longer than any clock or counter shows.",
            "The journal was edited; restore the original file.",
        )
    if line.prev != head or line.seq != number:
        raise JournalBroken(
            f"{name}, line {number + 1} does not follow from the line before it.",
            "The journal was edited; restore the original file.",
        )
    if isinstance(line.record, RunOpened):
        _check_plan(raw, line.record, name)
    return line


def _has_long_number(raw: bytes) -> bool:
    digits: list[str] = []
    json.loads(raw, parse_int=digits.append)
    return any(len(number.lstrip("-")) > _MOST_DIGITS for number in digits)


def _check_plan(raw: bytes, run: RunOpened, name: str) -> None:
    """The plan is the one whose hash was stored with it, as it was written or as it is read today.

    A plan written by an earlier version has fewer fields than it is read with.
    """
    written = canonical_json(json.loads(raw)["record"]["plan"])
    if run.plan_sha256 not in (sha256_hex(written.encode()), run.plan.sha256):
        raise JournalBroken(
            f"{name}, line 1: the plan is not the one whose hash was stored with it.",
            "The journal was edited; restore the original file.",
        )


def _wrong(error: ValidationError | PlanError) -> str:
    if isinstance(error, PlanError):
        return error.cause
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place or 'not a record'}: {first['msg']}."


class JournalWriter:
    """Appends facts to one journal, each on disk before ``append`` returns.

    ``sync`` brings a file to the disk; tests see there what a crash would leave.
    """

    def __init__(
        self,
        path: Path,
        utc_now: Callable[[], str],
        head: str,
        seq: int,
        sync: Callable[[int], None] = os.fsync,
    ) -> None:
        self._utc_now = utc_now
        self._head = head
        self._seq = seq
        self._sync = sync
        try:
            self._file = path.open("ab" if seq else "xb", buffering=0)
            self._size = os.fstat(self._file.fileno()).st_size
            sync_folder(path.parent)
        except OSError as error:
            raise output_error(error, f"open {path.name}") from error

    @classmethod
    def create(
        cls, path: Path, utc_now: Callable[[], str], sync: Callable[[int], None] = os.fsync
    ) -> JournalWriter:
        """A writer for a journal that does not exist yet. Raises OutputError when it does."""
        return cls(path, utc_now, GENESIS, 0, sync)

    @classmethod
    def resume(
        cls, path: Path, utc_now: Callable[[], str], sync: Callable[[int], None] = os.fsync
    ) -> tuple[JournalWriter, Journal]:
        """A writer that goes on after the last whole line; a torn end is set aside beside it.

        Raises JournalBroken as ``read_journal`` does, OutputError if the folder refuses.
        """
        journal = read_journal(path)
        if journal.torn:
            _set_aside(path, journal)
        return cls(path, utc_now, journal.head, len(journal.lines), sync), journal

    def append(self, record: Fact) -> None:
        """Write one fact and wait until it is on the disk.

        Raises DiskFull or OutputError. Whatever is raised, Ctrl-C too, the journal is whole up to
        this fact or the one before, and may be appended to.
        """
        line = Line(seq=self._seq, prev=self._head, utc=self._utc_now(), record=record)
        raw = canonical_json(line.model_dump(mode="json")).encode()
        try:
            self._trim()
            _write_all(self._file.fileno(), raw + b"\n")
            self._count(raw)  # before the sync, where an interrupt is likeliest to arrive
            self._sync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._trim()
            raise output_error(error, "write the journal") from error

    def _trim(self) -> None:
        """Cut off what a failed or interrupted write left after the last counted line."""
        if os.fstat(self._file.fileno()).st_size > self._size:
            os.ftruncate(self._file.fileno(), self._size)

    def _count(self, raw: bytes) -> None:
        self._size += len(raw) + 1
        self._head = sha256_hex(raw)
        self._seq += 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _set_aside(path: Path, journal: Journal) -> None:
    write_whole(_unused(path, len(journal.lines)), journal.torn)
    try:
        os.truncate(path, path.stat().st_size - len(journal.torn))
    except OSError as error:
        raise output_error(error, "set the unfinished last line aside") from error


def _unused(path: Path, lines: int) -> Path:
    """A name for a torn end that no earlier one has taken."""
    names = (f"{path.stem}.torn-{lines}{f'-{n}' if n else ''}" for n in itertools.count())
    return next(aside for name in names if not (aside := path.with_name(name)).exists())
