"""``ecocompute submit``: what was measured, ready to be contributed to the published dataset.

Nothing is sent. What comes out is a folder: every arm's energy.json, computed from its journal and
validated; a row for each in the published community template; the text of an issue to paste.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube import __version__
from ecocompute_cube.analysis.documents import at, number_at, parse_document, text_at
from ecocompute_cube.analysis.protocol import Profile
from ecocompute_cube.archive.check import read_manifest
from ecocompute_cube.archive.community import Entry, Person, as_csv, blocks_of, entry
from ecocompute_cube.archive.computed import view_of
from ecocompute_cube.archive.contents import data_of
from ecocompute_cube.archive.opening import opened
from ecocompute_cube.archive.runs import Run, runs_in
from ecocompute_cube.archive.sink import Writer, check_renamable, is_zip, written_beside
from ecocompute_cube.archive.words import as_markdown as md
from ecocompute_cube.errors import MeasurementInvalid, OutputError, UsageError
from ecocompute_cube.model.bundle import MANIFEST_NAME
from ecocompute_cube.model.files import called
from ecocompute_cube.model.plan import Phase, slug
from ecocompute_cube.report.build import build_report
from ecocompute_cube.report.energy_json import energy_reports
from ecocompute_cube.report.recompute import ARMS_FOLDER, recompute
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.table import counted
from ecocompute_cube.report.write import ENERGY_NAME, document_text
from ecocompute_cube.units import signed
from ecocompute_cube.validate import validate_paths

if TYPE_CHECKING:
    from ecocompute_cube.analysis.documents import Document
    from ecocompute_cube.archive.community import Blocks
    from ecocompute_cube.validate import Checked

CSV_NAME: Final = "community_submission.csv"
ISSUE_NAME: Final = "issue.md"
_FOREVER: Final = "1980-01-01T00:00:00Z"  # a folder's files have no time of their own here


class Measured(NamedTuple):
    """One arm that may be contributed."""

    run: str
    arm: str
    text: str
    document: Document
    blocks: Blocks
    checked: Checked


class Submission(NamedTuple):
    """What is in the folder, and which arms are not."""

    entries: tuple[Entry, ...]
    left_out: tuple[str, ...]  #: an arm and why


def submit(
    place: Path, out: Path, person: Person, say: Callable[[str], None], *, force: bool = False
) -> Submission:
    """Write the folder, from a bundle, a run's folder or one that holds runs.

    Raises UsageError as ``runs_in`` does and for an ``out`` that names a zip file,
    MeasurementInvalid when no arm has a number that stands, OutputError or DiskFull.
    """
    if is_zip(place) or (place / MANIFEST_NAME).is_file():
        with opened(place) as folder:
            manifest = read_manifest(folder)
            data = data_of(manifest.layout, manifest.about)
            return _submitted(folder / data / "runs", out, person, say, force=force)
    return _submitted(place, out, person, say, force=force)


def _submitted(
    results: Path, out: Path, person: Person, say: Callable[[str], None], *, force: bool
) -> Submission:
    _check_place(out)
    say("computing every document from its journal")
    found, left_out = _measured(runs_in(results).runs)
    if not found:
        why = left_out[0] if left_out else "every journal ends before its first session"
        raise MeasurementInvalid(
            f"No arm has a number to contribute: {why.rstrip('.')}.",
            "Measure on a board with an energy reading; nothing else is collected.",
        )
    entries = [
        entry(_identifier(each, number), each.document, each.blocks, person)
        for number, each in enumerate(found, start=1)
    ]
    files = {f"energy/{each.run}/{each.arm}.energy.json": each.text.encode() for each in found}
    files |= {CSV_NAME: as_csv(entries).encode()}
    files |= {ISSUE_NAME: _issue(found, entries, person).encode()}
    with written_beside(out, _FOREVER, lambda _: force or _holds(out, files)) as sink:
        writer = Writer(sink)
        for name, data in files.items():
            writer.write(name, data)
    return Submission(tuple(entries), tuple(left_out))


def _check_place(out: Path) -> None:
    """See that only an earlier submission may be replaced. Raises UsageError or OutputError."""
    if is_zip(out):
        raise UsageError(
            f"'{called(out)}' is the name of a zip file, and a submission is a folder.",
            "Name a folder with --out.",
        )
    check_renamable(out)
    if not out.exists() or (out.is_dir() and _is_empty(out)):
        return
    if not all((out / name).is_file() for name in (ISSUE_NAME, CSV_NAME)):
        raise OutputError(
            f"'{called(out)}' is there already, and it is no submission.",
            "Choose another place with --out, or remove it yourself.",
        )


def _is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


def _holds(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Whether a folder has nothing but these."""
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    found = {name: path.read_bytes() for name, path in there.items() if path.is_file()}
    return not found or found == files


def _identifier(each: Measured, number: int) -> str:
    return f"{slug(each.run)}-{number:03}"


# Which arms


