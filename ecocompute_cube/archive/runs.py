"""Which files of a results folder belong in a bundle, and why the others do not."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.evidence import evidence
from ecocompute_cube.archive.words import one_line
from ecocompute_cube.errors import JournalBroken, UsageError
from ecocompute_cube.model.base import present, sha256_hex
from ecocompute_cube.model.bundle import POWER_FOLDER, SAFE_PATH, BundledRun, Missing
from ecocompute_cube.model.files import called
from ecocompute_cube.model.journal import RunOpened, SessionOpened, TraceLost, TraceStored
from ecocompute_cube.model.journal_file import JOURNAL_NAME, Journal, read_journal
from ecocompute_cube.model.plan import slug
from ecocompute_cube.report.recompute import ARMS_FOLDER
from ecocompute_cube.report.table import counted
from ecocompute_cube.report.write import ENERGY_NAME
from ecocompute_cube.signature import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SAFE: Final = re.compile(SAFE_PATH)
_MOST_SIGNATURE: Final = 16 * 2**10  # bytes; OpenSSH's are about 300, with a certificate 3000
_SIGNATURE: Final = re.compile(
    rb"-----BEGIN SSH SIGNATURE-----\n[A-Za-z0-9+/=\n]+\n-----END SSH SIGNATURE-----\n?"
)
_LONGEST_NAME: Final = 100
_OUR_LITTER: Final = {".lock", ".gitkeep", ".current.csv"}  # holds nothing; not worth a word


class LeftOut(NamedTuple):
    """A file that does not go in."""

    name: str  #: relative to the results folder, safe to show
    why: str


class Run(NamedTuple):
    """One run: where it lies, and what of it goes in."""

    source: Path
    folder: str  #: its name in the bundle
    data: bytes  #: the journal's whole lines
    journal: Journal
    opened: RunOpened
    traces: tuple[TraceStored, ...]  #: those whose files are there, once each
    missing: tuple[Missing, ...]
    whole: bool  #: neither cut nor short of a trace that was stored
    signature: bytes | None

    @property
    def sessions(self) -> tuple[SessionOpened, ...]:
        """Its sessions, as the journal opened them."""
        return tuple(f for f in self.journal.records if isinstance(f, SessionOpened))

    def described(self) -> BundledRun:
        """What the manifest says of it. No text holds a control character."""
        boards = {s.board.name for s in self.sessions if present(s.board)}
        return BundledRun(
            run_id=one_line(self.opened.run_id),
            folder=self.folder,
            journal_sha256=self.journal.head,
            lines=len(self.journal.lines),
            started_utc=self.journal.lines[0].utc,
            ended_utc=max(line.utc for line in self.journal.lines),
            tool_version=one_line(self.opened.tool_version),
            plan=one_line(self.opened.plan.name),
            rehearsal=self.opened.rehearsal,
            boards=tuple(sorted(map(one_line, boards))),
            models=tuple(one_line(model.name) for model in self.opened.models),
            weights=tuple(model.weights for model in self.opened.models),
            arms=tuple(arm.id for arm in self.opened.plan.expanded()),
            signed=self.signature is not None,
        )


class Found(NamedTuple):
    """What a results folder holds."""

    runs: tuple[Run, ...]  #: by their folder in the bundle
    left_out: tuple[LeftOut, ...]
    missing: tuple[Missing, ...]  #: whole journals that cannot be read


def runs_in(results: Path) -> Found:
    """Every readable run below a folder.

    Raises UsageError when there is none, or when two journals claim to be the same run.
    """
    if not results.is_dir():
        raise UsageError(
            f"There is no results folder '{called(results)}'.",
            "Name the folder that 'ecocompute measure' wrote to.",
        )
    files = sorted(path for path in results.rglob("*") if not path.is_dir())
    runs: list[Run] = []
    left_out: list[LeftOut] = []
    for journal in (path for path in files if path.name == JOURNAL_NAME):
        try:
            runs.append(_run(journal.parent))
        except (JournalBroken, OSError) as error:
            why = error.cause if isinstance(error, JournalBroken) else str(error.strerror)
            left_out.append(LeftOut(_shown(journal, results), one_line(why)))
    if not runs:
        why = f" ({left_out[0].why})" if left_out else ""
        raise UsageError(
            f"'{called(results)}' holds no readable journal{why}.",
            "Measure first, or name the folder that 'ecocompute measure' wrote to.",
        )
    _refuse_twins(runs, results)
    return Found(
        runs=tuple(sorted(runs, key=lambda run: run.folder)),
        left_out=(*left_out, *_foreign(files, runs, results)),
        missing=(_unreadable(len(left_out)),) if left_out else (),
    )


def _run(source: Path) -> Run:
    journal = read_journal(source / JOURNAL_NAME)
    known = evidence(journal.records)
    lines = (source / JOURNAL_NAME).read_bytes().split(b"\n")[: len(journal.lines)]
    if sha256_hex(lines[-1]) != journal.head:  # written to in between
        raise JournalBroken("The journal changed while it was read.", "Wait for its run to end.")
    folder = _folder_of(known.run.run_id)
    # A visit that is made again leaves its trace under the same name: the last one counts.
    stored = {
        trace.file: trace for trace in known.traces.values() if isinstance(trace, TraceStored)
    }
    lost = [each for each in known.traces.values() if isinstance(each, TraceLost)]
    wrong = {name: why for name in stored if (why := _trouble(source / name, name))}
    return Run(
        source=source,
        folder=folder,
        data=b"".join(line + b"\n" for line in lines),
        journal=journal,
        opened=known.run,
        traces=tuple(trace for name, trace in sorted(stored.items()) if name not in wrong),
        missing=(
            *_cut(folder, journal),
            *(Missing(what=f"{folder}/{one_line(n)}", why=why) for n, why in sorted(wrong.items())),
            *(
                Missing(
                    what=f"{folder}: the trace of {one_line(each.arm)}, session {each.session}, "
                    f"block {each.block}",
                    why=one_line(each.reason),
                )
                for each in lost
            ),
        ),
        whole=not journal.torn and not wrong,
        signature=_signature(source) if not journal.torn else None,
    )


def _folder_of(run_id: str) -> str:
    """The run's id where a folder can have it; else what is safe of it, and a piece of its hash."""
    safe = _SAFE.fullmatch(run_id) and "/" not in run_id and len(run_id) <= _LONGEST_NAME
    if safe and run_id.casefold() != POWER_FOLDER:
        return run_id
    digest = sha256_hex(run_id.encode("utf-8", "backslashreplace"))[:8]
    return f"{slug(run_id)[:_LONGEST_NAME]}-{digest}"


