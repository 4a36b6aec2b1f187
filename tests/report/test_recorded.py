"""Journals that were recorded on real boards keep giving the documents that ship beside them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from ecocompute_cube.report.write import write_energy, write_report

MOST_PAGE_BYTES: Final = 1_600_000  # up to fifty arms
ROOT: Final = Path(__file__).parents[2]
H200: Final = ROOT / "data" / "h200"
RUNS: Final = sorted(
    journal.parent
    for shelf in ("runs", "container")
    for journal in (H200 / shelf).rglob("journal.jsonl")
)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_an_early_journal_gives_the_bytes_it_always_gave(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / run.name
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("energy.json"))
    write_energy(copy)
    shipped = {file.relative_to(run): file.read_bytes() for file in run.rglob("energy.json")}
    assert shipped
    assert {name: (copy / name).read_bytes() for name in shipped} == shipped


def test_the_page_of_everything_that_was_recorded_is_not_too_large(tmp_path: Path) -> None:
    write_report(ROOT / "data", tmp_path, lambda _: None)
    assert (tmp_path / "report.html").stat().st_size <= MOST_PAGE_BYTES
