"""Published measurements as the package holds them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

import pytest

from ecocompute_cube.model.base import present
from ecocompute_cube.model.plan import Precision
from ecocompute_cube.model.published import Published, published

FILES: Final = Path(__file__).parents[1] / "fixtures" / "published" / "quant-energy"


def of(file: str) -> list[Published]:
    return [row for row in published() if row.file.endswith(f": {file}")]


@pytest.mark.parametrize("file", ["rtx5090_bnb_2026-09-20.csv", "rtx4090_bnb_2026-09-25.csv"])
def test_the_change_is_the_published_one_to_its_last_digit(file: str) -> None:
    lines = csv.DictReader((FILES / file).open(encoding="utf-8"))
    told = [float(line["vs_fp16_pct"]) for line in lines]
    assert [row.vs_fp16_energy_pct for row in of(file)] == pytest.approx(told, abs=0.051)


def test_each_row_has_a_name_of_its_own_a_licence_and_a_file() -> None:
    rows = published()
    assert len({row.id for row in rows}) == len(rows) > 90
    assert {row.license for row in rows} == {"CC-BY-4.0"}
    assert all(row.doi.startswith("10.5281/zenodo.") for row in rows if present(row.doi))


def test_precisions_have_our_names_but_for_those_that_are_not_ours() -> None:
    foreign = {row.precision for row in published()} - {*Precision}
    assert foreign == {"Q4_0"}
    assert {row.runtime for row in published() if row.precision == "Q4_0"} == {"llama.cpp"}


def test_what_was_not_published_is_absent_and_no_number() -> None:
    (row,) = [row for row in published() if row.id == "measured-12"]
    assert row.remarks == ("baseline_back_derived",)
    assert not present(row.mean_power_w) and not present(row.torch)
    assert present(row.transformers) and row.transformers == "4.46.3"


def test_sessions_are_apart_and_replicates_stay_within_theirs() -> None:
    assert len({row.session for row in of("rtx4090_bnb_2026-09-25.csv")}) == 3
    assert len({row.session for row in of("rtx4090_int8_repeats_2026-08-20.csv")}) == 1
