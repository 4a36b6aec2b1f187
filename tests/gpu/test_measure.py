"""The whole measurement on a real board, small: what a user types, and what is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ecocompute_cube.model.base import present
from ecocompute_cube.model.journal import (
    BlockClosed,
    Resumed,
    RunClosed,
    TraceStored,
)
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal
from ecocompute_cube.report.build import build_report
from ecocompute_cube.report.run import read_run

from .conftest import ROOT

pytestmark = pytest.mark.gpu

MODEL = "random:smollm2-135m"
TOKENS = 32
PATIENCE_S = 200.0


class Bench:
    """Folders, and the command line working on them."""

    def __init__(self, folder: Path, models: Path, environment: dict[str, str]) -> None:
        self.results, self._models, self._environment = folder / "results", models, environment
        self._plan = folder / "plan.yaml"

    def plan(self, arms: list[str], blocks: int, boards: int = 1) -> None:
        warmup = {"min_passes": 2, "max_passes": 3, "output_tokens": TOKENS}
        protocol = {"mode": "precise", "window_s": 2.0, "blocks": blocks, "warmup": warmup}
        plan = {
            "name": "gpu-test",
            "models": [MODEL],
            "arms": arms,
            "boards": boards,
            "workloads": [{"prompt_tokens": 10, "output_tokens": TOKENS}],
            "protocol": protocol,
            "quality": {"enabled": False},
        }
        self._plan.write_text(json.dumps(plan))  # JSON is YAML

    def start(self, command: str) -> subprocess.Popen[str]:
        options = [f"--parameters_file={self._plan}", f"--models_dir={self._models}"]
        if command == "measure":
            options.append(f"--output_dir={self.results}")
        return subprocess.Popen(
            [sys.executable, "-m", "ecocompute_cube.cli", command, *options],
            env=self._environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Where the tests run in the background, Ctrl-C would be ignored from birth.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )

    def run(self, command: str) -> None:
        process = self.start(command)
        try:
            said, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            end(process)
        assert process.returncode == 0, said

    @property
    def run_folder(self) -> Path:
        (journal,) = self.results.glob(f"*/{JOURNAL_NAME}")
        return journal.parent

    def journal_has(self, text: bytes) -> bool:
        return any(text in path.read_bytes() for path in self.results.glob(f"*/{JOURNAL_NAME}"))


def end(process: subprocess.Popen[str]) -> None:
    """As a user would, so that its arms end too."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, cuda: dict[str, str]) -> Path:
    """The model, built once."""
    folder = tmp_path_factory.mktemp("models")
    bench = Bench(folder, folder / "models", cuda)
    bench.plan(["FP16"], 1)
    bench.run("download")
    return folder / "models"


@pytest.fixture(scope="module")
def measured(models: Path, cuda: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of three arms."""
    bench = Bench(tmp_path_factory.mktemp("measured"), models, cuda)
    bench.plan(["FP16", "NF4", "INT8"], 1)
    bench.run("measure")
    return bench.run_folder


def documents(run: Path) -> dict[str, dict[str, Any]]:
    """Every energy.json by precision."""
    found = [json.loads(file.read_text()) for file in run.glob("arms/*/energy.json")]
    return {document["workload"]["precision"]: document for document in found}


def test_every_arm_has_its_energy(measured: Path) -> None:
    found = documents(measured)
    assert sorted(found) == ["FP16", "INT8", "NF4"]
    for document in found.values():
        results = document["results"]
        assert results["basis"] == "measured", document["findings"]
        assert document["measurement_source"] == "direct-nvml"
        assert document["measurement"]["source"] == "energy-counter"
        low, high = results["reading_bound_mj"]
        assert 0 < low <= results["energy_per_token_mj"] <= high
        limit = document["system_under_test"]["power_limit_w"]
        assert 0 < results["avg_power_watts"] <= 1.3 * limit


def test_validate_accepts_the_files_and_recomputes_them_from_the_journal(measured: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "ecocompute_cube.cli", "validate", "--json", str(measured)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # 1: not of the published protocol, which wants 256 tokens; 6 would be a broken schema.
    assert process.returncode == 1, process.stderr
    checked = json.loads(process.stdout)["documents"]
    assert len(checked) == 3
    for each in checked:
        assert each["verdict"] != "schema-invalid", each["schema_errors"]
        assert each["schema_errors"] == [] and each["findings"] == []


def test_what_was_loaded_is_what_the_name_says(measured: Path) -> None:
    for precision, document in documents(measured).items():
        certificate = document["certificate"]
        assert certificate["share_as_named"] == 1.0
        assert certificate["linear_weights"][precision] > 100_000_000
        assert certificate["compute_dtype"].endswith("float16")
        assert all(device.startswith("cuda") for device in certificate["devices"])


def test_tokens_are_as_planned(measured: Path) -> None:
    for document in documents(measured).values():
        iterations = document["measurement"]["iterations"]
        assert iterations >= 1
        assert document["results"]["tokens_generated"] == iterations * TOKENS
        assert document["workload"]["output_tokens"] == TOKENS


def test_every_visit_has_a_trace_of_ten_hertz_or_better(measured: Path) -> None:
    facts = read_journal(measured / JOURNAL_NAME).records
    traces = [fact for fact in facts if isinstance(fact, TraceStored)]
    assert len(traces) == 3
    for trace in traces:
        assert present(trace.achieved_hz) and trace.achieved_hz >= 10
        assert (measured / trace.file).exists()
    for document in documents(measured).values():
        assert document["measurement"]["cross_check"]["achieved_rate_hz"] >= 10


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.05)


def test_ctrl_c_in_a_window_leaves_a_journal_that_the_same_command_finishes(
    models: Path, cuda: dict[str, str], tmp_path: Path
) -> None:
    bench = Bench(tmp_path, models, cuda)
    bench.plan(["FP16"], 2)
    process = bench.start("measure")
    try:
        until(lambda: bench.journal_has(b'"kind":"warmed"'), process)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    finally:
        end(process)
    assert process.returncode == 130, said
    stopped = read_journal(bench.run_folder / JOURNAL_NAME).records
    assert isinstance(stopped[-1], RunClosed) and stopped[-1].reason == "interrupted"

    bench.run("measure")
    facts = read_journal(bench.run_folder / JOURNAL_NAME).records
    assert facts[: len(stopped)] == stopped
    assert any(isinstance(fact, Resumed) for fact in facts)
    assert [f.complete for f in facts if isinstance(f, BlockClosed)] == [False, True, True]
    (arm,) = build_report(read_run(bench.run_folder)).arms
    assert present(arm.energy) and arm.blocks == 2
