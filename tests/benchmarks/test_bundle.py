"""The results that the benchmark makes are results: they are bundled whole, and hold."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bundle import digest, large_trace, results_with_large_traces
from ecocompute_cube.archive.bundle import Request, bundle
from ecocompute_cube.archive.check import check


def test_what_it_makes_is_bundled_whole(tmp_path: Path) -> None:
    lines: list[str] = []
    results = results_with_large_traces(tmp_path, megabytes=0.4)
    size = sum(file.stat().st_size for file in results.rglob("*.csv.gz"))
    assert 0.3e6 < size < 0.6e6
    bundle(Request(results, tmp_path / "bundle", tmp_path / "report"), lines.append)
    assert lines == []  # pages and documents were taken as they lay there
    assert check(tmp_path / "bundle", None, lines.append).troubles == ()


def test_the_same_seed_is_the_same_trace_and_another_byte_is_seen(tmp_path: Path) -> None:
    assert large_trace(0.1) == large_trace(0.1) != large_trace(0.1, seed=2)
    (tmp_path / "a").write_bytes(b"x")
    before = digest(tmp_path)
    (tmp_path / "a").write_bytes(b"y")
    assert digest(tmp_path) != before
