"""Which board is measured: every form of CUDA_VISIBLE_DEVICES, and drivers that do not start."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ecocompute_cube.device.lock import claim
from ecocompute_cube.device.presence import driver_present
from ecocompute_cube.device.visible import Candidate, Seen, candidates
from ecocompute_cube.errors import NoDevice, NoGpu
from ecocompute_cube.model.base import Absent

from ..run.rig import install_model
from .conftest import ONE, ROOT, SONAME, Stub
from .machine import make_machine

A, B, C = "GPU-aaaa1111-0000", "GPU-aaaa2222-0000", "GPU-bbbb3333-0000"
THREE = [Seen(uuid, "NVIDIA Stub") for uuid in (A, B, C)]


def picked(visible: str, boards: Sequence[Seen] = THREE) -> str:
    (only,) = candidates(boards, {"CUDA_VISIBLE_DEVICES": visible})
    return only.uuid


# CUDA_VISIBLE_DEVICES


def test_unset_every_board_may_be_measured_and_the_choice_is_explained() -> None:
    assert [each.uuid for each in candidates(THREE, {})] == [A, B, C]
    remark = candidates(THREE, {})[1].remark
    assert remark is not None
    assert "3 boards" in remark and "board 1" in remark and "CUDA_VISIBLE_DEVICES" in remark
    assert candidates(THREE[:1], {}) == (Candidate(0, A, "NVIDIA Stub", None),)


def test_an_index_longer_than_any_number_names_no_board() -> None:
    with pytest.raises(NoGpu, match="shows no board"):
        picked("9" * 5000)


@pytest.mark.parametrize(
    ("visible", "uuid"),
    [
        ("0", A),
        ("2", C),
        ("2,0", C),
        ("1,0,2", B),
        (" 1 , 0", B),
        ("+1", B),
        ("1x", B),  # CUDA reads numbers with strtoul
        ("1,-1,1", B),  # the list ends before the repetition
        ("1,9", B),
        (C, C),
        (f"{C},{A}", C),
        (f" {B} ", B),
        ("GPU-b", C),
        ("GPU-aaaa2", B),
        (f"{A},0", A),
    ],
)
def test_the_first_entry_names_the_board(visible: str, uuid: str) -> None:
    assert picked(visible) == uuid


@pytest.mark.parametrize(
    "visible",
    ["", " ", ",", "-1", "-1,0", "3", "99999999999999999999", "all", "none", "void", "NoDevFiles",
     "GPU-ffff", "gpu-aaaa1111-0000", "aaaa1111-0000", "\u0663"],
)  # fmt: skip
def test_what_shows_no_board_is_refused(visible: str) -> None:
    """ID-CVD, ID-MIG."""
    with pytest.raises(NoGpu, match=r"shows no board \(3 installed\)") as refusal:
        picked(visible)
    assert "nvidia-smi -L" in refusal.value.fix
    assert refusal.value.exit_status == 3


@pytest.mark.parametrize("visible", ["0,0", "1,0,1", f"{A},{A}", "0, 0", "00,0"])
def test_a_board_named_twice_hides_all_as_it_does_for_cuda(visible: str) -> None:
    with pytest.raises(NoGpu, match="names a board twice"):
        picked(visible)


@pytest.mark.parametrize("visible", ["GPU-", "GPU-aaaa"])
def test_an_ambiguous_beginning_of_a_uuid_is_refused(visible: str) -> None:
    with pytest.raises(NoGpu, match="boards' UUIDs begin"):
        picked(visible)


@pytest.mark.parametrize("visible", ["MIG-1234", "MIG-GPU-aaaa1111-0000/1/0", " MIG-x,0"])
def test_a_mig_slice_has_no_power_of_its_own(visible: str) -> None:
    """ID-MIG."""
    with pytest.raises(NoDevice, match="MIG slice"):
        picked(visible)


def test_a_board_that_does_not_answer_is_passed_over_unless_it_was_named() -> None:
    lost = Absent(reason="NVML: GPU is lost")
    boards = [Seen(lost, lost), *THREE]
    assert [(each.ordinal, each.uuid) for each in candidates(boards, {})] == [
        (1, A),
        (2, B),
        (3, C),
    ]
    assert picked("1", boards) == A
    with pytest.raises(NoDevice, match="GPU is lost"):
        picked("0", boards)
    with pytest.raises(NoDevice, match="GPU is lost"):
        candidates(boards[:1], {})


def test_an_index_among_boards_of_several_kinds_comes_with_a_remark() -> None:
    """ID-ORDER."""
    mixed = [Seen(A, "NVIDIA T400"), Seen(B, "NVIDIA H200")]
    (only,) = candidates(mixed, {"CUDA_VISIBLE_DEVICES": "1"})
    assert only.remark is not None and "PCI order" in only.remark
    for quiet in ({"CUDA_VISIBLE_DEVICES": B}, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}):
        environment = {"CUDA_VISIBLE_DEVICES": "1", **quiet}
        assert candidates(mixed, environment) == (Candidate(1, B, "NVIDIA H200", None),)


# Through the driver's library


def test_one_board_is_found_by_its_uuid(stub: Stub) -> None:
    assert stub.ask("choose") == {"uuid": ONE, "remark": None}


def test_the_chosen_board_is_the_one_that_is_read(stub: Stub) -> None:
    board = stub.ask(
        "board", boards=f"{A},{B}", name_0="first", name_1="second", CUDA_VISIBLE_DEVICES="1"
    )
    assert board["name"] == "second"


def test_a_lost_neighbour_does_not_stand_in_the_way(stub: Stub) -> None:
    chosen = stub.ask("choose", boards=f"{A},{B}", rc_0="nvmlDeviceGetHandleByIndex_v2=15")
    assert chosen["uuid"] == B


# Boards that others have


TWO = f"{A},{B}"


def test_the_first_free_board_is_taken_and_named(stub: Stub) -> None:
    with held(stub, A):
        chosen = stub.ask("choose", boards=TWO)
    assert chosen["uuid"] == B
    assert "2 boards and none named: this is board 1, the first that is free" in chosen["remark"]
    assert stub.ask("choose", boards=TWO)["uuid"] == A


def test_two_runs_of_one_host_take_two_boards(stub: Stub) -> None:
    """ID-DOUBLE."""
    first, second, third = stub.ask_all("choose", "choose", "choose", boards=TWO)
    assert (first["uuid"], second["uuid"]) == (A, B)
    assert (third["error"], third["status"]) == ("board_busy", 3)
    assert third["cause"].startswith("None of 2 boards is free: Board 0 (NVIDIA Stub) is being")
    assert "; Board 1 (NVIDIA Stub) is being measured by another run." in third["cause"]
    assert "Wait" in third["fix"]


def test_a_board_on_which_somebody_computes_is_passed_over(stub: Stub) -> None:
    refusal = stub.ask("choose", boards=TWO, pids="4711,4712")
    assert refusal["error"] == "board_busy"
    assert refusal["cause"].count("is in use (compute processes: 2)") == 2
    assert stub.ask("choose", boards=TWO, rc_0=NO_LIST, rc_1=NO_LIST, pids="4711")["uuid"] == A
    assert stub.ask("choose", boards=TWO, rc_1=NO_LIST, pids="4711")["uuid"] == B


NO_LIST = "nvmlDeviceGetComputeRunningProcesses_v3=3 nvmlDeviceGetComputeRunningProcesses_v2=3"


def test_a_board_that_was_passed_over_is_not_kept_from_others(stub: Stub) -> None:
    second, first = stub.ask_all("choose", "choose", boards=TWO, pids="4711", rc_1=NO_LIST)
    assert second["uuid"] == B
    assert "Board 0 (NVIDIA Stub) is in use" in first["cause"]


@pytest.mark.parametrize("visible", [None, "0", ONE])
def test_a_board_that_was_named_or_is_alone_is_not_exchanged(
    stub: Stub, visible: str | None
) -> None:
    named = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    boards = ONE if visible is None else f"{ONE},{B}"
    with held(stub, ONE):
        refusal = stub.ask("choose", boards=boards, **named)
    assert (refusal["error"], refusal["status"]) == ("board_busy", 3)
    assert refusal["cause"] == "Board 0 (NVIDIA Stub) is being measured by another run."
    assert "choose another board with CUDA_VISIBLE_DEVICES" in refusal["fix"]
    assert stub.ask("choose", boards=boards, pids="4711", **named)["uuid"] == ONE


@contextlib.contextmanager
def held(stub: Stub, uuid: str) -> Iterator[None]:
    taken = claim(uuid, stub.root)
    assert taken is not None
    yield
    taken.close()


def test_without_shared_memory_a_board_is_measured_all_the_same(stub: Stub) -> None:
    assert stub.ask("choose", STUB_ROOT=str(stub.work / "nothing"))["uuid"] == ONE


def test_a_board_divided_by_mig_is_passed_over_unless_it_is_alone(stub: Stub) -> None:
    undivided = "nvmlDeviceGetMigMode=3"
    assert stub.ask("choose", boards=TWO, mig="1", rc_1=undivided)["uuid"] == B
    refusal = stub.ask("choose", boards=TWO, mig="1")
    assert (refusal["error"], "MIG" in refusal["cause"]) == ("mig_slice", True)


def test_a_board_divided_by_mig_is_refused(stub: Stub) -> None:
    refusal = stub.ask("choose", mig="1")
    assert (refusal["error"], refusal["status"]) == ("mig_slice", 3)
    assert "MIG" in refusal["cause"] and "nvidia-smi -mig 0" in refusal["fix"]


POWERLESS = (
    "nvmlDeviceGetTotalEnergyConsumption=3 nvmlDeviceGetFieldValues=3 nvmlDeviceGetPowerUsage=3"
)
#: Boards that cannot be measured: what they say, the error's code, words of its cause.
UNFIT: dict[str, tuple[dict[str, str], str, str]] = {
    "vGPU": ({"virtualization": "2"}, "virtual_gpu", "is a vGPU"),
    "NV-JETSON": ({"rc": "nvmlDeviceGetMemoryInfo=3"}, "integrated_board", "Jetson, GB10"),
    "NV-JETSON, all zeros": ({"memory": "0"}, "integrated_board", "no memory of its own"),
    "NV-JETSON, no UUID": ({"rc": "nvmlDeviceGetUUID=3"}, "integrated_board", "no UUID"),
    "NV-OLDGPU": ({"rc": POWERLESS}, "no_power_reading", "neither energy nor power"),
    "NV-MODULE": (
        {
            "rc": "nvmlDeviceGetTotalEnergyConsumption=3 nvmlDeviceGetPowerUsage=3",
            "field_186": "3:1:0",
            "field_185": "3:1:0",
            "module_186": "0:1:400000",
        },
        "no_power_reading",
        "only the power of a whole module",
    ),
}


@pytest.mark.parametrize(("script", "error", "words"), UNFIT.values(), ids=UNFIT)
def test_a_board_that_cannot_be_measured_is_refused_by_the_reason(
    stub: Stub, script: dict[str, str], error: str, words: str
) -> None:
    refusal = stub.ask("choose", **script)
    assert (refusal["error"], refusal["status"]) == (error, 3)
    assert words in refusal["cause"]
    assert "--rehearse" in refusal["fix"]


def test_that_there_is_a_board_can_be_seen_without_keeping_it_from_others(stub: Stub) -> None:
    """NV-JETSON: before a model is downloaded."""
    assert stub.ask_all("require", "require", "choose")[:2] == [None, None]
    assert stub.ask("require", rc="nvmlDeviceGetMemoryInfo=3")["error"] == "integrated_board"


@pytest.mark.parametrize("mode", ["0", "1", "3", "4", "9"])
def test_a_board_given_whole_or_lent_by_this_host_may_be_measured(stub: Stub, mode: str) -> None:
    assert stub.ask("choose", virtualization=mode) == {"uuid": ONE, "remark": None}


def test_a_board_that_cannot_be_measured_is_passed_over(stub: Stub) -> None:
    """And of several that cannot, the first one's reason is told."""
    rc = "nvmlDeviceGetMemoryInfo=3"
    assert stub.ask("choose", boards=TWO, rc_0=rc)["uuid"] == B
    assert stub.ask("choose", boards=TWO, rc_0=rc, rc_1=rc)["error"] == "integrated_board"


