"""What people read: the same from the same journal, escaped, and equal to report.json."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ecocompute_cube.errors import OutputError, UsageError
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.journal_file import JOURNAL_NAME
from ecocompute_cube.model.report import Report, ReportFile
from ecocompute_cube.report.charts.energy import energy_chart
from ecocompute_cube.report.charts.spec import as_svg
from ecocompute_cube.report.csv import COLUMNS, as_csv
from ecocompute_cube.report.html import as_html
from ecocompute_cube.report.measured import MEASURED
from ecocompute_cube.report.merged import merged
from ecocompute_cube.report.shown import shown_arms
from ecocompute_cube.report.text import as_markdown, as_text
from ecocompute_cube.report.write import read_results, write_report

from .stage import HOSTILE, MODELS, measured, quick, scene


class Page(HTMLParser):
    """The elements, attributes and table cells of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._cell = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._cell:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: a measurement and a rehearsal."""
    set_up = scene(tmp_path_factory.mktemp("good"))
    measured(set_up, quick())
    measured(set_up, quick(), rehearse=True)
    return set_up.output


@pytest.fixture(scope="module")
def measurement(results: Path) -> Report:
    return next(report for report in read_results(results).reports if not report.rehearsal)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Report:
    set_up = scene(tmp_path_factory.mktemp("hostile"), (HOSTILE, f"-{HOSTILE}"))
    measured(set_up, quick(name=f"p{HOSTILE}"[:80], models=MODELS))
    (report,) = read_results(set_up.output).reports
    return report


def write(results: Path, folder: Path) -> dict[str, bytes]:
    write_report(results, folder, lambda _: None)
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.name: path.read_bytes() for path in files}


# The same bytes

SCRIPT = """
import sys
from pathlib import Path
from ecocompute_cube.report.write import write_energy, write_report
results = Path(sys.argv[1])
for run in sorted(results.glob("*/")):
    write_energy(run)
