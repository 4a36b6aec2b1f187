"""What goes into a bundle, and that nothing else does."""

from __future__ import annotations

import getpass
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ecocompute_cube.archive.about import Wishes
from ecocompute_cube.archive.sink import Writer, written_beside
from ecocompute_cube.archive.words import as_markdown
from ecocompute_cube.errors import DiskFull, DocumentInvalid, OutputError, UsageError
from ecocompute_cube.model.base import sha256_hex
from ecocompute_cube.model.bundle import Layout
from ecocompute_cube.model.journal import Fact, RunOpened, TraceLost, TraceStored
from ecocompute_cube.model.journal_file import JOURNAL_NAME
from ecocompute_cube.report.write import write_energy, write_report

from .rig import ONE_BLOCK, ROOT, SOMEBODY, THREE_BLOCKS, Desk, files_of

LAYOUTS = pytest.mark.parametrize("layout", list(Layout))


def evidence(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in files_of(folder).items() if "report" not in name}


def test_evidence_and_documents_go_in_byte_for_byte(two_runs: Desk) -> None:
    two_runs.bundle()
    assert evidence(two_runs.out / "runs") == evidence(two_runs.results)


def test_whatever_cites_describes_or_checks_them_lies_beside(bundled: Desk) -> None:
    found = {name for name in files_of(bundled.out) if not name.startswith("runs/")}
    schemas = {f"schemas/{path.name}" for path in (ROOT / "schemas").iterdir()}
    assert found == schemas | {
        ".zenodo.json",
        "CITATION.cff",
        "LICENSE.txt",
        "README.md",
        "SHA256SUMS",
        "croissant.json",
        "environment.json",
        "manifest.json",
        "report/figures/crossover.png",
        "report/figures/crossover.svg",
        "report/figures/energy.png",
        "report/figures/energy.svg",
        "report/report.html",
        "report/report.json",
        "report/results.csv",
        "report/summary.md",
        "ro-crate-metadata.json",
    }


@LAYOUTS
def test_sha256sum_finds_every_file_as_it_was(desk: Desk, layout: Layout) -> None:
    desk.bundle(layout=layout)
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=desk.out,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done
    assert done.stdout.count(b": OK\n") == len(files_of(desk.out)) - 1  # all but itself