def _measured(runs: Sequence[Run]) -> tuple[list[Measured], list[str]]:
    """Arms with measured energy whose documents hold, and why the others are not among them."""
    with view_of(runs) as view:
        made = [each for run in runs for each in _computed(run, view / run.folder)]
        texts = {path.parents[2]: dict[str, str]() for path, _, _ in made}
        for path, text, _ in made:
            texts[path.parents[2]][path.parent.name] = text
        figures = functools.partial(recompute, texts=texts.__getitem__)
        checked = validate_paths([path for path, _, _ in made], Profile.DATASET, figures)
    found: list[Measured] = []
    left_out: list[str] = []
    for (path, text, blocks), each in zip(made, checked, strict=True):
        run, arm = path.parents[2].name, path.parent.name
        document = parse_document(text.encode(), ENERGY_NAME)
        if why := _why_not(document, each):
            left_out.append(f"{run}, {arm}: {why}")
        else:
            found.append(Measured(run, arm, text, document, blocks, each))
    return found, left_out


def _computed(run: Run, folder: Path) -> Iterator[tuple[Path, str, Blocks]]:
    """Each arm's document, written where validate looks for it, and what its blocks gave."""
    evidence = read_run(folder)
    for arm, document in energy_reports(evidence, build_report(evidence)).items():
        place = folder / ARMS_FOLDER / arm / ENERGY_NAME
        place.parent.mkdir(parents=True)
        place.write_text(text := document_text(document), encoding="utf-8")
        yield place, text, blocks_of(evidence.counted(arm))


def _why_not(document: Document, checked: Checked) -> str:
    """Why an arm cannot be contributed; empty if it can."""
    if at(document, "results.basis") != "measured":
        return text_at(document, "results.note") or "nothing was measured"
    if at(document, "workload.phase") == Phase.PREFILL:
        return "its energy is per prompt token, and the template is about output tokens"
    if checked.schema_errors:
        return checked.schema_errors[0]
    return checked.findings[0].cause if checked.findings else ""


# The issue


def _issue(found: Sequence[Measured], entries: Sequence[Entry], person: Person) -> str:
    return "\n".join(_issue_lines(found, entries, person)) + "\n"


def _issue_lines(
    found: Sequence[Measured], entries: Sequence[Entry], person: Person
) -> Iterator[str]:
    boards = sorted({str(at(each.document, "system_under_test.gpu")) for each in found})
    models = sorted({str(at(each.document, "workload.model_name")) for each in found})
    yield f"Title: Measurements of {md(', '.join(models))} on {md(', '.join(boards))}\n"
    yield f"Contributed by {md(person.name)} ({md(person.contact)})."
    yield f"Evidence, with every journal and trace: {md(person.archive)}.\n"
    yield f"Measured with EcoCompute cube {__version__}; every figure was computed from the"
    yield "journals, and checked by `ecocompute validate`.\n"
    yield "| id | model | arm | mJ/token | versus FP16 | n | verdict of validate |"
    yield "|---|---|---|---|---|---|---|"
    yield from (_row(each, told) for each, told in zip(found, entries, strict=True))
    yield "\n## Tracks\n"
    for told in entries:
        why = f": {md('; '.join(told.short_of))}" if told.short_of else ""
        yield f"* `{told.row['submission_id']}`: {told.row['track']}{why}"
    yield "\n## To be ticked by the contributor\n"
    yield "* [ ] I made these measurements, and may publish them under CC BY 4.0."
    yield "* [ ] I agree that my name and the handle of this account are shown with them."
    yield "* [ ] The evidence (journals and traces) lies at the address above.\n"
    yield "## CSV\n"
    yield f"```csv\n{as_csv(entries)}```"


def _row(each: Measured, told: Entry) -> str:
    document = each.document
    change = number_at(document, "results.vs_fp16_energy_pct")
    precision, runtime = at(document, "workload.precision"), at(document, "workload.runtime")
    energy = number_at(document, "results.energy_per_token_mj")
    blocks = number_at(document, "measurement.blocks") or 0
    sessions = number_at(document, "measurement.sessions") or 0
    cells = (
        f"`{told.row['submission_id']}`",
        md(str(at(document, "workload.model_name"))),
        md(f"{precision} {runtime}"),
        "–" if energy is None else f"{energy:.0f}",
        "–" if change is None else f"{signed(change)} %",
        f"{counted(int(blocks), 'block')}, {counted(int(sessions), 'session')}",
        str(each.checked.verdict),
    )
    return f"| {' | '.join(cells)} |"


def as_text(done: Submission, out: Path) -> str:
    """What was written, which arms are not in it, and what to do with it."""
    lines = [f"{out.name}: {counted(len(done.entries), 'arm')}, {CSV_NAME}, {ISSUE_NAME}"]
    lines += [f"left out: {each}" for each in done.left_out]
    lines.append(
        f"look through {ISSUE_NAME}, tick its boxes, and paste it as an issue; nothing was sent"
    )
    return "\n".join(lines) + "\n"