write_report(results, Path(sys.argv[2]), lambda _: None)
"""


def test_the_same_journals_are_the_same_bytes_in_any_process(results: Path, tmp_path: Path) -> None:
    written = []
    for seed in ("1", "2"):
        here = shutil.copytree(results, tmp_path / seed / "results")
        there = tmp_path / seed / "report"
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": f"UTC{seed}", "LC_ALL": "C"}
        command = [sys.executable, "-c", SCRIPT, str(here), str(there)]
        subprocess.run(command, env=environment, check=True)
        files = sorted(p for p in (tmp_path / seed).rglob("*") if p.is_file())
        written.append({p.relative_to(tmp_path / seed): p.read_bytes() for p in files})
    assert written[0] == written[1]
    assert {p.name for p in written[0]} >= {"report.json", "report.html", "results.csv"}


def test_where_the_results_lie_changes_nothing(results: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(results, tmp_path / "elsewhere" / "r")
    assert write(moved, tmp_path / "a") == write(results, tmp_path / "b")


# One page, whole in itself


def test_the_page_fetches_nothing_and_runs_only_what_its_policy_names(measurement: Report) -> None:
    text = as_html([measurement])
    page = Page(text)
    assert not {"link", "iframe", "object", "embed", "base"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    referring = {"src", "href", "xlink:href", "action", "srcset", "data", "poster"}
    found = [value for name, value in page.attributes if name in referring]
    assert [value for value in found if value and not value.startswith(("#", "data:"))] == []
    assert "@import" not in text
    (policy,) = (v for _, v in page.attributes if v and v.startswith("default-src 'none'"))
    assert "unsafe-eval" not in policy
    assert "script-src 'sha256-" in policy
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()) for each in scripts]
    named = re.findall(r"'sha256-([^']+)'", policy)
    assert [digest.decode() for digest in digests] == named


def test_the_numbers_on_the_page_are_those_of_the_document(results: Path, tmp_path: Path) -> None:
    pages = write(results, tmp_path / "report")
    runs = json.loads(pages["report.json"])["runs"]
    page = Page(pages["report.html"].decode())
    cells = [
        dict(zip(MEASURED, row, strict=True)) for row in page.rows if len(row) == len(MEASURED)
    ]
    table = next(csv.DictReader(io.StringIO(pages["results.csv"].decode())))
    for run in runs:
        for arm in run["arms"]:
            expected = expected_row(run, arm).items()
            assert any(expected <= row.items() for row in cells), expected
    energies = [arm["energy"] for run in runs for arm in run["arms"]]
    assert any("reason" in energy for energy in energies)
    kept = next(run for run in runs if run["run_id"] == table["run_id"])["arms"][0]["energy"]
    if "reason" not in kept:
        assert float(table["energy_per_token_mj"]) == pytest.approx(kept["mj_per_token"], rel=1e-8)


def expected_row(run: dict[str, Any], arm: dict[str, Any]) -> dict[str, str]:
    energy, versus, rate = arm["energy"], arm["vs_baseline"], arm["tokens_per_s"]
    measured = "reason" not in energy
    verdict = "baseline" if arm["precision"] == "FP16" else versus.get("verdict")
    row = {"tokens/s": f"{rate:.1f}", "verdict": "not measured" if run["rehearsal"] else verdict}
    if measured:
        between = energy["interval_mj"]
        row |= {
            "kJ per 1M tokens": f"{energy['mj_per_token']:.0f}",
            "kWh per 1M tokens": f"{energy['mj_per_token'] / 3600:.3f}",
            "interval": f"{between['low']:.0f} to {between['high']:.0f}",
            "W": f"{energy['mean_power_w']:.0f}",
        }
    if isinstance(versus.get("change_pct"), float):
        change = versus["interval_pct"]
        row["against baseline"] = (
            f"{versus['change_pct']:+.1f} % ({change['low']:+.1f} to {change['high']:+.1f})"
        )
    return row


def test_the_interval_is_headed_by_the_plans_confidence(tmp_path: Path) -> None:
    set_up = scene(tmp_path)
    protocol = {"mode": "precise", "iterations": 1, "blocks": 2, "confidence": 0.9}
    measured(set_up, quick(protocol=protocol))
    (report,) = read_results(set_up.output).reports
    for text in (as_text(report), as_markdown(report)):
        assert "90% interval" in text
        assert "95" not in re.findall(r"(\d+)% interval", text)
    assert "90% interval" in report.answer


def test_a_confidence_is_not_rounded_to_certainty(tmp_path: Path) -> None:
    set_up = scene(tmp_path)
    protocol = {"mode": "precise", "iterations": 1, "blocks": 2, "confidence": 0.999}
    measured(set_up, quick(protocol=protocol))
    (report,) = read_results(set_up.output).reports
    assert "99.9% interval" in report.answer
    assert "100%" not in report.answer


def test_a_rehearsal_says_so_and_shows_no_energy(results: Path) -> None:
    (report,) = [report for report in read_results(results).reports if report.rehearsal]
    page = as_html([report])
    assert "Rehearsal: no board" in page
    assert "<svg" not in body(page)
    assert "not measured" in as_text(report)


def test_workloads_have_bars_of_their_own(tmp_path: Path) -> None:
    set_up = scene(tmp_path)
    measured(set_up, quick(workloads=[{"output_tokens": 64}, {"output_tokens": 32}]))
    (report,) = read_results(set_up.output).reports
    chart = energy_chart(shown_arms([report]))
    assert chart is not None
    bars = {row[:2] for row in chart.rows}
    assert len(bars) == len(chart.rows) == 4


def test_a_limit_that_the_board_does_not_tell_is_left_out(measurement: Report) -> None:
    (session,) = measurement.sessions
    assert present(session.board)
    board = session.board.model_copy(update={"power_limit_w": Absent(reason="not supported")})
    untold = session.model_copy(update={"board": board})
    page = body(as_html([measurement.model_copy(update={"sessions": (untold,)})]))
    assert ", limit" not in page and "not supported" not in page
    assert ", limit 700.0 W" in as_html([measurement])


def test_of_many_arms_the_answer_counts_verdicts(tmp_path: Path) -> None:
    set_up = scene(tmp_path)
    measured(set_up, quick(workloads=[{"output_tokens": 64, "batch": 1 + n} for n in range(9)]))
    (report,) = read_results(set_up.output).reports
    assert report.answer.count("% interval") == 1
    assert "9 of 9 arms: costs energy" in report.answer
    lows = [c.interval_pct.low for c in report.comparisons if present(c.interval_pct)]
    assert f"within {min(lows):+.1f} to" in report.answer


def test_of_many_runs_the_first_answers_are_open(measurement: Report) -> None:
    runs = [measurement.model_copy(update={"run_id": f"run-{n}"}) for n in range(20)]
    page = body(as_html(runs))
    first, folded = page.split('<nav aria-label="Sections">')[0].split("<details", 1)
    assert first.count('class="answer"') == 5
    assert folded.count('class="answer"') == 15
    assert "15 more of 20 runs" in folded
    assert 'class="answer"' in body(as_html(runs[:5])) and "more of" not in body(as_html(runs[:5]))


def test_the_first_screen_names_board_and_basis(measurement: Report) -> None:
    (session,) = measurement.sessions
    assert present(session.board)
    first = as_html([measurement]).split('<nav aria-label="Sections">')[0]
    assert session.board.name in first
    assert "in 1 session" in first


def test_runs_together_stand_in_lines(measurement: Report) -> None:
    runs = [measurement.model_copy(update={"run_id": f"run-{n}"}) for n in range(2)]
    page = as_html(runs, (), merged(runs))
    told = page.split("These runs together</h3>")[1].split("</pre>")[0]
    assert "several runs, taken together:\narm " in told


def body(page: str) -> str:
    """What comes before Vega and the page's own script."""
    return page.split("<script>", 1)[0]


