"""What the linter hands out: findings, where they are, and files that were not read."""

from __future__ import annotations

import hashlib
from typing import Final, Literal, NamedTuple

Severity = Literal["error", "warning", "note"]
Level = Literal["error", "warning", "note", "never"]
LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "note", "never")
SEVERITIES: Final[tuple[Severity, ...]] = ("note", "warning", "error")  # rising


class Place(NamedTuple):
    """A stretch of text. Lines and columns count characters from 1; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int

    def within(self, line: int) -> bool:
        """Whether the stretch touches a line."""
        return self.line <= line <= self.end_line


class Edit(NamedTuple):
    """Text in place of a stretch."""

    place: Place
    text: str


class Evidence(NamedTuple):
    """What shipped measurements say of one arm on one board."""

    gpu: str
    arm: str  #: precision/runtime
    against: str
    params_b: float | None
    delta_pct: float | None  #: change of energy per token
    interval: tuple[float, float] | None  #: of another session, 95 %; None: no spread is known
    basis: str
    n: int  #: sessions
    sources: tuple[str, ...]
    conditional: bool = False  #: the card is not known to be this one


class Finding(NamedTuple):
    """One rule at one place of one file."""

    code: str
    severity: Severity
    path: str  #: as the user would write it, with /
    place: Place
    message: str
    fix: str  #: what to do, in a sentence
    evidence: tuple[Evidence, ...] = ()
    edits: tuple[Edit, ...] = ()  #: does the same as before, with less
    cell: int | None = None  #: of a notebook, from 1
    text: str = ""  #: the line it begins in, stripped

    def fingerprint(self) -> str:
        """The same while its file, rule and line's text are; not its line's number."""
        told = "\0".join((self.code, self.path, " ".join(self.text.split())))
        return hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()[:24]


class Skipped(NamedTuple):
    """A file that was not read, and why."""

    path: str
    reason: str


class NotRead(Exception):
    """A file that is not read, or cannot be; says why."""


class Found(NamedTuple):
    """One run."""

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    files: int  #: looked at
    suppressed: int = 0
    known: int = 0  #: in the baseline
    gpu: str | None = None

    def at_least(self, severity: Severity) -> int:
        """How many findings are that severe."""
        least = SEVERITIES.index(severity)
        return sum(SEVERITIES.index(each.severity) >= least for each in self.findings)