def _trouble(file: Path, name: str) -> str:
    """Why a trace that the journal names does not go in; empty if it does."""
    if not _SAFE.fullmatch(name):
        return "its name is not one that every system takes"
    try:
        return "" if file.is_file() else "the file is not in the run's folder"
    except OSError as error:
        return f"the file cannot be read ({error.strerror})"


def _cut(folder: str, journal: Journal) -> tuple[Missing, ...]:
    if not journal.torn:
        return ()
    last = len(journal.lines)
    return (
        Missing(
            what=f"{folder}/{JOURNAL_NAME}, line {last + 1}",
            why=f"the journal is cut within that line: its {last} whole lines are here, "
            f"{len(journal.torn)} bytes after them are not",
        ),
    )


def _unreadable(count: int) -> Missing:
    """Without their names, which are somebody's folders."""
    return Missing(
        what=counted(count, "journal"), why="could not be read, or do not follow from line to line"
    )


def _signature(source: Path) -> bytes | None:
    file = source / f"{JOURNAL_NAME}{SUFFIX}"
    if not file.is_file() or file.stat().st_size > _MOST_SIGNATURE:
        return None
    data = file.read_bytes()
    return data if _SIGNATURE.fullmatch(data) else None


def _refuse_twins(runs: Sequence[Run], results: Path) -> None:
    claims = Counter(run.folder.casefold() for run in runs)
    twins = [run for run in runs if claims[run.folder.casefold()] > 1]
    if twins:
        first, second = sorted(_shown(run.source, results) for run in twins)[:2]
        raise UsageError(
            f"Two journals claim to be the run '{one_line(twins[0].opened.run_id)}': those in "
            f"'{first}' and '{second}'.",
            "Move one of them out of the results folder.",
        )


# What is left out


def _foreign(files: Iterable[Path], runs: Sequence[Run], results: Path) -> list[LeftOut]:
    taken = {path for run in runs for path in _taken(run)}
    homes = {run.source: run for run in runs}
    return [
        LeftOut(_shown(path, results), _why_not(path, homes))
        for path in files
        if path not in taken and path.name not in {JOURNAL_NAME, *_OUR_LITTER}
    ]


def _taken(run: Run) -> set[Path]:
    names = [JOURNAL_NAME, *(trace.file for trace in run.traces)]
    names += [f"{JOURNAL_NAME}{SUFFIX}"] if run.signature else []
    names += [f"{ARMS_FOLDER}/{arm.id}/{ENERGY_NAME}" for arm in run.opened.plan.expanded()]
    return {run.source / name for name in names}


def _why_not(path: Path, homes: dict[Path, Run]) -> str:
    run = next((homes[parent] for parent in path.parents if parent in homes), None)
    if run is None:
        return "it belongs to no run"
    place = path.relative_to(run.source)
    if place.parts[0] == "logs":
        return "logs may hold paths of the machine"
    if place.name.startswith("journal.torn-"):
        return "an unfinished line that a crash left"
    if place.name == f"{JOURNAL_NAME}{SUFFIX}":
        return "it is no signature, or of a journal that is cut"
    if place.parts[0] == "traces":
        return "the journal names no such trace"
    return "it is no part of a run"


def _shown(path: Path, results: Path) -> str:
    return one_line(str(path.relative_to(results)) if path != results else path.name)
