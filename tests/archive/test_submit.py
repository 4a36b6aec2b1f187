"""A contribution to the published dataset: what is in it, and what is kept out of it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from ecocompute_cube.archive.community import COLUMNS, Blocks, Person, entry
from ecocompute_cube.archive.submit import CSV_NAME, ISSUE_NAME, Submission, as_text, submit
from ecocompute_cube.cli import main
from ecocompute_cube.errors import MeasurementInvalid, OutputError
from ecocompute_cube.model.bundle import Layout
from ecocompute_cube.model.journal_file import JOURNAL_NAME
from ecocompute_cube.validate import validate_paths

from ..report.stage import HOSTILE, measured, quick, scene
from .rig import ROOT, Desk, Json, files_of

TEMPLATE = ROOT / "tests/fixtures/published/ecocompute-ai/community_submission_template.csv"
JANE = Person("Doe, Jane", "jane@example.org", "https://doi.org/10.5072/zenodo.1")


def made(place: Path, out: Path, person: Person = JANE, *, force: bool = False) -> Submission:
    return submit(place, out, person, lambda _: None, force=force)


def rows(out: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((out / CSV_NAME).read_text())))


def test_the_columns_are_those_of_the_published_template() -> None:
    assert TEMPLATE.read_text().splitlines()[0] == ",".join(COLUMNS)


def test_each_arm_has_a_valid_document_a_row_and_a_line_in_the_issue(two_runs: Desk) -> None:
    done = made(two_runs.results, two_runs.out)
    found = rows(two_runs.out)
    assert len(done.entries) == len(found) == 6 and done.left_out == ()
    checked = validate_paths([two_runs.out])
    assert len(checked) == 6 and not any(each.schema_errors for each in checked)
    issue = (two_runs.out / ISSUE_NAME).read_text()
    assert all(f"`{row['submission_id']}`" in issue for row in found)
    assert "dataset-eligible" in issue and "Doe, Jane" in issue
    assert (two_runs.out / CSV_NAME).read_text() in issue


def test_a_row_says_what_the_document_says(two_runs: Desk) -> None:
    made(two_runs.results, two_runs.out)
    row = rows(two_runs.out)[4]
    document = json.loads(next(two_runs.out.rglob("embedded*_NF4_eager.energy.json")).read_text())
    assert float(row["energy_j_per_1k_tok_mean"]) == pytest.approx(
        document["results"]["energy_per_token_mj"], rel=1e-5
    )
    assert (row["precision"], row["quantization_backend"]) == ("nf4", "bitsandbytes")
    assert (row["measured_runs"], row["warmup_runs"]) == ("30", "3")
    assert row["gpu_vram_gb"] == "140" and row["driver_version"] == "580.159.04"
    assert row["raw_archive_path"] == JANE.archive and row["date_utc"] == "2026-11-30"
    assert float(row["energy_cv_percent"]) == pytest.approx(12.04, abs=0.01)
    assert "spreads over 3 blocks" in row["notes"] and "dequantized weights" in row["notes"]


def test_the_spread_is_that_of_the_blocks(two_runs: Desk) -> None:
    """Three blocks of the NF4 arm, worked out by hand from report.json."""
    made(two_runs.results, two_runs.out)
    two_runs.bundle(two_runs.folder / "b")
    report = json.loads((two_runs.folder / "b/report/report.json").read_text())
    blocks = next(
        arm["energy"]["blocks_mj"]
        for run in report["runs"]
        for arm in run["arms"]
        if arm["arm"].startswith("embedded") and arm["precision"] == "NF4"
    )
    mean = sum(blocks) / 3
    std = (sum((value - mean) ** 2 for value in blocks) / 2) ** 0.5
    assert float(rows(two_runs.out)[4]["energy_j_per_1k_tok_std"]) == pytest.approx(std, rel=1e-5)


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_a_bundle_gives_what_its_results_give(two_runs: Desk, layout: Layout, name: str) -> None:
    made(two_runs.results, two_runs.folder / "first")
    two_runs.bundle(two_runs.folder / name, layout)
    made(two_runs.folder / name, two_runs.folder / "second")
    assert files_of(two_runs.folder / "first") == files_of(two_runs.folder / "second")


# Tracks


def document(**changes: object) -> Json:
    """A measurement that the main track would take."""
    whole: Json = {
        "timestamp_utc": "2026-11-30T12:00:00Z",
        "system_under_test": {"gpu": "NVIDIA H200", "gpu_arch": "hopper"},
        "workload": {
            "model_name": "A",
            "model_reference": "hub:Org/Name@abc",
            "weights": "original",
            "runtime": "eager",
            "precision": "FP16",
            "phase": "generate",
        },
        "measurement": {"iterations": 10, "blocks": 3, "warmup": 3, "sample_rate_hz": 10},
        "results": {"energy_per_token_mj": 100.0, "fp16_energy_per_token_mj": 100.0},
        "findings": [],
    }
    for place, value in changes.items():
        block, _, key = place.partition("__")
        whole[block][key] = value
    return whole


STEADY = Blocks((100.0, 101.0, 99.0), (50.0, 50.0, 50.0), (10.0, 10.0, 10.0))


def test_what_the_main_track_asks_for_is_a_candidate_for_it() -> None:
    found = entry("id", document(), STEADY, JANE)
    assert found.short_of == () and found.row["track"] == "main-benchmark-candidate"
    assert found.row["model_id"] == "Org/Name@abc" and found.row["energy_cv_percent"] == "1"


@pytest.mark.parametrize(
    ("changes", "blocks", "word"),
    [
        ({"workload__weights": "random"}, STEADY, "random"),
        ({"workload__runtime": "graph"}, STEADY, "graph"),
        ({"workload__phase": "decode"}, STEADY, "decode"),
        ({"results__fp16_energy_per_token_mj": None}, STEADY, "FP16"),
        ({"measurement__sample_rate_hz": None}, STEADY, "0 samples a second"),
        ({"measurement__sample_rate_hz": 9}, STEADY, "9 samples a second"),
        ({"measurement__warmup": 2}, STEADY, "2 warm-up passes"),
        ({"measurement__iterations": 3}, STEADY, "9 generations"),
        ({}, Blocks((100.0, 110.0), (1.0, 1.0), (1.0, 1.0)), "energy varies by 6.7 %"),
        ({}, Blocks((100.0,), (1.0,), (1.0,)), "no spread"),
    ],
)
def test_whatever_falls_short_is_a_case_study_and_says_why(
    changes: dict[str, object], blocks: Blocks, word: str
) -> None:
    found = entry("id", document(**changes), blocks, JANE)
    assert found.row["track"] == "supplementary-case-study"
    (why,) = found.short_of
    assert word in why


# What is kept out


def test_rehearsals_are_not_contributed(tmp_path: Path) -> None:
    run = measured(scene(tmp_path), quick(), rehearse=True)
    with pytest.raises(MeasurementInvalid, match="No arm has a number") as caught:
        made(run, tmp_path / "out")
    assert ".." not in caught.value.cause
    assert not (tmp_path / "out").exists()


def test_a_journal_cut_before_its_first_session_has_nothing_to_contribute(tmp_path: Path) -> None:
    run = measured(scene(tmp_path), quick())
    journal = run / JOURNAL_NAME
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(MeasurementInvalid, match="before its first session"):
        made(run, tmp_path / "out")


def test_energy_per_prompt_token_is_left_out_by_name(tmp_path: Path) -> None:
    asked = quick(workloads=[{"output_tokens": 64}, {"prompt_tokens": 32, "phase": "prefill"}])
    run = measured(scene(tmp_path), asked)
    done = made(run, tmp_path / "out")
    assert len(done.entries) == len(done.left_out) == 2
    assert all("prefill" in each and "per prompt token" in each for each in done.left_out)
    assert "left out: " in as_text(done, tmp_path / "out")


def test_hostile_names_stay_in_their_cells(tmp_path: Path) -> None:
    run = measured(scene(tmp_path, [HOSTILE]), quick())
    made(run, tmp_path / "out", Person("=1+1\n<b>|", "@x", "+y"))
    for row in rows(tmp_path / "out"):
        assert set(row) == set(COLUMNS)
        assert not any(value.startswith(("=", "+", "-", "@")) for value in row.values())
    text = (tmp_path / "out" / ISSUE_NAME).read_text().partition("```")[0]
    assert "<script" not in text and "<b>" not in text
    assert all(c.isprintable() or c == "\n" for c in text)


# Where it goes


def test_an_earlier_one_is_replaced_if_it_is_the_same_or_by_force(desk: Desk) -> None:
    made(desk.results, desk.out)
    made(desk.results, desk.out)
    with pytest.raises(OutputError, match="--force"):
        made(desk.results, desk.out, Person("Roe, Richard"))
    made(desk.results, desk.out, Person("Roe, Richard"), force=True)
    assert rows(desk.out)[0]["submitter_name"] == "Roe, Richard"


def test_what_is_no_submission_is_never_replaced(desk: Desk) -> None:
    desk.out.mkdir()
    (desk.out / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match="no submission"):
        made(desk.results, desk.out, force=True)


def test_the_command_says_that_nothing_was_sent(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["submit", str(desk.results), "--out", str(desk.out), "--name", "Doe, Jane"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "3 arms" in out and "nothing was sent" in out
    assert rows(desk.out)[0]["submitter_contact"] == "N/A"
