"""What is computed from a run: taken as it lies there where it follows from this very journal.

Else it is computed now, from a view of the runs as they go into the bundle: a folder with the whole
lines of each journal, and links to the traces.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ecocompute_cube.analysis.documents import at, parse_document, schema_errors
from ecocompute_cube.archive.scratch import scratch
from ecocompute_cube.archive.words import one_line
from ecocompute_cube.errors import DocumentInvalid
from ecocompute_cube.model.journal_file import JOURNAL_NAME
from ecocompute_cube.report.csv import COLUMNS
from ecocompute_cube.report.recompute import ARMS_FOLDER
from ecocompute_cube.report.write import ENERGY_NAME, energy_texts, write_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ecocompute_cube.archive.runs import Run

Document = dict[str, Any]

REPORT_NAME: Final = "report.json"
CSV_NAME: Final = "results.csv"
#: What ``report`` writes: of a folder that may hold other things too, only these are taken.
_PAGES: Final = (REPORT_NAME, CSV_NAME, "report.html", "summary.md", "*.svg", "*.png")
_FIGURES: Final = ("figures/*.svg", "figures/*.png")


class Energy(NamedTuple):
    """One arm's energy.json."""

    run: str  #: its folder in the bundle
    arm: str
    data: bytes
    document: Document


class Computed(NamedTuple):
    """What goes in beside the evidence."""

    energies: tuple[Energy, ...]  #: none of an arm whose journal ends before its first session
    pages: dict[str, bytes]  #: by name below the report's folder


def computed(runs: Sequence[Run], report_dir: Path, say: Callable[[str], None]) -> Computed:
    """Every arm's energy.json and the pages.

    Raises DocumentInvalid for an energy.json or a report.json that is not plain JSON.
    """
    with view_of(runs) as view:
        energies = tuple(each for run in runs for each in _energies(run, view, say))
        pages = _written(runs, report_dir)
        if not pages:
            say("making the report from the journals: none that was written is of these runs")
            folder = view.parent / "report"
            write_report(view, folder, lambda _: None)
            pages = {
                path.relative_to(folder).as_posix(): path.read_bytes()
                for path in sorted(folder.rglob("*"))
                if path.is_file()
            }
    return Computed(energies, pages)


@contextmanager
def view_of(runs: Sequence[Run]) -> Iterator[Path]:
    """A folder of run folders with what goes in of each, for as long as it is needed.

    Raises DiskFull, also for what is written beside them.
    """
    with scratch() as folder:
        view = folder / "runs"
        for run in runs:
            place = view / run.folder
            (place / "traces").mkdir(parents=True)
            (place / JOURNAL_NAME).write_bytes(run.data)
            for trace in run.traces:
                (place / trace.file).symlink_to((run.source / trace.file).absolute())
        yield view


# energy.json


def _energies(run: Run, view: Path, say: Callable[[str], None]) -> list[Energy]:
    arms = [arm.id for arm in run.opened.plan.expanded()]
    there = {arm: found for arm in arms if (found := _current(run, arm))}
    if set(there) == set(arms) and run.whole:
        return [there[arm] for arm in arms]
    say(f"computing the energy.json of {run.folder} from its journal")
    texts = energy_texts(view / run.folder)
    return [_made(run, arm, texts[arm].encode()) for arm in arms if arm in texts]


def _current(run: Run, arm: str) -> Energy | None:
    """The arm's document if it was computed from this journal and is whole."""
    path = run.source / ARMS_FOLDER / arm / ENERGY_NAME
    if not path.is_file():
        return None
    made = _made(run, arm, path.read_bytes())
    claims = (("run_id", run.opened.run_id), ("arm", arm), ("journal_sha256", run.journal.head))
    current = all(at(made.document, f"provenance.{key}") == value for key, value in claims)
    return made if current and not schema_errors(made.document) else None


def _made(run: Run, arm: str, data: bytes) -> Energy:
    name = f"{run.folder}/{ARMS_FOLDER}/{arm}/{ENERGY_NAME}"
    return Energy(run.folder, arm, data, parse_document(data, name))


# Pages


def _written(runs: Sequence[Run], report_dir: Path) -> dict[str, bytes]:
    """The pages in a report folder if they are of exactly these runs; else nothing."""
    report = report_dir / REPORT_NAME
    if not report.is_file() or not all(run.whole for run in runs):
        return {}
    document = parse_document(report.read_bytes(), f"{one_line(report_dir.name)}/{REPORT_NAME}")
    told = document.get("runs")
    heads = sorted((run.opened.run_id, run.journal.head) for run in runs)
    if not isinstance(told, list) or sorted(map(_head_of, told)) != heads:
        return {}
    if document.get("unreadable") != [] or not _has_our_columns(report_dir / CSV_NAME):
        return {}
    found = {path for pattern in (*_PAGES, *_FIGURES) for path in report_dir.glob(pattern)}
    home = report_dir.resolve()
    if any(path.resolve() != home / path.relative_to(report_dir) for path in found):
        return {}  # a link may lead to what was never meant to be published
    return {
        path.relative_to(report_dir).as_posix(): path.read_bytes()
        for path in sorted(found)
        if path.is_file()
    }


def _has_our_columns(table: Path) -> bool:
    """Whether this version wrote a table, or one that writes the same."""
    if not table.is_file():
        return False
    with table.open("rb") as file:
        return file.readline() == f"{','.join(COLUMNS)}\n".encode()


def _head_of(run: object) -> tuple[str, str]:
    if not isinstance(run, dict):
        raise DocumentInvalid(f"{REPORT_NAME} lists something that is no run.", "Write it again.")
    return str(run.get("run_id")), str(at(run, "evidence.journal_sha256"))
