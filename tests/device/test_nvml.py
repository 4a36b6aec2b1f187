"""One board through the real nvidia-ml-py and a scripted driver library: a value or a reason."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import pytest

from ecocompute_cube.device.nvml import architecture

from .conftest import ONE, Stub
from .machine import HOST_PIDS, make_machine

NOT_SUPPORTED = {"absent": "NVML: Not Supported"}
UNKNOWN = {"absent": "NVML: Unknown Error"}


# What a board says of itself


def test_a_board_describes_itself_and_hides_its_uuid(stub: Stub) -> None:
    board = stub.ask("board", name="NVIDIA H200", limit="650000", virtualization="1")
    assert board == {
        "name": "NVIDIA H200",
        "uuid_sha256": hashlib.sha256(ONE.encode()).hexdigest(),
        "architecture": "hopper",
        "compute_capability": "9.0",
        "memory_mib": 81920,
        "driver": "580.0",
        "nvml": "13.580.0",
        "energy_counter": True,
        "power": "power-instant",
        "power_limit_w": 650.0,
        "power_limit_default_w": 700.0,
        "persistence": True,
        "mig": False,
        "ecc": True,
        "virtualization": "passthrough",
    }


def test_a_name_in_undecodable_bytes_is_no_fault(stub: Stub) -> None:
    """NV-WSL."""
    board = stub.ask("board", name="NVIDIA \udcff\udcfe RTX")
    assert board["name"] == "NVIDIA \ufffd\ufffd RTX"


@pytest.mark.parametrize(
    ("function", "field", "answer"),
    [
        ("nvmlDeviceGetPersistenceMode", "persistence", {"reason": "NVML: Not Supported"}),
        ("nvmlDeviceGetMigMode", "mig", {"reason": "NVML: Not Supported"}),
        ("nvmlDeviceGetEccMode", "ecc", {"reason": "NVML: Not Supported"}),
        ("nvmlDeviceGetVirtualizationMode", "virtualization", {"reason": "NVML: Not Supported"}),
        ("nvmlDeviceGetEnforcedPowerLimit", "power_limit_w", {"reason": "NVML: Not Supported"}),
        ("nvmlDeviceGetName", "name", "unknown (NVML: Not Supported)"),
        ("nvmlSystemGetDriverVersion", "driver", "unknown (NVML: Not Supported)"),
        ("nvmlSystemGetNVMLVersion", "nvml", "unknown (NVML: Not Supported)"),
        ("nvmlDeviceGetCudaComputeCapability", "architecture", "unknown"),
    ],
)
def test_what_a_board_does_not_tell_has_a_reason(
    stub: Stub, function: str, field: str, answer: object
) -> None:
    assert stub.ask("board", rc=f"{function}=3")[field] == answer


def test_a_board_that_cannot_tell_its_memory_now_is_refused_in_words(stub: Stub) -> None:
    refusal = stub.ask("board", rc="nvmlDeviceGetMemoryInfo=999")
    assert refusal["status"] == 3
    assert "how much memory it has (NVML: Unknown Error)" in refusal["cause"]


def test_modes_are_told_as_they_are(stub: Stub) -> None:
    board = stub.ask("board", ecc="0", persistence="0", virtualization="9")
    assert (board["ecc"], board["persistence"]) == (False, False)
    assert board["virtualization"] == "mode 9"


def test_a_power_limit_of_all_ones_is_no_limit(stub: Stub) -> None:
    limit = stub.ask("board", limit=str(2**32 - 1))["power_limit_w"]
    assert "is no reading" in limit["reason"]


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ((7, 0), "volta"),
        ((7, 5), "turing"),
        ((8, 0), "ampere"),
        ((8, 6), "ampere"),
        ((8, 9), "ada"),
        ((9, 0), "hopper"),
        ((10, 0), "blackwell"),
        ((12, 1), "blackwell"),
        ((3, 5), "sm_35"),
        ((99, 0), "sm_990"),
    ],
)
def test_architectures_by_compute_capability(capability: tuple[int, int], name: str) -> None:
    assert architecture(*capability) == name


# The ladder: counter, instant, average, usage, none


def test_the_counter_is_read_in_millijoules(stub: Stub) -> None:
    script = "1000,2500,2500,120"
    answers = stub.ask_all("energy", "energy", "energy", "energy", "energy", energy=script)
    assert answers == [1000, 2500, 2500, 120, 120]  # stuck and reset reach the caller as they are


def test_a_counter_beyond_32_bits_is_whole(stub: Stub) -> None:
    assert stub.ask("energy", energy=str(2**45)) == 2**45


def test_a_board_without_a_counter_says_so(stub: Stub) -> None:
    rc = "nvmlDeviceGetTotalEnergyConsumption=3"
    energy, board = stub.ask_all("energy", "board", rc=rc)
    assert energy == NOT_SUPPORTED
    assert board["energy_counter"] == {"reason": "NVML: Not Supported"}
    assert board["power"] == "power-instant"


@pytest.mark.parametrize(
    ("script", "kind", "power"),
    [
        ({}, "power-instant", 150.0),
        ({"field_186": "3:1:0"}, "power-average", 140.0),
        ({"field_186": "3:1:0", "field_185": "3:1:0"}, "power-usage", 123.0),
        ({"rc": "nvmlDeviceGetFieldValues=3"}, "power-usage", 123.0),
        ({"field_186": "0:1:0", "field_185": "0:1:0"}, "power-usage", 123.0),
        ({"field_186": f"0:1:{2**32 - 1}"}, "power-average", 140.0),
        (
            {"rc": "nvmlDeviceGetFieldValues=3 nvmlDeviceGetPowerUsage=3"},
            "none",
            {"absent": "this board reports no power"},
        ),
        (
            {"rc": "nvmlDeviceGetFieldValues=3", "power": "0"},
            "none",
            {"absent": "this board reports no power"},
        ),
    ],
    ids=[
        "all",
        "no instant field",
        "no fields",
        "no field call",
        "zero is no reading",
        "all ones is no reading",
        "nothing",
        "a board of zeros",
    ],
)
def test_power_is_read_by_the_best_kind_there_is(
    stub: Stub, script: dict[str, str], kind: str, power: object
) -> None:
    assert stub.ask_all("kind", "power", **script) == [kind, power]


@pytest.mark.parametrize("value_type", range(7))
def test_a_field_is_decoded_by_its_value_type(stub: Stub, value_type: int) -> None:
    assert stub.ask("power", field_186=f"0:{value_type}:31500") == 31.5


@pytest.mark.parametrize("value_type", [7, 200])
def test_a_value_type_of_tomorrow_is_not_guessed_at(stub: Stub, value_type: int) -> None:
    assert stub.ask_all("kind", "power", field_186=f"0:{value_type}:31500") == [
        "power-average",
        140.0,
    ]


def test_a_call_that_succeeds_with_a_failed_field_inside_gives_no_zero(stub: Stub) -> None:
    everything_failed = {"field_186": "15:1:0", "field_185": "3:1:0"}
    assert stub.ask("power", **everything_failed, rc="nvmlDeviceGetPowerUsage=3") == {
        "absent": "this board reports no power"
    }


# Telemetry


def test_telemetry_in_celsius_watts_and_megahertz(stub: Stub) -> None:
    seen = stub.ask("telemetry", temperature="55", sm="1755", memory_clock="2619")
    assert (seen["temperature_c"], seen["power_w"]) == (55.0, 150.0)
    assert (seen["sm_clock_mhz"], seen["memory_clock_mhz"]) == (1755.0, 2619.0)
    assert seen["at_ns"] > 0


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0x0, []),
        (0x1, ["gpu_idle"]),
        (0x4, ["sw_power_cap"]),
        (0x68, ["hw_slowdown", "sw_thermal", "hw_thermal"]),
        (0x180, ["hw_power_brake", "display_clocks"]),
        (0x8000, []),
    ],
)
def test_event_reasons_by_name(stub: Stub, bits: int, names: list[str]) -> None:
    assert stub.ask("telemetry", reasons=str(bits))["event_reasons"] == names


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetTemperature", "temperature_c"),
        ("nvmlDeviceGetClockInfo", "sm_clock_mhz"),
        ("nvmlDeviceGetClockInfo", "memory_clock_mhz"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "foreign_processes"),
        ("nvmlDeviceGetUtilizationRates", "utilization_pct"),
    ],
)
def test_telemetry_that_is_not_there_has_a_reason(stub: Stub, function: str, field: str) -> None:
    rc = f"{function}=3 nvmlDeviceGetComputeRunningProcesses_v2=3"
    assert stub.ask("telemetry", rc=rc)[field] == {"reason": "NVML: Not Supported"}


@pytest.mark.parametrize(
    ("own", "listed", "foreign"),
    [
        ("", "", 0),
        ("", "11,12", 2),
        ("11", "11", 0),
        ("11,12", "11,12,900", 1),
        ("11,12", "11", 0),  # a child that has not touched the board yet
    ],
)
def test_foreign_processes_are_those_not_of_this_run(
    stub: Stub, own: str, listed: str, foreign: int
) -> None:
    assert stub.ask(f"telemetry={own}", pids=listed)["foreign_processes"] == foreign


def test_clients_of_mps_are_processes_that_compute(stub: Stub) -> None:
    """ID-CONTEND: a client may be in this list alone."""
    assert stub.ask("telemetry=11", pids="11", mps="11,12")["foreign_processes"] == 1


def test_telemetry_tells_who_draws_and_how_busy_the_board_is(stub: Stub) -> None:
    seen = stub.ask("telemetry", graphics="5,6", utilization="37")
    assert (seen["graphics_processes"], seen["utilization_pct"]) == (2, 37.0)


OWN_PIDS = 4026532563  #: a PID namespace that is not the host's


@pytest.mark.parametrize("pids", [HOST_PIDS, OWN_PIDS])
@pytest.mark.parametrize("listed", ["", "48211", "48211,48212"])
def test_a_list_without_this_runs_own_processes_tells_nothing(
    stub: Stub, listed: str, pids: int
) -> None:
    root = make_machine(stub.work / "machine", pids=pids)
    foreign = stub.ask("telemetry=7,8", pids=listed, STUB_ROOT=str(root))["foreign_processes"]
    assert foreign["reason"].startswith("cannot tell")


@pytest.mark.parametrize("pids", [OWN_PIDS, None])
@pytest.mark.parametrize("own", ["7,8", "7", ""])
def test_in_a_pid_namespace_a_list_of_nobody_else_is_not_called_clean(
    stub: Stub, own: str, pids: int | None
) -> None:
    root = make_machine(stub.work / "machine", pids=pids)
    foreign = stub.ask(f"telemetry={own}", pids=own, STUB_ROOT=str(root))["foreign_processes"]
    assert foreign["reason"].startswith("cannot tell")


def test_who_is_seen_in_a_pid_namespace_is_told(stub: Stub) -> None:
    root = make_machine(stub.work / "machine", pids=OWN_PIDS)
    seen = stub.ask("telemetry=7,8", pids="7,8,9", STUB_ROOT=str(root))
    assert seen["foreign_processes"] == 1


# Older drivers, odd bindings


def test_a_driver_of_2018_is_read_as_far_as_it_goes(stub: Stub) -> None:
    energy, power, seen = stub.ask_all(
        "energy", "power", "telemetry", library="old", reasons="4", pids="5"
    )
    assert energy == {"absent": "NVML: Function Not Found"}
    assert power == 123.0
    assert seen["event_reasons"] == ["sw_power_cap"]  # by the older name of the same call
    assert seen["foreign_processes"] == 1


def real_binding_without(*names: str) -> str:
    """A module ``pynvml`` that is NVIDIA's but for these names."""
    spec = importlib.util.find_spec("pynvml")
    assert spec is not None and spec.origin is not None
    removed = "\n".join(f"del {name}" for name in names)
    return Path(spec.origin).read_text(encoding="utf-8") + f"\n{removed}\n"


