"""What a board does not tell apart lowers the tier of every arm that was measured on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ecocompute_cube.device.scripted import Behaviour
from ecocompute_cube.model.base import present
from ecocompute_cube.model.readings import PowerKind
from ecocompute_cube.report.write import write_energy

from ..run.rig import IDLE_W, Scene, plan

QUICK = {"protocol": {"mode": "precise", "iterations": 2, "blocks": 1}, "arms": ["FP16", "NF4"]}


def codes(folder: Path, behaviour: Behaviour) -> list[tuple[str, ...]]:
    """What lowers the tier of each arm."""
    report = write_energy(Scene(folder, behaviour).measure(plan(**QUICK)))
    assert all(present(arm.energy) for arm in report.arms)
    return [arm.lowered_by for arm in report.arms]


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (Behaviour(idle_w=IDLE_W, power=PowerKind.USAGE, module_w=500.0), "module_scope"),
        (Behaviour(idle_w=IDLE_W, virtualization="host-vgpu"), "virtual_guests"),
        (Behaviour(idle_w=IDLE_W, virtualization="host-vsga"), "virtual_guests"),
        (Behaviour(idle_w=IDLE_W, graphics=1), "display_server"),
    ],
    ids=["NV-MODULE", "host of vGPUs", "host of vSGAs", "ID-CONTEND"],
)
def test_a_board_that_tells_too_much_at_once_lowers_the_tier_by_name(
    tmp_path: Path, behaviour: Behaviour, code: str
) -> None:
    assert all(code in lowered for lowered in codes(tmp_path, behaviour))


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(idle_w=IDLE_W),
        Behaviour(idle_w=IDLE_W, module_w=500.0),  # answers for its GPU as well
        Behaviour(idle_w=IDLE_W, virtualization="passthrough"),
        Behaviour(idle_w=IDLE_W, power=PowerKind.AVERAGE, module_w=500.0),
    ],
)
def test_a_board_that_is_whole_and_its_own_is_not_lowered(
    tmp_path: Path, behaviour: Behaviour
) -> None:
    for lowered in codes(tmp_path, behaviour):
        assert not {"module_scope", "virtual_guests", "display_server"} & set(lowered)


def test_what_the_board_offered_stands_in_the_journal_and_not_in_a_rehearsal(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, Behaviour(idle_w=IDLE_W, module_w=500.0))
    measured, rehearsed = scene.measure(plan(**QUICK)), scene.measure(plan(**QUICK), rehearse=True)
    assert session_of(measured)["capabilities"]["module_w"] == 500.0
    assert session_of(rehearsed)["capabilities"] == {"reason": "rehearsal: no board"}


def session_of(run: Path) -> dict[str, dict[str, object]]:
    lines = (run / "journal.jsonl").read_text().splitlines()
    records = [json.loads(line)["record"] for line in lines]
    found: dict[str, dict[str, object]] = next(r for r in records if r["kind"] == "session")
    return found


def test_nv_wsl_every_document_says_whether_its_host_is_a_linux_under_windows(
    tmp_path: Path,
) -> None:
    """NV-WSL."""
    run = Scene(tmp_path, Behaviour(idle_w=IDLE_W)).measure(plan(**QUICK))
    write_energy(run)
    documents = [json.loads(file.read_text()) for file in run.glob("arms/*/energy.json")]
    assert documents and all("wsl2" in each["environment"] for each in documents)
    assert documents[0]["environment"]["wsl2"] == session_of(run)["host"]["wsl2"]
