"""One run: files are read, facts judged, and what is ignored, known or old is left out."""

from __future__ import annotations

import contextlib
import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.lint.found import Finding, Found, NotRead, Place, Skipped
from ecocompute_cube.lint.sources import LARGEST, read, sources

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Sequence

    from ecocompute_cube.lint.changed import Lines
    from ecocompute_cube.lint.checks import Around
    from ecocompute_cube.lint.facts import Facts
    from ecocompute_cube.lint.notebook import Origin
    from ecocompute_cube.lint.sources import Kind, Source
    from ecocompute_cube.lint.suppress import Ignore

_FEW: Final = 400  # files; a second process takes longer to start than these to read
_AT_ONCE: Final = 32


class Asked(NamedTuple):
    """What is to be looked at, and what is known besides."""

    paths: tuple[Path, ...]
    gpu: str | None = None  #: full name of the card
    runtime: str | None = None
    largest: int | None = LARGEST
    excluded: Callable[[str], bool] = lambda name: False
    ignored: Callable[[str, str], bool] = lambda name, code: False
    changed: Lines | None = None
    known: Counter[str] | None = None


class Judged(NamedTuple):
    """One file's findings before anything is left out."""

    findings: tuple[Finding, ...] = ()
    suppressed: int = 0
    skipped: Skipped | None = None


def lint(asked: Asked) -> Found:
    """Look at everything. Raises UsageError."""
    skipped: list[Skipped] = []
    files = [
        each
        for each in sources(asked.paths, asked.excluded, skipped)
        if asked.changed is None or each.path.resolve() in asked.changed
    ]
    judged = list(_judged(files, asked))
    skipped += [each.skipped for each in judged if each.skipped is not None]
    findings = [finding for each in judged for finding in each.findings]
    findings = [f for f in findings if not asked.ignored(f.path, f.code)]
    findings = _added(files, findings, asked.changed)
    findings.sort(key=lambda f: (f.path, f.place.line, f.place.column, f.code))
    known = 0
    if asked.known is not None:
        from ecocompute_cube.lint.baseline import unknown

        new = unknown(findings, asked.known)
        known, findings = len(findings) - len(new), new
    return Found(
        findings=tuple(findings),
        skipped=tuple(sorted(skipped)),
        files=len(files),
        suppressed=sum(each.suppressed for each in judged),
        known=known,
        gpu=asked.gpu,
    )


def _added(
    files: Sequence[Source], findings: list[Finding], changed: Lines | None
) -> list[Finding]:
    if changed is None:
        return findings
    from ecocompute_cube.lint.changed import touches

    lines = {each.name: changed[each.path.resolve()] for each in files}
    return [each for each in findings if touches(lines[each.path], each.place)]