def test_a_function_this_binding_lacks_is_absent(stub: Stub) -> None:
    text = real_binding_without("nvmlDeviceGetVirtualizationMode", "nvmlDeviceGetTemperature")
    folder = stub.folder_with("pynvml.py", text)
    board, seen = stub.ask_all("board", "telemetry", PYTHONPATH=folder)
    assert "nvmlDeviceGetVirtualizationMode" in board["virtualization"]["reason"]
    assert "nvmlDeviceGetTemperature" in seen["temperature_c"]["reason"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (real_binding_without("nvmlDeviceGetFieldValues"), "has no nvmlDeviceGetFieldValues"),
        (
            real_binding_without("nvmlDeviceGetCurrentClocksEventReasons"),
            "has no nvmlDeviceGetCurrentClocksEventReasons",
        ),
        ("def nvmlInit():\n    pass\n", "has no NVMLError"),
        ("raise ImportError('no libfoo')", "cannot be imported (no libfoo)"),
        ("print 'hello'", "cannot be imported"),
    ],
    ids=["pynvml 8", "pynvml 11", "another module", "broken", "of Python 2"],
)
def test_another_package_under_the_name_pynvml_is_refused_in_words(
    stub: Stub, text: str, words: str
) -> None:
    folder = stub.folder_with("pynvml.py", text)
    refusal = stub.ask("choose", PYTHONPATH=folder)
    assert (refusal["error"], refusal["status"]) == ("nvml_missing", 3)
    assert words in refusal["cause"]
    assert "pip install --force-reinstall 'nvidia-ml-py" in refusal["fix"]