# Names that nobody should trust


def test_a_name_stays_text_on_the_page(hostile: Report) -> None:
    text = as_html([hostile])
    page = Page(text)
    kinds = Counter(re.findall(r"<script( type)?", text))
    assert kinds[""] == 2  # Vega and ours; all others are data
    assert "alert(1)" in page.text
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert unseen(body(text)) == set()


def test_a_name_stays_text_in_the_chart(hostile: Report) -> None:
    chart = energy_chart(shown_arms([hostile]))
    assert chart is not None
    svg = as_svg(chart.spec)
    assert "<script" not in svg
    assert "</text><script" not in svg
    assert unseen(svg) == set()


def test_a_name_is_no_formula_in_a_spreadsheet(hostile: Report) -> None:
    renamed = hostile.model_copy(update={"run_id": "=cmd|x"})
    rows = list(csv.DictReader(io.StringIO(as_csv([renamed]))))
    assert len(rows) == 4
    texts = [cell for row in rows for cell in row.values() if not number(cell)]
    assert not [cell for cell in texts if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))]
    assert {row["model"][:2] for row in rows} == {"'=", "'-"}
    assert rows[0]["run_id"] == "'=cmd|x"
    assert unseen(as_csv([renamed])) == set()


def number(cell: str) -> bool:
    return re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", cell) is not None


def test_a_name_cannot_speak_to_the_terminal(hostile: Report) -> None:
    text = as_text(hostile)
    assert unseen(text) == set()
    assert "alert(1)" in text
    calm = as_text(hostile).splitlines()
    assert len([line for line in calm if "@x" in line and line.startswith("@")]) == 0


def test_a_name_stays_in_its_cell_in_markdown(hostile: Report) -> None:
    lines = as_markdown(hostile).splitlines()
    assert len(lines) == 2 + 4
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {9}
    assert not [line for line in lines if "<script" in line]