def _judged(files: Sequence[Source], asked: Asked) -> Iterator[Judged]:
    job = _Job(asked.gpu, asked.runtime, asked.largest)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if len(files) <= _FEW or cores == 1:
        with _seldom_collected():
            for n, each in enumerate(files):
                if n % _AT_ONCE == _AT_ONCE - 1:
                    gc.collect(0)
                yield job(each)
        return
    import multiprocessing

    batches = [files[n : n + _AT_ONCE] for n in range(0, len(files), _AT_ONCE)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for found in pool.imap(job.all, batches):
            yield from found


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """Trees are large and short-lived: to look for circles after each is half the time."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


class _Job(NamedTuple):
    """What a second process is told once."""

    gpu: str | None
    runtime: str | None
    largest: int | None

    def __call__(self, source: Source) -> Judged:
        return judge_file(source, self.gpu, self.runtime, self.largest)

    def all(self, files: Sequence[Source]) -> list[Judged]:
        """Of several files."""
        with _seldom_collected():
            found = [self(each) for each in files]
        gc.collect(0)
        return found


def judge_file(source: Source, gpu: str | None, runtime: str | None, largest: int | None) -> Judged:
    """Read and judge one file."""
    try:
        found = read(source, largest)
        if found is None:
            return Judged()
        return judge(found.text, source.name, source.kind, gpu, runtime)
    except NotRead as error:
        return Judged(skipped=Skipped(source.name, str(error)))


def judge(
    text: str, name: str, kind: Kind, gpu: str | None = None, runtime: str | None = None
) -> Judged:
    """Judge a text. Raises Unreadable or NoDocument."""
    from ecocompute_cube.lint.checks import Around
    from ecocompute_cube.lint.suppress import ignores

    origins = None
    if kind == "notebook":
        from ecocompute_cube.lint.notebook import notebook

        book = notebook(text)
        text, origins = book.source, book.origins
    facts = facts_of(text, kind)
    around = Around(gpu, runtime, facts.trains)
    lines = text.split("\n")
    found = [*_findings(facts, around, name, lines)]
    kept, suppressed = _not_ignored(found, ignores(text, kind), name, lines)
    if origins is not None:
        kept = [_in_notebook(each, origins) for each in kept]
    return Judged(tuple(kept), suppressed)


def facts_of(text: str, kind: Kind) -> Facts:
    """What a text says. Raises Unreadable or NoDocument."""
    if kind in ("python", "notebook"):
        from ecocompute_cube.lint.python import python_facts

        return python_facts(text)
    if kind in ("shell", "modelfile"):
        from ecocompute_cube.lint.flags import modelfile_facts, shell_facts

        return modelfile_facts(text) if kind == "modelfile" else shell_facts(text)
    from ecocompute_cube.lint.configs import config_facts
    from ecocompute_cube.lint.tree import json_document, yaml_documents

    return config_facts([json_document(text)] if kind == "json" else yaml_documents(text))


def _findings(facts: Facts, around: Around, name: str, lines: list[str]) -> Iterator[Finding]:
    from ecocompute_cube.lint.rules import RULES

    seen: set[tuple[str, Place]] = set()
    for fact in facts.facts:
        for rule in RULES:
            for hit in rule.check(fact, around) if rule.check is not None else ():
                if (rule.code, hit.place) in seen:
                    continue
                seen.add((rule.code, hit.place))
                yield Finding(
                    code=rule.code,
                    severity=hit.severity or rule.severity,
                    path=name,
                    place=hit.place,
                    message=hit.message,
                    fix=rule.fix,
                    evidence=hit.evidence,
                    edits=(hit.edit,) if rule.safe and hit.edit is not None else (),
                    text=_line(lines, hit.place.line),
                )


def _line(lines: Sequence[str], number: int) -> str:
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _not_ignored(
    found: list[Finding], ours: Sequence[Ignore], name: str, lines: list[str]
) -> tuple[list[Finding], int]:
    from ecocompute_cube.lint.rules import BY_CODE, UNREASONED

    sound = [e for e in ours if e.reason and e.codes and all(c in BY_CODE for c in e.codes)]
    kept = [f for f in found if not any(_speaks(each, f) for each in sound)]
    suppressed = len(found) - len(kept)
    rule = BY_CODE[UNREASONED]
    for each in ours:
        if each not in sound:
            wrong = [code for code in each.codes if code not in BY_CODE]
            why = f"there is no rule {wrong[0][:40]}" if wrong else "it names no rule"
            why = why if wrong or not each.codes else "it gives no reason"
            message = f"This ignore does nothing: {why}."
            text = _line(lines, each.place.line)
            kept.append(
                Finding(UNREASONED, rule.severity, name, each.place, message, rule.fix, text=text)
            )
    return kept, suppressed


def _speaks(ignore: Ignore, finding: Finding) -> bool:
    return finding.code in ignore.codes and any(map(finding.place.within, ignore.lines))


def _in_notebook(finding: Finding, origins: Sequence[Origin]) -> Finding:
    place = finding.place
    start, end = origins[place.line - 1], origins[min(place.end_line, len(origins)) - 1]
    there = Place(
        start.line,
        start.column + place.column - 1,
        end.line,
        end.column + place.end_column - 1,
    )
    return finding._replace(place=there, cell=start.cell, edits=())