def test_no_board_at_all(stub: Stub) -> None:
    refusal = stub.ask("choose", boards="")
    assert (refusal["error"], refusal["status"]) == ("no_gpu", 3)
    assert "--rehearse" in refusal["fix"]


def test_boards_that_cannot_be_counted(stub: Stub) -> None:
    refusal = stub.ask("choose", rc="nvmlDeviceGetCount_v2=999")
    assert (refusal["error"], refusal["status"]) == ("no_device", 3)


def test_a_board_that_cannot_be_opened(stub: Stub) -> None:
    refusal = stub.ask("board", rc="nvmlDeviceGetHandleByUUID=4")
    assert (refusal["error"], refusal["status"]) == ("no_gpu", 3)
    assert "cannot be opened (NVML: Insufficient Permissions)" in refusal["cause"]


# Drivers that do not start

AT_START = [
    (9, "nvml_missing", "kernel module is not loaded", "modprobe nvidia"),
    (18, "driver_mismatch", "different versions", "Reboot"),
    (4, "no_device", "refuses this user", "/dev/nvidiactl"),
    (13, "nvml_missing", "too old or not NVIDIA's", "Install a current"),
    (999, "no_device", "does not start: Unknown Error", "nvidia-smi"),
    (77, "no_device", "does not start: a code of tomorrow", "nvidia-smi"),
]