@LAYOUTS
@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_the_same_results_are_the_same_bytes(
    tmp_path: Path, layout: Layout, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere, by somebody else, at another time and in another order of files."""
    first, second = Desk(tmp_path / "a", ONE_BLOCK, THREE_BLOCKS), Desk(tmp_path / "b-longer")
    for run in (THREE_BLOCKS, ONE_BLOCK):
        shutil.copytree(first.results / run, second.results / run, copy_function=shutil.copy)
    first.bundle(first.folder / name, layout)
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    monkeypatch.setenv("USER", "somebody-else")
    time.tzset()
    old = os.umask(0o077)
    try:
        second.bundle(second.folder / name, layout)
    finally:
        os.umask(old)
        monkeypatch.undo()
        time.tzset()
    if name == "bundle":
        assert files_of(second.out) == files_of(first.out)
    else:
        assert (second.folder / name).read_bytes() == (first.folder / name).read_bytes()


@LAYOUTS
def test_nothing_tells_where_or_by_whom_it_was_made(desk: Desk, layout: Layout) -> None:
    desk.bundle(layout=layout)
    secrets = [str(desk.folder), desk.folder.name, str(Path.home())]
    secrets += [name for name in (getpass.getuser(), platform.node()) if len(name) > 4]
    everything = b"".join(files_of(desk.out).values())
    assert [secret for secret in secrets if secret.encode() in everything] == []


# What is computed


def test_pages_that_are_of_these_runs_are_taken_as_they_are(two_runs: Desk) -> None:
    write_report(two_runs.results, two_runs.report, two_runs.lines.append)
    page = two_runs.report / "report.html"
    page.write_text(page.read_text() + "<!-- kept -->")
    (two_runs.report / "figures" / "energy.svg").write_text("<svg/>")
    (two_runs.report / "notes.txt").write_text("mine")
    two_runs.bundle()
    found = files_of(two_runs.out / "report")
    assert found["report.html"].endswith(b"<!-- kept -->")
    assert "figures/energy.svg" in found and "notes.txt" not in found


def test_pages_of_other_runs_are_made_anew(two_runs: Desk) -> None:
    write_report(two_runs.results, two_runs.report, two_runs.lines.append)
    shutil.rmtree(two_runs.results / ONE_BLOCK)
    two_runs.bundle()
    report = json.loads((two_runs.out / "report" / "report.json").read_text())
    assert [run["run_id"] for run in report["runs"]] == [THREE_BLOCKS]


@pytest.mark.parametrize("harm", ["gone", "of another journal", "not valid"])
def test_a_document_that_does_not_follow_from_the_journal_is_computed_anew(
    desk: Desk, harm: str
) -> None:
    path = next(desk.run.rglob("energy.json"))
    right = path.read_bytes()
    document = json.loads(right)
    if harm == "gone":
        path.unlink()
    else:
        block, key = ("provenance", "journal_sha256") if harm[0] == "o" else ("results", "basis")
        document[block][key] = "0" * 64
        path.write_text(json.dumps(document))
    desk.bundle()
    place = desk.out / "runs" / ONE_BLOCK / path.relative_to(desk.run)
    assert place.read_bytes() == right
    assert any("computing the energy.json" in line for line in desk.lines)


def test_a_trace_that_never_was_leaves_documents_and_pages_as_they_are(desk: Desk) -> None:
    def lost(fact: Fact) -> Fact:
        if not isinstance(fact, TraceStored):
            return fact
        visit = fact.model_dump(include={"arm", "session", "group", "block"})
        return TraceLost(**visit, reason="the sampler died")

    desk.rewrite_journal(lost)
    write_energy(desk.run)
    write_report(desk.results, desk.report, lambda _: None)
    done = desk.bundle()
    assert desk.lines == []
    assert {each.why for each in done.manifest.missing} == {"the sampler died"}


# What is not whole


@settings(
    deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_of_a_journal_that_is_cut_whatever_is_whole_goes_in_and_the_cut_is_named(
    tmp_path: Path, data: st.DataObject
) -> None:
    whole = (ROOT / "data" / "h200" / "runs" / ONE_BLOCK / JOURNAL_NAME).read_bytes()
    first = whole.index(b"\n") + 1
    cut = data.draw(st.integers(first, len(whole) - 1))
    desk = Desk(Path(tempfile.mkdtemp(dir=tmp_path)), ONE_BLOCK)
    desk.journal.write_bytes(whole[:cut])
    done = desk.bundle()
    kept = whole[: whole.rindex(b"\n", 0, cut) + 1]
    assert (desk.out / "runs" / ONE_BLOCK / JOURNAL_NAME).read_bytes() == kept
    told = [each for each in done.manifest.missing if "cut within" in each.why]
    assert len(told) == (0 if cut == len(kept) else 1)
    after = f"line {len(kept.splitlines()) + 1}"
    assert all(after in each.what for each in told)
    checked = desk.check()
    assert checked.troubles == ()
    assert {each.code for each in checked.warnings} <= {"known_missing"}


@pytest.mark.parametrize("cut", [0, 1, 100])
def test_a_journal_without_a_whole_line_is_named_and_left_out(two_runs: Desk, cut: int) -> None:
    path = two_runs.results / ONE_BLOCK / JOURNAL_NAME
    path.write_bytes(path.read_bytes()[:cut])
    done = two_runs.bundle()
    assert [run.run_id for run in done.manifest.runs] == [THREE_BLOCKS]
    named = next(each for each in done.left_out if each.name == f"{ONE_BLOCK}/{JOURNAL_NAME}")
    assert "no whole line" in named.why
    assert [each.what for each in done.manifest.missing] == ["1 journal"]
    assert two_runs.codes() == set()


def test_without_a_readable_journal_there_is_no_bundle(desk: Desk) -> None:
    desk.journal.write_bytes(b"{}\n")
    with pytest.raises(UsageError, match="no readable journal"):
        desk.bundle()
    assert not desk.out.exists()


def test_a_trace_that_is_not_there_is_named_and_its_documents_are_computed_anew(
    desk: Desk,
) -> None:
    gone = next(desk.run.rglob("*_NF4_eager.csv.gz"))
    gone.unlink()
    done = desk.bundle()
    told = {each.what: each.why for each in done.manifest.missing}
    assert told == {f"{ONE_BLOCK}/traces/{gone.name}": "the file is not in the run's folder"}
    assert desk.codes() == set()
    assert as_markdown(gone.name) in (desk.out / "README.md").read_text()


def test_a_trace_that_is_another_is_refused_by_name(desk: Desk) -> None:
    changed = next(desk.run.rglob("*.csv.gz"))
    changed.write_bytes(changed.read_bytes() + b"\0")
    with pytest.raises(DocumentInvalid, match=changed.name):
        desk.bundle()
    assert sorted(path.name for path in desk.folder.iterdir()) == ["results"]


def test_a_signature_goes_in_unless_its_journal_is_cut(desk: Desk) -> None:
    armor = "-----BEGIN SSH SIGNATURE-----\nU1NI\n-----END SSH SIGNATURE-----\n"
    (desk.run / f"{JOURNAL_NAME}.sig").write_text(armor)
    assert desk.bundle().manifest.runs[0].signed
    assert (desk.out / "runs" / ONE_BLOCK / f"{JOURNAL_NAME}.sig").read_text() == armor
    desk.journal.write_bytes(desk.journal.read_bytes()[:-5])
    done = desk.bundle(desk.folder / "other")
    assert not done.manifest.runs[0].signed
    assert [each.name for each in done.left_out] == [f"{ONE_BLOCK}/{JOURNAL_NAME}.sig"]


# What does not belong


def test_foreign_files_are_named_and_left_out(desk: Desk) -> None:
    mine = ["notes.txt", f"{ONE_BLOCK}/model.safetensors", f"{ONE_BLOCK}/traces/other.csv.gz"]
    mine += [f"{ONE_BLOCK}/logs/FP16.log", f"{ONE_BLOCK}/journal.torn-3"]
    mine += [f"{ONE_BLOCK}/arms/nobody/energy.json", f"{ONE_BLOCK}/{JOURNAL_NAME}.sig"]
    for name in mine:
        (desk.results / name).parent.mkdir(parents=True, exist_ok=True)
        (desk.results / name).write_text("secret")
    (desk.results / ".lock").touch()
    done = desk.bundle()
    assert sorted(each.name for each in done.left_out) == sorted(mine)
    assert b"secret" not in b"".join(files_of(desk.out).values())
    assert desk.codes() == set()


def test_two_journals_that_claim_one_run_are_refused_with_both_names(desk: Desk) -> None:
    shutil.copytree(desk.run, desk.results / "deeper" / "copy")
    with pytest.raises(UsageError) as refused:
        desk.bundle()
    assert ONE_BLOCK in refused.value.cause and "'deeper/copy'" in refused.value.cause
    assert not desk.out.exists()


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused_with_the_name_of_the_file(
    desk: Desk, number: str
) -> None:
    path = next(desk.run.rglob("energy.json"))
    path.write_text(path.read_text().replace('"params_b": 0.494032768', f'"params_b": {number}'))
    with pytest.raises(DocumentInvalid) as refused:
        desk.bundle()
    assert f"{path.parent.name}/energy.json" in refused.value.cause
    assert number in refused.value.cause and not desk.out.exists()


def test_such_numbers_in_a_report_are_refused_too(desk: Desk) -> None:
    desk.report.mkdir()
    (desk.report / "report.json").write_text('{"runs": [NaN]}')
    with pytest.raises(DocumentInvalid, match=r"report/report\.json.*NaN"):
        desk.bundle()


HOSTILE_IDS = [
    *("../../escape", "/etc/passwd", "a\nb", "<script>", "con\x00", "", "..", "x" * 300),
    *("power", "Power"),  # a folder that a bundle must not have
]


@pytest.mark.parametrize("run_id", HOSTILE_IDS)
def test_a_run_by_a_hostile_name_stays_in_its_folder(desk: Desk, run_id: str) -> None:
    def renamed(fact: Fact) -> Fact:
        return fact.model_copy(update={"run_id": run_id}) if isinstance(fact, RunOpened) else fact

    desk.rewrite_journal(renamed)
    desk.bundle()
    assert sorted(path.name for path in desk.folder.iterdir()) == ["bundle", "results"]
    assert len(list((desk.out / "runs").iterdir())) == 1
    assert desk.codes() == set()


def test_a_trace_by_a_hostile_name_is_left_out(desk: Desk) -> None:
    name = "traces/a\nb <x>.csv.gz"
    stored = next(desk.run.rglob("*.csv.gz"))
    shutil.copy(stored, desk.run / name)

    def renamed(fact: Fact) -> Fact:
        if isinstance(fact, TraceStored) and fact.file.endswith(stored.name):
            return fact.model_copy(update={"file": name})
        return fact

    desk.rewrite_journal(renamed)
    done = desk.bundle()
    assert any("not one that every system takes" in each.why for each in done.manifest.missing)
    assert all("\n" not in found for found in files_of(desk.out))


# Where it goes


def test_a_bundle_of_the_same_content_may_be_written_again(bundled: Desk) -> None:
    before = files_of(bundled.out)
    (bundled.out / "README.md").write_text("damaged")
    bundled.bundle()
    assert files_of(bundled.out) == before


@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_another_bundle_is_only_replaced_by_force(desk: Desk, name: str) -> None:
    place = desk.folder / name
    desk.bundle(place)
    other = Wishes(creators=(SOMEBODY,), title="Another")
    with pytest.raises(OutputError, match="--force"):
        desk.bundle(place, wishes=other)
    assert desk.check(place).manifest.about.title != "Another (random weights)"
    desk.bundle(place, wishes=other, force=True)
    assert desk.check(place).manifest.about.title == "Another (random weights)"
    assert sorted(path.name for path in desk.folder.iterdir()) == sorted([name, "results"])


@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_what_is_no_bundle_is_never_replaced(desk: Desk, name: str) -> None:
    place = desk.folder / name
    if name == "bundle":
        place.mkdir()
        (place / "thesis.txt").write_text("years of work")
    else:
        place.write_text("years of work")
    with pytest.raises(OutputError, match="it is no bundle"):
        desk.bundle(place, force=True)
    assert b"years of work" in (place / "thesis.txt" if name == "bundle" else place).read_bytes()


@pytest.mark.parametrize("target", ["nowhere", "empty", "bundle"])
def test_a_link_is_no_place(desk: Desk, target: str) -> None:
    (desk.folder / "empty").mkdir()
    desk.bundle()
    link = desk.folder / "link"
    link.symlink_to(target)
    desk.lines.clear()
    with pytest.raises(OutputError, match="'link' is a link"):
        desk.bundle(link)
    assert link.is_symlink() and not desk.lines, "told before anything is computed"


def test_an_interruption_while_it_is_put_in_place_costs_no_other(bundled: Desk) -> None:
    class Interrupted(type(bundled.out)):  # type: ignore[misc]  # Path's own kind
        """A place that cannot be taken: the signal comes when the old one is set aside."""

        def replace(self, target: Path) -> Path:
            done: Path = super().replace(target)
            if self == bundled.out.absolute():
                raise KeyboardInterrupt
            return done

    before = files_of(bundled.out)
    with pytest.raises(KeyboardInterrupt):
        bundled.bundle(Interrupted(bundled.out), wishes=Wishes(title="Another"), force=True)
    assert files_of(bundled.out) == before
    assert sorted(path.name for path in bundled.folder.iterdir()) == ["bundle", "results"]


def test_an_empty_folder_is_filled(desk: Desk) -> None:
    desk.out.mkdir()
    desk.bundle()
    assert desk.codes() == set()


def test_a_place_within_the_results_is_refused(desk: Desk) -> None:
    with pytest.raises(UsageError, match="lies in the results folder"):
        desk.bundle(desk.results / "bundle")


def test_an_interruption_leaves_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    # The signal arrives between two writes; there is no seam that a signal could be put through.
    monkeypatch.setattr("ecocompute_cube.archive.bundle.checksum_list", interrupted)
    with pytest.raises(KeyboardInterrupt):
        desk.bundle()
    assert sorted(path.name for path in desk.folder.iterdir()) == ["results"]


KILLED = """
import os, sys
from pathlib import Path
from ecocompute_cube.archive.sink import Writer, written_beside
with written_beside(Path(sys.argv[1]), "2026-11-30T00:00:00Z", lambda _: False) as sink:
    Writer(sink).write("README.md", b"half")
    os._exit(9)
"""


@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_a_program_that_is_killed_leaves_no_half_bundle(tmp_path: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / name)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 9
    assert not (tmp_path / name).exists()
    desk = Desk(tmp_path, ONE_BLOCK)
    desk.bundle(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "results"])


def test_what_another_program_writes_at_this_moment_is_not_swept_away(tmp_path: Path) -> None:
    place = tmp_path / "bundle"
    with written_beside(place, "2026-11-30T00:00:00Z", lambda _: False) as first:
        with written_beside(place, "2026-11-30T00:00:00Z", lambda _: False) as second:
            Writer(second).write("README.md", b"second")
        Writer(first).write("README.md", b"first")
        place.rename(tmp_path / "elsewhere")
    assert (place / "README.md").read_bytes() == b"first"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "elsewhere"]


@pytest.mark.parametrize("page", ["report.html", "summary.md", "figures"])
def test_a_page_that_is_a_link_takes_nothing_of_elsewhere_along(desk: Desk, page: str) -> None:
    write_report(desk.results, desk.report, lambda _: None)
    elsewhere = desk.folder / "elsewhere"
    (desk.report / page).rename(elsewhere)
    secret = elsewhere / "energy.svg" if elsewhere.is_dir() else elsewhere
    secret.write_text("a key that is nobody's business")
    (desk.report / page).symlink_to(elsewhere)
    desk.bundle()
    assert not any(b"nobody's business" in data for data in files_of(desk.out).values())
    assert (desk.out / "report" / "report.html").is_file() and desk.codes() == set()


def test_a_temporary_folder_without_room_is_told_as_one(desk: Desk) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(DiskFull, match="TMPDIR"):
            desk.bundle()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not desk.out.exists()


def test_pages_of_another_version_are_made_anew(desk: Desk) -> None:
    write_report(desk.results, desk.report, lambda _: None)
    table = desk.report / "results.csv"
    table.write_text(table.read_text().replace("run_id,", "run,", 1))
    desk.bundle()
    assert (desk.out / "report" / "results.csv").read_text().startswith("run_id,")


def test_the_journal_that_is_bundled_is_the_one_that_was_checked(bundled: Desk) -> None:
    run = bundled.check().manifest.runs[0]
    lines = (bundled.out / "runs" / ONE_BLOCK / JOURNAL_NAME).read_bytes().splitlines()
    assert (run.lines, run.journal_sha256) == (len(lines), sha256_hex(lines[-1]))
