"""Runs made in turn are paired by their number, and only with their like."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu.alternating import Unpairable, as_text, changes, left_out

from ..run.rig import Scene, plan


def _runs(folder: Path, names: str, blocks: int = 1) -> Path:
    for name in names:
        scene = Scene(folder.parent / "machine")
        scene.output = folder / name
        scene.measure(plan(protocol={"blocks": blocks}))
    return folder


def test_equal_work_changes_nothing(tmp_path: Path) -> None:
    found = changes(_runs(tmp_path / "a", "123"), _runs(tmp_path / "b", "123"))
    assert {change.pairs for change in found} == {3}
    for change in found:
        assert change.low_pct is not None and change.high_pct is not None
        assert change.low_pct <= change.change_pct <= change.high_pct
        assert abs(change.change_pct) < 1
    assert "from native to cube" in as_text(found, "native", "cube")


def test_one_pair_gives_a_change_without_an_interval(tmp_path: Path) -> None:
    found = changes(_runs(tmp_path / "a", "1"), _runs(tmp_path / "b", "1"))
    assert {change.low_pct for change in found} == {None}


def test_a_pair_that_lost_a_run_is_left_out_and_named(tmp_path: Path) -> None:
    a, b = _runs(tmp_path / "a", "123"), _runs(tmp_path / "b", "13")
    assert {change.pairs for change in changes(a, b)} == {2}
    assert left_out(a, b) == ["2"]


def test_a_run_that_was_not_finished_makes_no_pair(tmp_path: Path) -> None:
    a, b = _runs(tmp_path / "a", "12"), _runs(tmp_path / "b", "1")
    scene = Scene(tmp_path / "machine")
    scene.output = b / "2"
    scene.measure(plan(protocol={"blocks": 1}), max_minutes=1e-6)
    assert {change.pairs for change in changes(a, b)} == {1}
    assert left_out(a, b) == ["2"]


@pytest.mark.parametrize(("names", "blocks"), [("2", 1), ("1", 2)])
def test_what_is_not_alike_is_not_paired(tmp_path: Path, names: str, blocks: int) -> None:
    a = _runs(tmp_path / "a", "1")
    b = _runs(tmp_path / "b", names, blocks)
    with pytest.raises(Unpairable):
        changes(a, b)
