"""A day of samples as the benchmark makes it is one that can be stored and read back."""

from __future__ import annotations

from pathlib import Path

from benchmarks.sampler import day, stored_day


def test_an_hour_of_samples_is_read_back_whole(tmp_path: Path) -> None:
    kept = stored_day(tmp_path, hours=0.05)
    assert kept.samples == 0.05 * 3600 * 50
    assert 0 < kept.stored_mb < kept.text_mb


def test_the_same_seed_is_the_same_day() -> None:
    assert list(day(0.001)) == list(day(0.001)) != list(day(0.001, seed=2))
