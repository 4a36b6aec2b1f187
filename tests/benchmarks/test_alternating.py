"""Runs made in turn are paired in their order, and only with their like."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu.alternating import Unpairable, as_text, changes

from ..run.rig import Scene, plan


def _runs(folder: Path, count: int, **keys: object) -> Path:
    scene = Scene(folder)
    for _ in range(count):
        scene.measure(plan(protocol={"blocks": 1, **keys}))
    return scene.output


def test_equal_work_changes_nothing(tmp_path: Path) -> None:
    found = changes(_runs(tmp_path / "a", 3), _runs(tmp_path / "b", 3))
    assert {change.pairs for change in found} == {3}
    for change in found:
        assert change.low_pct is not None and change.high_pct is not None
        assert change.low_pct <= change.change_pct <= change.high_pct
        assert abs(change.change_pct) < 1
    assert "from native to cube" in as_text(found, "native", "cube")


def test_one_pair_gives_a_change_without_an_interval(tmp_path: Path) -> None:
    found = changes(_runs(tmp_path / "a", 1), _runs(tmp_path / "b", 1))
    assert {change.low_pct for change in found} == {None}


@pytest.mark.parametrize(("count", "blocks"), [(2, 1), (1, 2), (0, 1)])
def test_what_is_not_alike_is_not_paired(tmp_path: Path, count: int, blocks: int) -> None:
    a = _runs(tmp_path / "a", 1)
    b = _runs(tmp_path / "b", count, blocks=blocks)
    with pytest.raises(Unpairable):
        changes(a, b)
