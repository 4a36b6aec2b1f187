"""A machine is looked at through the driver's library: every state has its word and its remedy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from ecocompute_cube.device.lock import claim
from ecocompute_cube.device.presence import driver_present
from ecocompute_cube.doctor import as_text
from ecocompute_cube.model.base import present
from ecocompute_cube.model.doctor import Diagnosis

from ..device.conftest import ONE, ROOT, Stub
from ..device.machine import make_machine

PACKAGES: Final = {
    name: "1.0"
    for name in (
        "torch",
        "transformers",
        "accelerate",
        "safetensors",
        "bitsandbytes",
        "torchao",
    )
}
TWO: Final = f"{ONE},GPU-22222222-0000"
OWN_PIDS: Final = 4026532563  #: a PID namespace that is not the host's
NO_COUNTER: Final = "nvmlDeviceGetTotalEnergyConsumption=3"


def look(stub: Stub, packages: dict[str, str] | None = None, /, **script: str) -> Diagnosis:
    """What is found on the stub's machine."""
    installed = PACKAGES if packages is None else packages
    environment = stub.environment(LOOK_PACKAGES=json.dumps(installed), **script)
    process = subprocess.run(
        [sys.executable, "-m", "tests.doctor.look", str(stub.work / "results")],
        env={**environment, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return Diagnosis.model_validate_json(process.stdout)


def codes(found: Diagnosis, effect: str | None = None) -> set[str]:
    return {each.code for each in found.in_the_way if effect in (None, each.effect)}


def test_a_board_in_good_order_can_be_measured_and_nothing_is_in_the_way(stub: Stub) -> None:
    found = look(stub)
    assert found.can_measure and found.in_the_way == ()
    assert found.source == "energy-counter"
    assert [(board.ordinal, board.chosen) for board in found.boards] == [(0, True)]
    assert found.isolation.board_lock == "host"
    tick: Any = found.tick
    assert 80 < tick.median_ms < 120 and tick.ticks >= 5
    assert found.bound_pct == pytest.approx(
        100 * 2 * (tick.longest_ms + tick.call_longest_ms) / 1e3 / 20
    )
    text = as_text(found)
    assert "can measure           yes" in text and "nothing is in the way" in text
    assert "--rehearse" not in text


#: The ladder: what does not answer, what is read instead, and its bound in percent of 20 s.
LADDER: Final[dict[str, tuple[dict[str, str], str, float]]] = {
    "instant": ({"rc": NO_COUNTER}, "power-instant", 0.5),
    "average": ({"rc": NO_COUNTER, "field_186": "3:1:0"}, "power-average", 5.0),
    "usage": ({"rc": f"{NO_COUNTER} nvmlDeviceGetFieldValues=3"}, "power-usage", 5.0),
    "counter that stands still": ({"energy": "5"}, "power-instant", 0.5),
}


@pytest.mark.parametrize(("script", "source", "bound"), LADDER.values(), ids=LADDER)
def test_nv_nocounter_a_lower_rung_is_named_with_its_bound(
    stub: Stub, script: dict[str, str], source: str, bound: float
) -> None:
    """NV-NOCOUNTER, NV-STUCK: a lower tier, never a zero."""
    found = look(stub, **script)
    assert found.can_measure and found.source == source
    assert found.bound_pct == pytest.approx(bound)
    assert codes(found) == {"no_energy_counter"}


#: What does not answer or is wrong, and the code of what stops.
STOPPED: Final[dict[str, tuple[dict[str, str], str]]] = {
    "NV-NOCOUNTER, NV-OLDGPU": (
        {"rc": f"{NO_COUNTER} nvmlDeviceGetFieldValues=3 nvmlDeviceGetPowerUsage=3"},
        "no_power_reading",
    ),
    "NV-MISMATCH": ({"rc": "nvmlInitWithFlags=18"}, "driver_mismatch"),
    "driver not loaded": ({"rc": "nvmlInitWithFlags=9"}, "nvml_missing"),
    "no right": ({"rc": "nvmlInitWithFlags=4"}, "no_device"),
    "ID-MIG": ({"mig": "1"}, "mig_slice"),
    "ID-MIG by name": ({"CUDA_VISIBLE_DEVICES": "MIG-1"}, "mig_slice"),
    "vGPU": ({"virtualization": "2"}, "virtual_gpu"),
    "NV-JETSON": ({"rc": "nvmlDeviceGetMemoryInfo=3"}, "integrated_board"),
    "ID-CVD, empty": ({"CUDA_VISIBLE_DEVICES": ""}, "no_gpu"),
    "ID-CVD, out of range": ({"CUDA_VISIBLE_DEVICES": "9"}, "no_gpu"),
    "no board": ({"boards": ""}, "no_gpu"),
    "lost board": ({"rc": "nvmlDeviceGetHandleByIndex_v2=15"}, "no_device"),
    "lost between": ({"rc": "nvmlDeviceGetHandleByUUID=15"}, "no_gpu"),
    "ID-CONTEND": ({"pids": "4711,4712"}, "foreign_process"),
    "small disk": ({"LOOK_NEEDS": f'["big", {2**60}, 1]'}, "disk_small"),
}


@pytest.mark.parametrize(("script", "code"), STOPPED.values(), ids=STOPPED)
def test_what_stops_a_measurement_is_named_and_everything_else_is_told_all_the_same(
    stub: Stub, script: dict[str, str], code: str
) -> None:
    found = look(stub, **script)
    assert not found.can_measure
    assert codes(found, "stops") == {code}
    assert (found.source == "none") == (code not in {"foreign_process", "disk_small"})
    assert found.host.cores >= 1 and found.packages == PACKAGES
    text = as_text(found)
    assert f"stops: {code}: " in text and "ecocompute run --rehearse" in text


@pytest.mark.parametrize(
    ("packages", "code"),
    [
        ({}, "torch_missing"),
        (PACKAGES | {"torch": "2.13.0+cpu"}, "torch_cpu_build"),
        ({"torch": "2.13.0", "safetensors": "1", "bitsandbytes": "1"}, "package_missing"),
    ],
)
def test_packages_are_judged_by_what_they_say_of_themselves(
    stub: Stub, packages: dict[str, str], code: str
) -> None:
    found = look(stub, packages)
    assert code in codes(found, "stops") and not found.can_measure


@pytest.mark.parametrize("library", ["bitsandbytes", "torchao"])
def test_a_library_that_some_arms_need_is_missed_and_stops_nothing(
    stub: Stub, library: str
) -> None:
    found = look(stub, {name: "1.0" for name in PACKAGES if name != library})
    assert codes(found) == {f"{library}_missing"} and found.can_measure


def test_a_cpu_build_of_torch_without_a_board_is_as_it_should_be(stub: Stub) -> None:
    found = look(stub, PACKAGES | {"torch": "2.13.0+cpu"}, boards="")
    assert codes(found) == {"no_gpu"}


def test_another_package_under_the_name_pynvml_is_told(stub: Stub) -> None:
    folder = stub.folder_with("pynvml.py", "def nvmlInit():\n    pass\n")
    (Path(folder) / "sitecustomize.py").write_text(
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('pynvml', {folder + '/pynvml.py'!r})\n"
        "sys.modules['pynvml'] = importlib.util.module_from_spec(spec)\n"
    )
    environment = stub.environment(LOOK_PACKAGES=json.dumps(PACKAGES))
    process = subprocess.run(
        [sys.executable, "-m", "tests.doctor.look", str(stub.work)],
        env={**environment, "PYTHONPATH": f"{folder}:{ROOT}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    (told,) = Diagnosis.model_validate_json(process.stdout).in_the_way
    assert told.code == "nvml_missing" and "pip uninstall --yes pynvml" in told.fix


#: What may be measured, and must be said.
REMARKS: Final[dict[str, tuple[dict[str, str], str, str]]] = {
    "NV-MODULE": (
        {"field_186": "3:1:0", "field_185": "3:1:0", "module_186": "0:1:400000"},
        "module_scope",
        "lowers the tier",
    ),
    "host of vGPUs": ({"virtualization": "3"}, "virtual_guests", "lowers the tier"),
    "thermal": ({"reasons": "32"}, "slowed_down", "lowers the tier"),
    "ID-CONTEND, display": ({"graphics": "900"}, "display_server", "lowers the tier"),
    "MPS": ({"mps": "900"}, "mps_clients", "note"),
    "limit": ({"limit": "350000"}, "limit_lowered", "note"),
    "persistence": ({"persistence": "0"}, "persistence_off", "note"),
    "memory": ({"LOOK_NEEDS": f'["big", 1, {2**50}]'}, "board_memory_small", "note"),
    "no power": (
        {"rc": "nvmlDeviceGetFieldValues=3 nvmlDeviceGetPowerUsage=3"},
        "no_cross_check",
        "lowers the tier",
    ),
}


@pytest.mark.parametrize(("script", "code", "effect"), REMARKS.values(), ids=REMARKS)
def test_what_must_be_said_of_a_board_is_said_and_stops_nothing(
    stub: Stub, script: dict[str, str], code: str, effect: str
) -> None:
    found = look(stub, **script)
    assert found.can_measure
    assert codes(found, effect) == {code}


def machine_with(stub: Stub, **files: str) -> str:
    """The stub's machine with these files, whose names have ``__`` for ``/``."""
    for name, text in files.items():
        path = stub.root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(stub.root)


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"proc__sys__kernel__osrelease": "6.6-microsoft-standard-WSL2"}, "wsl2"),
        (
            {
                "sys__class__power_supply__BAT0__type": "Battery",
                "sys__class__power_supply__BAT0__status": "Discharging",
            },
            "on_battery",
        ),
        (
            {"sys__devices__system__cpu__cpu0__cpufreq__scaling_governor": "powersave"},
            "cpu_governor",
        ),
        ({"proc__meminfo": "MemAvailable: 0 kB"}, "host_memory_small"),
    ],
)
def test_what_must_be_said_of_the_host(stub: Stub, files: dict[str, str], code: str) -> None:
    machine_with(stub, **files)
    found = look(stub)
    assert found.can_measure and codes(found, "note") == {code}