# A board that vanishes


def test_a_board_that_vanishes_leaves_reasons_not_zeros_and_closes_in_peace(stub: Stub) -> None:
    """CT-NVMLLOST."""
    gone = stub.work / "gone"
    steps = ("energy", "power", f"touch={gone}", "energy", "power", "telemetry=7", "close")
    energy, power, _, *after = stub.ask_all(*steps, gone=str(gone), energy="5000")
    assert (energy, power) == (5000, 150.0)
    lost_energy, lost_power, seen, closed = after
    assert lost_energy == UNKNOWN and lost_power == UNKNOWN
    values = {key: value for key, value in seen.items() if key != "at_ns"}
    assert all(value == {"reason": "NVML: Unknown Error"} for value in values.values()), values
    assert closed is None


def test_a_counter_that_starts_to_fail_is_absent_from_then_on(stub: Stub) -> None:
    rc = "nvmlDeviceGetTotalEnergyConsumption=15@3"
    answers = stub.ask_all("energy", "energy", "energy", "energy", energy="7", rc=rc)
    assert answers == [7, 7, {"absent": "NVML: GPU is lost"}, {"absent": "NVML: GPU is lost"}]


def test_a_return_code_of_tomorrow_is_told_in_the_librarys_words(stub: Stub) -> None:
    rc = "nvmlDeviceGetTotalEnergyConsumption=77"
    assert stub.ask("energy", rc=rc) == {"absent": "NVML: a code of tomorrow"}