def unseen(text: str) -> set[str]:
    """Characters that a reader does not see but a program obeys."""
    return {c for c in text if not c.isprintable() and c != "\n"}


# A folder with everything in it


def test_good_runs_are_reported_beside_torn_broken_and_foreign_ones(
    results: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(results, tmp_path / "results")
    good, other = sorted(folder.glob("*/"))
    torn = other / JOURNAL_NAME
    torn.write_bytes(torn.read_bytes()[:-40])
    broken = shutil.copytree(good, folder / "broken") / JOURNAL_NAME
    broken.write_bytes(broken.read_bytes().replace(b"smollm2-135m", b"smollm2-136m"))
    (folder / "foreign").mkdir()
    (folder / "foreign" / JOURNAL_NAME).write_text('{"event": "start"}\n')
    (folder / "empty").mkdir()
    (folder / "empty" / JOURNAL_NAME).write_text("")
    (folder / "notes.txt").write_text("not ours")
    pages = write(folder, tmp_path / "report")
    document = ReportFile.model_validate_json(pages["report.json"])
    ids = sorted([good.name, other.name])
    assert [run.run_id for run in document.runs] == ids
    assert sorted(line.split(":")[0] for line in document.unreadable) == [
        "broken",
        "empty",
        "foreign",
    ]
    assert {run.evidence.torn_bytes > 0 for run in document.runs} == {True, False}
    rows = list(csv.DictReader(io.StringIO(pages["results.csv"].decode())))
    assert [row["run_id"] for row in rows] == [each for each in ids for _ in range(2)]


def test_an_unreadable_journal_is_named_without_the_hosts_folders(
    results: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(results, tmp_path / "results")
    (folder / "odd" / JOURNAL_NAME).mkdir(parents=True)
    (unreadable,) = read_results(folder).unreadable
    assert unreadable.startswith("odd: ")
    assert str(tmp_path) not in unreadable


def test_a_folder_whose_name_no_page_and_no_terminal_can_hold_is_spelt_out(
    results: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(results, tmp_path / "results")
    (folder / os.fsdecode(b"\xff\x1b[31m") / JOURNAL_NAME).mkdir(parents=True)
    pages = write(folder, tmp_path / "report")
    (unreadable,) = json.loads(pages["report.json"])["unreadable"]
    assert unreadable.startswith(r"\udcff\x1b[31m: ")


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


LIMITED = """
import resource, signal, sys
from pathlib import Path
from ecocompute_cube.report.write import write_report
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))  # the page is larger
if sys.argv[3] == "killed":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
write_report(Path(sys.argv[1]), Path(sys.argv[2]), lambda _: None)
"""


@pytest.mark.parametrize("end", ["killed", "full"])
def test_a_report_that_cannot_be_finished_leaves_the_old_one_whole(
    results: Path, tmp_path: Path, end: str
) -> None:
    pages = tmp_path / "report"
    write(results, pages)
    before = tree(pages)
    less = tmp_path / "less"
    shutil.copytree(next(results.glob("*/")), less / "run")
    command = [sys.executable, "-c", LIMITED, str(less), str(pages), end]
    assert subprocess.run(command, capture_output=True, check=False).returncode
    assert {name: data for name, data in tree(pages).items() if ".part/" not in name} == before
    write(results, pages)
    assert tree(pages) == before  # and what was left lying is gone


@pytest.mark.parametrize("name", ["report.html", "report.json", "figures/energy.svg"])
def test_a_folder_in_the_way_of_a_page_leaves_the_others_as_they_were(
    results: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(OutputError, match=f"write {name}"):
        write_report(results, tmp_path, lambda _: None)
    assert tree(tmp_path) == {}


def test_a_figure_of_an_earlier_report_goes_and_figures_of_others_stay(
    results: Path, tmp_path: Path
) -> None:
    (tmp_path / "figures").mkdir()
    for name in ("crossover.svg", "why.png", "mine.svg"):
        (tmp_path / "figures" / name).write_text("old")
    write_report(results, tmp_path, lambda _: None)
    old = {path.name for path in tmp_path.rglob("*.*") if path.read_bytes() == b"old"}
    assert old == {"mine.svg"}


@pytest.mark.parametrize("content", [None, "", "foreign\n"])
def test_nothing_to_report_is_the_users_mistake(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "run").mkdir()
    if content is not None:
        (tmp_path / "run" / JOURNAL_NAME).write_text(content)
    with pytest.raises(UsageError) as caught:
        write_report(tmp_path, tmp_path / "report", lambda _: None)
    assert caught.value.exit_status == 2
    assert not (tmp_path / "report").exists()


# CSV


def test_the_table_has_one_row_an_arm_and_no_zero_for_absent(results: Path, tmp_path: Path) -> None:
    text = write(results, tmp_path / "report")["results.csv"].decode()
    assert "\r" not in text
    reader = csv.DictReader(io.StringIO(text))
    rows = list(reader)
    assert tuple(reader.fieldnames or ()) == COLUMNS
    assert len(rows) == 4
    for row in rows:
        rehearsed = row["gpu"] == "none"
        assert (row["energy_per_token_mj"] == "") == rehearsed == (row["absent_because"] != "")
        assert row["verdict"] in ({"", "invalid"} if rehearsed else {"", "higher", "lower", "same"})
        assert "0.0" not in (
            row["energy_per_token_mj"],
            row["mean_power_w"],
            row["vs_fp16_energy_pct"],
        )
        assert float(row["tokens_per_s"]) > 0


def test_every_document_of_a_run_is_rounded_the_same(measurement: Report) -> None:
    row = next(csv.DictReader(io.StringIO(as_csv([measurement]))))
    energy = measurement.arms[0].energy.model_dump()
    assert float(row["energy_per_token_mj"]) == pytest.approx(energy["mj_per_token"], rel=1e-8)
    assert float(row["bound_low_mj"]) <= float(row["energy_per_token_mj"])
    assert float(row["energy_per_token_mj"]) <= float(row["bound_high_mj"])


def test_the_table_has_the_documented_columns_of_a_measured_arm(measurement: Report) -> None:
    fp16, nf4 = csv.DictReader(io.StringIO(as_csv([measurement])))
    arm = measurement.arms[1]
    assert present(arm.energy) and present(arm.energy.interval_mj) and present(arm.vs_baseline)
    assert (nf4["basis"], nf4["tier"]) == ("measured", "lowered" if arm.lowered_by else "full")
    assert (nf4["batch_size"], nf4["context_length"]) == ("1", "74")
    assert (nf4["n_blocks"], nf4["n_sessions"]) == ("3", "1")
    low, high = nf4["energy_per_token_low_mj"], nf4["energy_per_token_high_mj"]
    assert (float(low), float(high)) == (arm.energy.interval_mj.low, arm.energy.interval_mj.high)
    assert float(nf4["vs_fp16_energy_pct"]) == arm.vs_baseline.change_pct
    low, high = nf4["vs_fp16_energy_low_pct"], nf4["vs_fp16_energy_high_pct"]
    assert present(arm.vs_baseline.interval_pct)
    assert float(low) == arm.vs_baseline.interval_pct.low < arm.vs_baseline.interval_pct.high
    assert float(high) == arm.vs_baseline.interval_pct.high
    assert fp16["vs_fp16_energy_pct"] == ""


def test_a_finding_that_lowers_the_tier_is_told_in_the_table(measurement: Report) -> None:
    lowered = measurement.arms[0].model_copy(update={"lowered_by": ("not_settled",)})
    calm = lowered.model_copy(update={"lowered_by": ()})
    report = measurement.model_copy(update={"arms": (lowered, calm)})
    rows = list(csv.DictReader(io.StringIO(as_csv([report]))))
    assert [row["tier"] for row in rows] == ["lowered", "full"]
