"""Putting reports on disk: a run's energy.json files, a results folder's pages."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.documents import schema_errors
from ecocompute_cube.errors import (
    DocumentInvalid,
    JournalBroken,
    OutputError,
    UsageError,
    output_error,
)
from ecocompute_cube.model.base import printable
from ecocompute_cube.model.files import called, write_whole
from ecocompute_cube.model.report import ReportFile
from ecocompute_cube.report.build import build_report
from ecocompute_cube.report.charts.every import charts_of
from ecocompute_cube.report.charts.spec import as_png, as_svg
from ecocompute_cube.report.csv import as_csv
from ecocompute_cube.report.energy_json import energy_reports
from ecocompute_cube.report.folder import put_together
from ecocompute_cube.report.html import as_html
from ecocompute_cube.report.journals import journals_below
from ecocompute_cube.report.merged import Merged, merged
from ecocompute_cube.report.merged_text import pooled_words
from ecocompute_cube.report.power import power_shown
from ecocompute_cube.report.recompute import ARMS_FOLDER
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.shown import shown_arms
from ecocompute_cube.report.text import as_summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pydantic import BaseModel

    from ecocompute_cube.model.energy import EnergyReport
    from ecocompute_cube.model.report import Report
    from ecocompute_cube.report.power import PowerShown

_DIGITS: Final = 9  # significant digits a figure is written with: far below any sensor
ENERGY_NAME: Final = "energy.json"
_FIGURES: Final = "figures"
_PRINTED: Final = frozenset({"energy", "crossover", "why"})  #: charts that are files too
_FIGURE_FILES: Final = {f"{_FIGURES}/{name}.{kind}" for name in _PRINTED for kind in ("svg", "png")}


class Written(NamedTuple):
    """What a report was made of, and what could not be read."""

    reports: tuple[Report, ...]
    unreadable: tuple[str, ...]
    visits: tuple[PowerShown, ...]  #: power over time, the last visit of every arm
    together: Merged  #: what the reports say together


class _Claim(NamedTuple):
    """A report, and whose journal it is of."""

    report: Report
    visits: tuple[PowerShown, ...]
    folder: Path
    heads: frozenset[str]  #: hash of every whole line

    @property
    def head(self) -> str:
        """Hash of the last of them."""
        return self.report.evidence.journal_sha256


def document_text(document: BaseModel) -> str:
    """A document as JSON: sorted keys, nine significant digits, no NaN, a newline at the end."""
    data = _rounded(document.model_dump(mode="json"))
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return value


def energy_texts(run_folder: Path) -> dict[str, str]:
    """Every arm's energy.json as text, from the journal alone.

    Raises JournalBroken.
    """
    run = read_run(run_folder)
    reports = energy_reports(run, build_report(run))
    return {arm: document_text(each) for arm, each in reports.items()}


def write_energy(run_folder: Path) -> Report:
    """Write ``arms/ARM/energy.json`` for every arm of a run, each checked against its schema.

    Raises JournalBroken, DocumentInvalid (nothing is then replaced), DiskFull or OutputError.
    """
    run = read_run(run_folder)
    report = build_report(run)
    texts = {arm: _checked(arm, each) for arm, each in energy_reports(run, report).items()}
    for arm, text in texts.items():
        folder = run_folder / ARMS_FOLDER / arm
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise output_error(error, f"make the folder of {arm}") from error
        write_whole(folder / ENERGY_NAME, text.encode())
    return report


def _checked(arm: str, energy: EnergyReport) -> str:
    text = document_text(energy)
    errors = schema_errors(json.loads(text))
    if errors:
        raise DocumentInvalid(
            f"The report of {arm} fails its own schema: {errors[0]}.",
            "This is a fault of ours; please report it with the journal.",
        )
    return text


def write_report(results: Path, folder: Path, say: Callable[[str], None]) -> Written:
    """Write the pages and figures of every journal below ``results``.

    Raises UsageError when there is no readable journal, DiskFull or OutputError.
    """
    written = read_results(results)
    pages = {
        "results.csv": as_csv(written.reports),
        "report.html": as_html(written.reports, written.visits, written.together),
        "summary.md": as_summary(written.reports, pooled_words(written.together.pooled)),
        "report.json": document_text(
            ReportFile(
                format="ecocompute-report-file/1",
                runs=written.reports,
                unreadable=written.unreadable,
                **written.together._asdict(),
            )
        ),
    }
    # report.json comes last: who finds it finds all that it speaks of.
    files = _figures(written) | {name: text.encode() for name, text in pages.items()}
    with _report_dir():
        put_together(folder, files, sorted(_FIGURE_FILES - files.keys()))
    for name in files:
        say(f"wrote {name}")
    return written


def _figures(written: Written) -> dict[str, bytes]:
    """The charts that people put into papers, as SVG and PNG."""
    charts = charts_of(
        shown_arms(written.reports, written.together.pooled), written.together.crossovers, ()
    )
    kept = [chart for chart in charts if chart.name in _PRINTED]
    drawn = {f"{_FIGURES}/{chart.name}.svg": as_svg(chart.spec).encode() for chart in kept}
    return drawn | {f"{_FIGURES}/{chart.name}.png": as_png(chart.spec) for chart in kept}


@contextmanager
def _report_dir() -> Iterator[None]:
    """Give what goes wrong with a file the remedy that fits pages."""
    try:
        yield
    except OutputError as error:
        fix = "Choose a folder with room that you can write to with --report_dir."
        raise type(error)(error.cause, fix) from error


def read_results(results: Path) -> Written:
    """Every run below ``results``, by run id; what cannot be read or counted is named.

    Raises UsageError when no journal is there or none can be read.
    """
    claims: list[_Claim] = []
    found = journals_below(results)
    unreadable = list(found.unseen)
    for journal in found.journals:
        folder = journal.parent
        try:
            claims.append(_claim(folder))
        except (JournalBroken, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            unreadable.append(f"{folder.name}: {why}")
    kept, disputed = _one_a_run(claims)
    unreadable = [printable(told) for told in (*unreadable, *disputed)]
    if not kept:
        why = f" ({unreadable[0]})" if unreadable else ""
        raise UsageError(
            f"'{called(results)}' holds no readable journal{why}.",
            "Measure first, or name the results folder with --results_dir.",
        )
    reports = tuple(claim.report for claim in kept)
    visits = tuple(visit for claim in kept for visit in claim.visits)
    return Written(reports, tuple(unreadable), visits, merged(reports))


def _claim(folder: Path) -> _Claim:
    run = read_run(folder)
    heads = frozenset({run.journal.head, *(line.prev for line in run.journal.lines)})
    return _Claim(build_report(run), power_shown(run), folder, heads)


def _one_a_run(claims: Sequence[_Claim]) -> tuple[list[_Claim], list[str]]:
    """One claim for each run id, in their order, and a sentence for each that is not heard.

    Of copies of one journal the longest stands for all. Journals that go on differently cannot
    both be of one run, and nothing tells which of them is: none is heard.
    """
    by_id: dict[str, list[_Claim]] = defaultdict(list)
    for claim in claims:
        by_id[claim.report.run_id].append(claim)
    kept: list[_Claim] = []
    told: list[str] = []
    for run_id in sorted(by_id):
        longest, *others = sorted(by_id[run_id], key=lambda each: -each.report.evidence.lines)
        if all(other.head in longest.heads for other in others):
            kept.append(longest)
            told += [
                f"{each.folder.name}: a copy of run {run_id} or of its beginning" for each in others
            ]
        else:
            told += [
                f"{each.folder.name}: another journal also claims to be run {run_id}"
                for each in by_id[run_id]
            ]
    return kept, told