def test_in_a_container_nobody_is_called_absent_and_the_locks_reach_is_told(stub: Stub) -> None:
    root = make_machine(stub.work / "container", ipc=1, pids=OWN_PIDS, signs="run/.containerenv")
    found = look(stub, STUB_ROOT=str(root))
    assert codes(found, "note") >= {"neighbours_unknown", "lock_in_namespace"}
    assert any("--pid=host" in each.fix for each in found.in_the_way)
    assert any("--ipc=host" in each.fix for each in found.in_the_way)


@pytest.mark.skipif(driver_present(), reason="this machine has the NVIDIA driver's library")
@pytest.mark.parametrize(
    ("signs", "words"),
    [(".dockerenv", "--gpus=all"), (".dockerenv dev/nvidia0", "compute,utility")],
)
def test_ct_nolib_a_container_without_the_library_is_told_what_to_type(
    stub: Stub, signs: str, words: str
) -> None:
    """CT-NOLIB: run with --gpus, and capability utility."""
    root = make_machine(stub.work / "container", signs=signs)
    found = look(stub, LD_LIBRARY_PATH="", STUB_ROOT=str(root))
    assert codes(found) == {"nvml_missing"}
    assert words in found.in_the_way[0].fix


# Boards that others have


def test_id_double_a_board_that_is_being_measured_is_left_in_peace(stub: Stub) -> None:
    """ID-DOUBLE: busy, and its counter is not polled meanwhile."""
    taken = claim(ONE, stub.root)
    assert taken is not None
    found = look(stub)
    taken.close()
    assert not found.can_measure and codes(found) == {"board_busy"}
    assert found.source == "energy-counter"
    assert "others have the board" in as_text(found)
    assert found.boards[0].refusal != look(stub).boards[0].refusal


