"""One forgery for each rule of ``validate``, each of them caught; and the one that is not."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecocompute_cube.analysis.protocol import Profile
from ecocompute_cube.model.base import canonical_json, sha256_hex
from ecocompute_cube.model.journal import GENESIS
from ecocompute_cube.model.journal_file import JOURNAL_NAME
from ecocompute_cube.report.recompute import recompute
from ecocompute_cube.report.write import write_energy
from ecocompute_cube.validate import Checked, exit_status, validate_paths

from ..run.rig import Scene, plan

Json = dict[str, Any]
Lines = list[Json]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scripted run of two blocks with its documents."""
    scene = Scene(tmp_path_factory.mktemp("honest"))
    folder = scene.measure(plan(protocol={"blocks": 2}))
    write_energy(folder)
    return folder


@pytest.fixture
def run(honest: Path, tmp_path: Path) -> Path:
    """A copy to forge."""
    return Path(shutil.copytree(honest, tmp_path / "run"))


def _check(run: Path) -> tuple[Checked, ...]:
    return validate_paths([run], Profile.CORE, recompute)


def _codes(run: Path) -> set[str]:
    checked = _check(run)
    schema = {"schema" for each in checked if each.schema_errors}
    return schema | {finding.code for each in checked for finding in each.findings}


def _document(run: Path, precision: str) -> Path:
    return next(run.glob(f"arms/*_{precision}_eager/energy.json"))


