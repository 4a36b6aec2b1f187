"""What the benchmark of reports makes its journals of."""

from __future__ import annotations

from pathlib import Path

from benchmarks.report import copied, same
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal
from tests.run.rig import Scene, plan


def test_a_copy_is_a_sound_run_of_its_own(tmp_path: Path) -> None:
    run = Scene(tmp_path).measure(plan(arms=["FP16"], protocol={"blocks": 1}))
    copied(run, tmp_path / "copies", "another")
    old = read_journal(run / JOURNAL_NAME)
    new = read_journal(tmp_path / "copies" / "another" / JOURNAL_NAME)
    assert len(new.records) == len(old.records)
    assert new.records[0].run_id == "another"  # type: ignore[union-attr]  # the first is the run
    assert new.records[1:] == old.records[1:]


def test_folders_are_compared_by_their_bytes(tmp_path: Path) -> None:
    for name, text in (("one", "a"), ("two", "a"), ("three", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(text)
    assert same(tmp_path / "one", tmp_path / "two")
    assert not same(tmp_path / "one", tmp_path / "three")
