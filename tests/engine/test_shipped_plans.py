"""The plans under data/: each is read, and a Hopper block takes at most nine minutes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ecocompute_cube.forecast import forecast
from ecocompute_cube.model.plan_file import read_plan

DATA = Path(__file__).parents[2] / "data"
HOPPER = sorted((DATA / "hopper" / "plans").glob("*.yaml"))
ROW = re.compile(r"^\| `([\w.-]+)` \|.*\| (\d+) \|$", re.MULTILINE)


@pytest.mark.parametrize("file", sorted(DATA.glob("*/plans/*.yaml")), ids=lambda file: file.stem)
def test_a_plan_that_ships_is_read(file: Path) -> None:
    assert read_plan(file).expanded()


@pytest.mark.parametrize("file", HOPPER, ids=lambda file: file.stem)
def test_a_hopper_plan_is_one_block_of_at_most_nine_minutes(file: Path, tmp_path: Path) -> None:
    told = forecast(read_plan(file), tmp_path)
    assert len(told.blocks) == 1
    assert told.prediction.first_block_s <= 9 * 60


def test_the_readme_names_every_hopper_plan_with_its_minutes(tmp_path: Path) -> None:
    said = {
        name: int(minutes) for name, minutes in ROW.findall((DATA / "hopper/README.md").read_text())
    }
    predicted = {
        file.stem: forecast(read_plan(file), tmp_path).prediction.total_s / 60 for file in HOPPER
    }
    assert said == {name: round(minutes) for name, minutes in predicted.items()}
