"""A model split over two real boards: which is which, the same ids as on one, and their sum."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ecocompute_cube.device.nvml import choose_boards
from ecocompute_cube.errors import EcoError
from ecocompute_cube.model.base import sha256_hex
from ecocompute_cube.model.journal import Refused, SessionOpened, TraceStored
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal
from ecocompute_cube.report.recompute import recompute

from .conftest import ROOT
from .test_measure import Bench

pytestmark = pytest.mark.gpu

Json = dict[str, Any]
FOLDER = "random-smollm2-135m"


@pytest.fixture(scope="module")
def pair() -> list[str]:
    """The boards that a measurement of two would use."""
    try:
        chosen = choose_boards(2)
    except EcoError as error:
        pytest.skip(f"NO TWO BOARDS, so that splitting a model did not run: {error.cause}")
    for each in chosen:
        each.claim.close()
    return [each.uuid for each in chosen]


@pytest.fixture(scope="module")
def both(pair: list[str], cuda: dict[str, str]) -> dict[str, str]:
    """The environment of a process whose torch sees these two."""
    return {**cuda, "CUDA_VISIBLE_DEVICES": ",".join(pair)}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, both: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("models")
    bench = Bench(folder, folder / "models", both)
    bench.plan(["FP16"], 1)
    bench.run("download")
    return folder / "models"


@pytest.fixture(scope="module")
def found(pair: list[str], both: dict[str, str], models: Path) -> Json:
    """What ``both_boards.py`` found."""
    script = ROOT / "tests" / "gpu" / "both_boards.py"
    done = subprocess.run(
        [sys.executable, str(script), ",".join(pair), str(models / FOLDER)],
        env={**both, "PYTHONPATH": os.pathsep.join([str(ROOT), both.get("PYTHONPATH", "")])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: Json = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(answers["busy"]), json.dumps(answers["static"]))
    for name, arm in answers["arms"].items():
        print(name, {k: arm["two"].get(k) for k in ("held", "refused")})
    return answers


def test_torch_sees_the_boards_that_are_read_in_the_same_order(
    found: Json, pair: list[str]
) -> None:
    assert [uuid.lower() for uuid in found["seen"]] == [uuid.lower() for uuid in pair]


def test_the_board_that_works_is_the_one_whose_counter_runs(found: Json) -> None:
    first, second = found["busy"]["cuda:0"]
    assert first > 1.5 * second, found["busy"]
    first, second = found["busy"]["cuda:1"]
    assert second > 1.5 * first, found["busy"]


@pytest.mark.parametrize("arm", ["FP16/eager", "FP16/loop", "NF4/eager", "NF4/loop"])
def test_a_split_model_says_what_it_says_on_one_board(found: Json, arm: str) -> None:
    one, two = found["arms"][arm]["one"], found["arms"][arm]["two"]
    assert "refused" not in two, two
    assert two["ids"] == one["ids"]


def test_each_board_holds_a_share_of_the_weights_and_together_they_hold_all(found: Json) -> None:
    for name, arm in found["arms"].items():
        if "refused" in arm["two"]:
            continue
        held = arm["two"]["held"]
        assert set(held) == {"cuda:0", "cuda:1"}, name
        assert min(held.values()) > 0.1 * sum(held.values()), name
        assert sum(held.values()) == pytest.approx(arm["one"]["bytes"], rel=0.001), name


def test_what_cannot_be_captured_over_two_boards_is_refused_by_name(found: Json) -> None:
    assert found["graph"]["refused"].startswith("not_capturable")


# By the command


@pytest.fixture(scope="module")
def measured(models: Path, both: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    bench = Bench(tmp_path_factory.mktemp("measured"), models, both)
    bench.plan(["FP16", "NF4", "FP16/loop", "FP16/graph"], 1, boards=2)
    bench.run("measure")
    return bench.run_folder


def documents(run: Path) -> dict[str, Json]:
    return {path.parent.name: json.loads(path.read_text()) for path in run.glob("arms/*/*.json")}


def test_energy_is_the_sum_of_two_boards_and_the_journal_gives_it_again(measured: Path) -> None:
    arms = {name: each for name, each in documents(measured).items() if "graph" not in name}
    assert len(arms) == 3
    for name, document in arms.items():
        results = document["results"]
        assert results["basis"] == "measured", (name, document["findings"])
        parts = [board["energy_joules"] for board in results["boards"]]
        assert len(parts) == 2 and all(part > 0 for part in parts)
        assert sum(parts) == pytest.approx(results["total_energy_joules"])
        low, high = results["reading_bound_mj"]
        assert low <= results["energy_per_token_mj"] <= high
        assert document["system_under_test"]["accelerator_count"] == 2
        assert document["certificate"]["devices"] == ["cuda:0", "cuda:1"]
    for path in measured.glob("arms/*/energy.json"):
        assert recompute(path, json.loads(path.read_text())) == []


def test_both_boards_are_named_by_hash_and_traced(measured: Path, pair: list[str]) -> None:
    facts = read_journal(measured / JOURNAL_NAME).records
    (session,) = (fact for fact in facts if isinstance(fact, SessionOpened))
    assert [b.uuid_sha256 for b in session.boards] == [sha256_hex(u.encode()) for u in pair]
    assert not any(uuid in (measured / JOURNAL_NAME).read_text() for uuid in pair)
    traces = [fact for fact in facts if isinstance(fact, TraceStored)]
    assert {trace.board for trace in traces} == {0, 1}
    (refused,) = (fact for fact in facts if isinstance(fact, Refused))
    assert refused.reason == "not_capturable" and "FP16/loop" in refused.fix
    checks = [d["measurement"]["cross_check"] for d in documents(measured).values()
              if d["results"]["basis"] == "measured"]  # fmt: skip
    assert all(abs(check["difference_pct"]) < 10 for check in checks), checks
