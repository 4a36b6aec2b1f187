"""Runs on machines with several boards, and on boards that go away, by the real command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ecocompute_cube.model.base import present, sha256_hex
from ecocompute_cube.model.journal import SessionOpened, TraceStored, WindowMeasured
from ecocompute_cube.model.plan import Precision
from ecocompute_cube.report.build import build_report
from ecocompute_cube.report.recompute import recompute
from ecocompute_cube.report.run import read_run

from ..device.machine import make_machine
from .rig import BRIEF, Scene, assert_told

UUIDS = [f"GPU-{n}{n}{n}{n}0000-0000" for n in range(4)]


@pytest.fixture
def boards(scene_of: Callable[..., Scene], libraries: Path) -> Scene:
    """A machine with four boards; each draws 100 W."""
    scene = scene_of(protocol=BRIEF)
    scene.environment |= {
        "LD_LIBRARY_PATH": str(libraries / "new"),
        "STUB_BOARDS": ",".join(UUIDS),
        "STUB_FIELD_186": "0:1:100000",
        "STUB_GONE": str(scene.stage / "gone"),
        "STAGE_ROOT": str(make_machine(scene.folder / "machine")),
    }
    return scene


@pytest.mark.parametrize(
    ("visible", "place"),
    [("3,1", 3), ("1", 1), (UUIDS[2], 2), ("GPU-11", 1)],
    ids=["reordered", "one", "UUID", "shortened UUID"],
)
def test_id_cvd_the_board_that_was_named_is_the_only_one_in_the_result(
    boards: Scene, visible: str, place: int
) -> None:
    """ID-CVD, ID-NEIGHBOUR, CT-MLCUBEGPU: by NVML, by the arms, and in the journal."""
    boards.environment["CUDA_VISIBLE_DEVICES"] = visible
    boards.plan_to("FP16.window.hang")
    with boards.started(rehearse=False):
        pid = boards.wait_for("FP16.window.hung")
        seen = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    assert f"CUDA_VISIBLE_DEVICES={UUIDS[place]}".encode() in seen
    (session,) = (fact for fact in boards.facts() if isinstance(fact, SessionOpened))
    assert present(session.board)
    assert session.board.uuid_sha256 == sha256_hex(UUIDS[place].encode())


def test_id_order_of_boards_of_two_kinds_the_index_is_nvmls_and_is_told(boards: Scene) -> None:
    """ID-ORDER: CUDA would count the fastest first; arms are given the UUID."""
    boards.environment |= {
        "CUDA_VISIBLE_DEVICES": "1",
        "STUB_NAME_0": "NVIDIA T400",
        "STUB_NAME_1": "NVIDIA H200",
    }
    ended = boards.measure(rehearse=False)
    assert ended.status == 0, ended.err
    assert "measuring on NVIDIA H200" in ended.err and "PCI order" in ended.err
    (session,) = (fact for fact in boards.facts() if isinstance(fact, SessionOpened))
    assert present(session.board)
    assert session.board.uuid_sha256 == sha256_hex(UUIDS[1].encode())


def test_ct_nvmllost_a_board_that_goes_away_costs_windows_and_the_same_command_measures_again(
    boards: Scene,
) -> None:
    """CT-NVMLLOST: nothing invalid becomes a number, and nothing that was read is lost."""
    boards.plan_to("FP16.window.vanish")
    ended = boards.measure(rehearse=False)
    assert ended.status == 3, ended
    assert "the same command again" in ended.err
    windows = [fact for fact in boards.facts() if isinstance(fact, WindowMeasured)]
    lost = [window for window in windows if window.arm.endswith("FP16_eager")]
    assert lost and all(not present(window.counter) for window in lost)
    (run,) = boards.runs
    energies = {arm.precision: arm.energy for arm in build_report(read_run(run)).arms}
    assert not present(energies[Precision.FP16])
    boards.call_off("FP16.window.vanish")
    boards.call_off("gone")
    again = boards.measure(rehearse=False)
    assert again.status == 0, again
    assert boards.runs == [run]
    report = build_report(read_run(run))
    assert all(present(arm.energy) for arm in report.arms)


# A model that is split


@pytest.fixture
def split(boards: Scene) -> Scene:
    """The same machine, and a plan for two of its boards."""
    plan = json.loads(boards.plan.read_text())
    boards.plan.write_text(json.dumps(plan | {"boards": 2}))
    return boards


def test_two_boards_are_measured_as_one_and_each_arm_sees_both_in_order(split: Scene) -> None:
    split.environment["CUDA_VISIBLE_DEVICES"] = "3,1"
    ended = split.measure(rehearse=False)
    assert ended.status == 0, ended.err
    assert ended.err.count("measuring on NVIDIA Stub") == 2
    hashes = [sha256_hex(UUIDS[place].encode()) for place in (3, 1)]
    (session,) = (fact for fact in split.facts() if isinstance(fact, SessionOpened))
    assert [board.uuid_sha256 for board in session.boards] == hashes
    stored = [fact for fact in split.facts() if isinstance(fact, TraceStored)]
    assert [trace.board for trace in stored] == [0, 1] * 3
    (run,) = split.runs
    for arm in build_report(read_run(run)).arms:
        assert present(arm.energy), arm.energy
        assert arm.energy.mean_power_w == pytest.approx(200, rel=0.05)
    for document in run.glob("arms/*/energy.json"):
        assert recompute(document, json.loads(document.read_text())) == []


def test_an_arm_is_given_both_boards_by_uuid_and_other_runs_have_neither(split: Scene) -> None:
    plan = json.loads(split.plan.read_text())
    other = Scene(split.folder / "stage", split.models, plan | {"boards": 1})
    other.environment |= split.environment | {"STAGE": str(other.stage)}
    split.environment["CUDA_VISIBLE_DEVICES"] = f"{UUIDS[2]},0"
    split.plan_to("FP16.window.hang")
    with split.started(rehearse=False):
        pid = split.wait_for("FP16.window.hung")
        seen = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        for place in (0, 2):
            other.environment["CUDA_VISIBLE_DEVICES"] = str(place)
            assert_told(other.measure(rehearse=False), 3, f"Board {place}", "by another run")
    assert f"CUDA_VISIBLE_DEVICES={UUIDS[2]},{UUIDS[0]}".encode() in seen


def test_fewer_boards_than_the_plan_wants_are_refused_with_both_numbers(split: Scene) -> None:
    split.environment["CUDA_VISIBLE_DEVICES"] = "2"
    ended = split.measure(rehearse=False)
    assert_told(ended, 3, "asks for 2 boards", "CUDA_VISIBLE_DEVICES=2 shows 1 (4 installed)")
    assert not split.output.exists()
    assert split.measure().status == 0  # a rehearsal needs no board


def test_boards_of_two_kinds_are_refused(split: Scene) -> None:
    split.environment |= {"CUDA_VISIBLE_DEVICES": "0,1", "STUB_NAME_1": "NVIDIA T400"}
    assert_told(split.measure(rehearse=False), 3, "not of one kind", "NVIDIA T400")
