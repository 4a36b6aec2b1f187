"""Journals are found wherever they are; what hides one is named."""

from __future__ import annotations

import os
from pathlib import Path

from ecocompute_cube.model.journal_file import JOURNAL_NAME
from ecocompute_cube.report.journals import journals_below


def run(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / JOURNAL_NAME).write_bytes(b"")
    return folder / JOURNAL_NAME


def test_journals_come_in_order_and_a_link_that_leads_nowhere_counts(tmp_path: Path) -> None:
    late, early = run(tmp_path / "b/deep"), run(tmp_path / "a")
    (tmp_path / "c").mkdir()
    dangling = tmp_path / "c" / JOURNAL_NAME
    dangling.symlink_to("gone")
    assert journals_below(tmp_path) == ((early, late, dangling), ())


def test_a_linked_run_is_not_followed_and_is_told(tmp_path: Path) -> None:
    good = run(tmp_path / "good")
    (tmp_path / "linked").symlink_to(tmp_path / "good")
    (tmp_path / "back").symlink_to(tmp_path)  # a circle, without a journal of its own
    found = journals_below(tmp_path)
    assert found.journals == (good,)
    (told,) = found.unseen
    assert told.startswith("linked: a link to a folder")


def test_a_folder_that_cannot_be_looked_into_is_told(tmp_path: Path) -> None:
    """Root may look anywhere: a folder that is gone before its turn is refused to anybody."""
    good, gone = run(tmp_path / "a"), tmp_path / "b"
    found = journals_below(gone)
    assert found.journals == () and found.unseen == (f"b: {os.strerror(2)}",)
    assert journals_below(tmp_path).journals == (good,)
