"""Captured decoding on a real board: the ids of the loop, and refusals by name."""

from __future__ import annotations

import csv
import os
import subprocess
import sys

import pytest

from .conftest import ROOT
from .test_measure import MODEL, Bench

pytestmark = pytest.mark.gpu

TOKENS = 48
LIGHT = ("FP16", "BF16", "NF4", "NF4-DQ", "INT8-T0", "FP8-DYN", "INT8-WO")
ARMS = [f"{precision}/{runtime}" for precision in LIGHT for runtime in ("loop", "eager", "graph")]


@pytest.fixture(scope="module")
def found(
    cuda: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, str]]:
    """What ``benchmarks.gpu.arms`` found, in a process that is gone by now."""
    folder = tmp_path_factory.mktemp("arms")
    bench = Bench(folder, folder / "models", cuda)
    bench.plan(["FP16"], 1)
    bench.run("download")
    file = folder / "arms.csv"
    asked = [*ARMS, "FP16/compiled", "INT8/loop", "INT8/graph"]
    words = ["--model", MODEL, "--tokens", str(TOKENS), "--csv", str(file), "--arms", *asked]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu.arms", str(folder / "models"), *words],
        env={**cuda, "PYTHONPATH": os.pathsep.join([str(ROOT), cuda.get("PYTHONPATH", "")])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    sys.stdout.write(done.stdout)
    assert file.exists(), done.stderr
    with file.open(newline="") as rows:
        return {row["arm"]: row for row in csv.DictReader(rows)}


def test_a_replayed_graph_gives_the_ids_of_the_loop(found: dict[str, dict[str, str]]) -> None:
    for precision in ("FP16", "NF4", "INT8-T0"):
        row = found[f"{precision}/graph"]
        assert not row["refused"], row
        assert int(row["same_ids"]) == TOKENS, row


def test_a_graph_is_faster_than_python(found: dict[str, dict[str, str]]) -> None:
    rates = {arm: float(row["tokens_per_s"]) for arm, row in found.items() if not row["refused"]}
    assert rates["FP16/graph"] > 2 * rates["FP16/loop"], rates


def test_what_cannot_be_captured_is_refused_by_name(found: dict[str, dict[str, str]]) -> None:
    assert found["INT8/graph"]["refused"].startswith("not_capturable")
    assert not found["INT8/loop"]["refused"]


def test_what_is_refused_here_is_refused_by_name_and_never_for_a_fault_of_ours(
    found: dict[str, dict[str, str]],
) -> None:
    codes = {row["refused"].split(":")[0] for row in found.values() if row["refused"]}
    assert codes <= {"not_capturable", "precision_not_native", "library_missing"}, codes