def test_id_neighbour_the_free_one_of_two_boards_would_be_chosen(stub: Stub) -> None:
    """ID-NEIGHBOUR: the other is named, and not looked at."""
    taken = claim(ONE, stub.root)
    assert taken is not None
    found = look(stub, boards=TWO, name_0="NVIDIA A", name_1="NVIDIA B")
    taken.close()
    assert found.can_measure
    assert [(each.name, each.chosen) for each in found.boards] == [
        ("NVIDIA A", False),
        ("NVIDIA B", True),
    ]
    assert getattr(found.board, "name", None) == "NVIDIA B"
    assert "NVIDIA A) is being measured by another run" in as_text(found)


def test_a_plan_for_two_boards_is_told_whether_two_can_be_had(stub: Stub) -> None:
    needs = {"LOOK_NEEDS": '["split", 1000, 1000, 2]'}
    found = look(stub, boards=TWO, **needs)
    assert found.can_measure
    assert [board.chosen for board in found.boards] == [True, True]
    alone = look(stub, boards=TWO).board_memory.free_mib
    assert present(alone) and found.board_memory.free_mib == 2 * alone
    few = look(stub, **needs)
    assert not few.can_measure and codes(few) == {"too_few_boards"}
    two_kinds = look(stub, boards=TWO, name_1="NVIDIA B", **needs)
    assert codes(two_kinds, "stops") == {"mixed_boards"}
    taken = claim(ONE, stub.root)
    assert taken is not None
    busy = look(stub, boards=TWO, **needs)
    taken.close()
    assert codes(busy, "stops") == {"board_busy"}
    assert "of 2 here 1 can be had" in as_text(busy)


def test_looking_keeps_the_board_from_nobody_afterwards(stub: Stub) -> None:
    look(stub)
    taken = claim(ONE, stub.root)
    assert taken is not None
    taken.close()


def test_ct_nvmllost_a_board_that_vanishes_meanwhile_is_a_reason_not_a_crash(stub: Stub) -> None:
    """CT-NVMLLOST: what was found until then is told."""
    found = look(stub, rc=f"{NO_COUNTER} nvmlDeviceGetMemoryInfo=999")
    assert not found.can_measure
    assert codes(found, "stops") == {"no_device"}
    assert getattr(found.capabilities, "usage_w", None) == 123.0


def test_a_plan_is_not_needed(stub: Stub) -> None:
    found = look(stub, LOOK_NEEDS="[null, 0, 0]")
    assert found.can_measure and "no plan was named" in as_text(found)