@pytest.mark.parametrize(("code", "error", "cause", "fix"), AT_START)
def test_a_driver_that_does_not_start_is_told_with_a_remedy(
    stub: Stub, code: int, error: str, cause: str, fix: str
) -> None:
    """NV-MISMATCH among them."""
    refusal = stub.ask("choose", rc=f"nvmlInitWithFlags={code}")
    assert (refusal["error"], refusal["status"]) == (error, 3)
    assert cause in refusal["cause"] and fix in refusal["fix"]


def test_a_library_that_is_no_library(stub: Stub) -> None:
    folder = stub.folder_with(SONAME, "not an ELF file, however long it may be" * 20)
    refusal = stub.ask("choose", LD_LIBRARY_PATH=folder)
    assert (refusal["error"], refusal["status"]) == ("nvml_missing", 3)


@pytest.mark.parametrize(
    ("signs", "words"),
    [
        (".dockerenv", "started without a GPU"),
        (".dockerenv dev/nvidia0", "but not the driver's library"),
        ("dev/nvidia0", "library libnvidia-ml.so.1 is not here"),
    ],
)
@pytest.mark.skipif(driver_present(), reason="this machine has the NVIDIA driver's library")
def test_a_container_without_the_library_is_told_why(stub: Stub, signs: str, words: str) -> None:
    """CT-NOLIB."""
    root = make_machine(stub.work / "container", signs=signs)
    refusal = stub.ask("choose", LD_LIBRARY_PATH="", STUB_ROOT=str(root))
    assert (refusal["error"], refusal["status"]) == ("nvml_missing", 3)
    assert words in refusal["cause"]