def _edit(path: Path, change: Callable[[Json], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def _lines(run: Path) -> Lines:
    return [json.loads(line) for line in (run / JOURNAL_NAME).read_text().splitlines()]


def _rechained(run: Path, lines: Lines) -> None:
    """Write a journal whose chain holds, whatever was done to its lines."""
    prev, texts = GENESIS, []
    for seq, line in enumerate(lines):
        texts.append(canonical_json({**line, "seq": seq, "prev": prev}))
        prev = sha256_hex(texts[-1].encode())
    (run / JOURNAL_NAME).write_text("".join(text + "\n" for text in texts))


def _records(lines: Lines, kind: str) -> Lines:
    return [line["record"] for line in lines if line["record"]["kind"] == kind]


def test_an_honest_run_has_no_findings(run: Path) -> None:
    assert _codes(run) == set()


# Forged documents beside an honest journal

DOCUMENTS: dict[str, Callable[[Json], object]] = {
    "an edited joule": lambda d: d["results"].update(total_energy_joules=1.0),
    "an edited energy per token": lambda d: d["results"].update(energy_per_token_mj=1.0),
    "an edited change": lambda d: d["results"].update(vs_fp16_energy_pct=-50.0),
    "a verdict that was turned": lambda d: d["results"]["vs_fp16"].update(verdict="lower"),
    "a narrower interval": lambda d: d["results"]["vs_fp16"]["interval_pct"].update(low=60.0),
    "a dropped block": lambda d: d["measurement"].update(blocks=1),
    "more tokens": lambda d: d["results"].update(tokens_generated=10**6),
    "a swapped label": lambda d: d["workload"].update(precision="NF4"),
    "another model": lambda d: d["workload"].update(model_name="Another model"),
    "another board": lambda d: d["system_under_test"].update(gpu="NVIDIA B200"),
    "random weights called original": lambda d: d["workload"].update(weights="original"),
    "a finding that was dropped": lambda d: d.update(findings=[]),
    "a better quality": lambda d: d["quality"].update(value=1.5),
    "another library": lambda d: d["software"].update(torch="9.9"),
    "a measurement called estimated": lambda d: d["results"].update(basis="estimated"),
}


@pytest.mark.parametrize("change", DOCUMENTS.values(), ids=list(DOCUMENTS))
def test_a_forged_document_is_caught_by_its_journal(
    run: Path, change: Callable[[Json], object]
) -> None:
    _edit(_document(run, "INT8"), change)
    assert _codes(run) & {"recomputed", "schema"}
    assert exit_status(_check(run)) in (1, 6)


def test_documents_that_were_exchanged_are_caught(run: Path) -> None:
    one, other = _document(run, "NF4"), _document(run, "FP16")
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    assert "recomputed" in _codes(run)


def test_an_estimate_called_measured_is_caught_without_a_journal(run: Path) -> None:
    (run / JOURNAL_NAME).unlink()
    document = _document(run, "INT8")
    _edit(document, lambda d: d.update(measurement_source="estimate"))
    assert any(each.violations for each in _check(run))


# Forged journals


def test_an_edited_reading_breaks_the_chain(run: Path) -> None:
    path = run / JOURNAL_NAME
    path.write_text(path.read_text().replace('"energy_mj":1', '"energy_mj":2', 1))
    assert _codes(run) == {"journal_broken"}


@pytest.mark.parametrize("place", [1, 5, -2])
def test_a_line_that_was_taken_out_breaks_the_chain(run: Path, place: int) -> None:
    lines = (run / JOURNAL_NAME).read_text().splitlines(keepends=True)
    del lines[place]
    (run / JOURNAL_NAME).write_text("".join(lines))
    assert _codes(run) == {"journal_broken"}


def test_lines_that_changed_places_break_the_chain(run: Path) -> None:
    lines = (run / JOURNAL_NAME).read_text().splitlines(keepends=True)
    lines[4], lines[5] = lines[5], lines[4]
    (run / JOURNAL_NAME).write_text("".join(lines))
    assert _codes(run) == {"journal_broken"}


def test_an_end_that_was_cut_off_no_longer_gives_the_documents(run: Path) -> None:
    lines = (run / JOURNAL_NAME).read_text().splitlines(keepends=True)
    (run / JOURNAL_NAME).write_text("".join(lines[: len(lines) // 2]))
    assert "recomputed" in _codes(run)


def test_a_block_that_was_dropped_with_the_chain_mended_no_longer_gives_the_documents(
    run: Path,
) -> None:
    lines = [line for line in _lines(run) if line["record"].get("block") != 1]
    _rechained(run, lines)
    assert "recomputed" in _codes(run)


def test_a_threshold_that_was_moved_afterwards_does_not_fit_the_plans_hash(run: Path) -> None:
    lines = _lines(run)
    lines[0]["record"]["plan"]["protocol"]["threshold_pct"] = 90.0
    _rechained(run, lines)
    assert _codes(run) == {"journal_broken"}


def test_tokens_that_were_added_leave_nothing_that_is_called_measured(run: Path) -> None:
    lines = _lines(run)
    for window in _records(lines, "window"):
        window["ledger"][0]["output_tokens"] *= 2
    _rechained(run, lines)
    write_energy(run)
    assert _forbidden(run) == {"unequal_tokens"}


def _forbidden(run: Path) -> set[str]:
    """What forbids every figure of a run whose documents were written again."""
    documents = [json.loads(path.read_text()) for path in run.glob("arms/*/energy.json")]
    assert {document["results"]["basis"] for document in documents} == {"unavailable"}
    found = [f for document in documents for f in document["findings"]]
    return {finding["code"] for finding in found if finding["effect"] == "invalid"}


# Forged traces


def test_a_trace_that_was_edited_is_not_the_one_that_was_stored(run: Path) -> None:
    _scale_trace(run, _lines(run), 0.5, store=False)
    assert "recomputed" in _codes(run)


def test_a_trace_that_does_not_add_up_to_the_counter_is_caught(run: Path) -> None:
    lines = _lines(run)
    _scale_trace(run, lines, 0.5, store=True)
    _rechained(run, lines)
    write_energy(run)
    assert _forbidden(run) == {"sources_disagree"}


def _scale_trace(run: Path, lines: Lines, factor: float, *, store: bool) -> None:
    """Change the power in every trace; with ``store`` the journal names the new files."""
    for stored in _records(lines, "trace"):
        path = run / stored["file"]
        head, *rows = gzip.decompress(path.read_bytes()).decode().splitlines()
        path.write_bytes(
            gzip.compress("\n".join([head, *(_scaled(r, factor) for r in rows), ""]).encode())
        )
        if store:
            stored["sha256"] = sha256_hex(path.read_bytes())


def _scaled(row: str, factor: float) -> str:
    at, power, *rest = row.split(",")
    return ",".join([at, f"{float(power) * factor:.3f}" if power else "", *rest])


def test_a_counter_that_was_edited_disagrees_with_the_trace(run: Path) -> None:
    lines = _lines(run)
    _scale_counters(lines, 0.5)
    _rechained(run, lines)
    write_energy(run)
    assert _forbidden(run) == {"sources_disagree"}


def _scale_counters(lines: Lines, factor: float) -> None:
    for window in _records(lines, "window"):
        for reading in window["counter"].values():
            reading["energy_mj"] = int(reading["energy_mj"] * factor)


def test_a_consistent_forgery_passes(run: Path) -> None:
    """As docs/validate.md says: who changes everything alike is not found out, only unsigned."""
    lines = _lines(run)
    _scale_counters(lines, 0.5)
    _scale_trace(run, lines, 0.5, store=True)
    _rechained(run, lines)
    write_energy(run)
    assert _codes(run) == set()