@pytest.mark.skipif(driver_present(), reason="this machine has the NVIDIA driver's library")
def test_no_library_at_all(stub: Stub) -> None:
    refusal = stub.ask("choose", LD_LIBRARY_PATH="")
    assert (refusal["error"], refusal["status"]) == ("nvml_missing", 3)
    assert "compute,utility" in refusal["fix"] and "--rehearse" in refusal["fix"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"rc": "nvmlInitWithFlags=18"}, "different versions"),
        ({"CUDA_VISIBLE_DEVICES": "7"}, "shows no board"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "(empty) shows no board"),
        ({"mig": "1"}, "divided by MIG"),
        ({"virtualization": "2"}, "is a vGPU"),
        ({"rc": "nvmlDeviceGetMemoryInfo=3"}, "Jetson, GB10"),
    ],
)
def test_measure_ends_with_status_3_and_two_sentences(
    stub: Stub, script: dict[str, str], words: str
) -> None:
    install_model(stub.work / "models")
    plan = stub.work / "plan.yaml"
    plan.write_text(json.dumps({"name": "scripted", "models": ["random:smollm2-135m"]}))
    ended = measure(stub, plan, script)
    assert ended.returncode == 3, ended.stderr
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def measure(stub: Stub, plan: Path, script: dict[str, str]) -> subprocess.CompletedProcess[str]:
    folders = (f"--models_dir={stub.work / 'models'}", f"--output_dir={stub.work / 'results'}")
    command = [sys.executable, "-m", "ecocompute_cube.cli", "measure", *folders]
    return subprocess.run(
        [*command, f"--parameters_file={plan}"],
        env=stub.environment(**script),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
