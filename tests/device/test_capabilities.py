"""Everything that NVML offers is asked of the board at hand: each answer a value or a reason."""

from __future__ import annotations

import json

import pytest

from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.capabilities import Capabilities
from ecocompute_cube.model.readings import EARLY

from .conftest import Stub
from .machine import make_machine

NOT_SUPPORTED = {"reason": "NVML: Not Supported"}
OWN_PIDS = 4026532563  #: a PID namespace that is not the host's


def test_a_board_that_offers_everything(stub: Stub) -> None:
    script = {"energy": "123456", "virtualization": "1", "reasons": "4", "pids": "7"}
    offered = stub.ask("capabilities", **script, used="314572800")
    assert offered == {
        "energy_mj": 123456,
        "instant_w": 150.0,
        "average_w": 140.0,
        "usage_w": 123.0,
        "module_w": {"reason": "NVML: field 186: return code 3"},
        "samples": {"samples": 4, "spacing_ms": 20.0},
        "limit_w": 700.0,
        "limit_default_w": 700.0,
        "limit_lowest_w": 200.0,
        "limit_highest_w": 700.0,
        "sm_clock_mhz": 1980.0,
        "sm_clock_highest_mhz": 1980.0,
        "memory_clock_mhz": 3201.0,
        "temperature_c": 41.0,
        "memory_temperature_c": 44.0,
        "slowdown_c": 87.0,
        "event_reasons": ["sw_power_cap"],
        "ecc": True,
        "mig": False,
        "virtualization": "passthrough",
        "persistence": True,
        "compute_processes": 1,
        "graphics_processes": 0,
        "mps_processes": 0,
        "memory_used_mib": 300,
    }


#: What stops answering with each function of NVML.
OPTIONAL = {
    "nvmlDeviceGetTotalEnergyConsumption": {"energy_mj"},
    "nvmlDeviceGetPowerUsage": {"usage_w"},
    "nvmlDeviceGetFieldValues": {"instant_w", "average_w", "module_w", "memory_temperature_c"},
    "nvmlDeviceGetSamples": {"samples"},
    "nvmlDeviceGetEnforcedPowerLimit": {"limit_w"},
    "nvmlDeviceGetPowerManagementDefaultLimit": {"limit_default_w"},
    "nvmlDeviceGetPowerManagementLimitConstraints": {"limit_lowest_w", "limit_highest_w"},
    "nvmlDeviceGetClockInfo": {"sm_clock_mhz", "memory_clock_mhz"},
    "nvmlDeviceGetMaxClockInfo": {"sm_clock_highest_mhz"},
    "nvmlDeviceGetTemperature": {"temperature_c"},
    "nvmlDeviceGetTemperatureThreshold": {"slowdown_c"},
    "nvmlDeviceGetEccMode": {"ecc"},
    "nvmlDeviceGetMigMode": {"mig"},
    "nvmlDeviceGetVirtualizationMode": {"virtualization"},
    "nvmlDeviceGetPersistenceMode": {"persistence"},
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": {"mps_processes"},
    "nvmlDeviceGetMemoryInfo_v2": {"memory_used_mib"},
}


@pytest.mark.parametrize("function", OPTIONAL)
def test_nv_wsl_each_capability_is_optional_and_says_why_it_is_not_there(
    stub: Stub, function: str
) -> None:
    """NV-WSL: a subset of NVML is no fault."""
    (offered,) = stub.ask_all("capabilities", rc=f"{function}=3")
    lost = {name: why for name, why in offered.items() if isinstance(why, dict) and "reason" in why}
    module = {"module_w": {"reason": "NVML: field 186: return code 3"}}  # as on most boards
    assert lost == module | dict.fromkeys(OPTIONAL[function], NOT_SUPPORTED)


def test_a_call_in_an_older_form_counts_as_the_call(stub: Stub) -> None:
    newer = "nvmlDeviceGetComputeRunningProcesses_v3=13 nvmlDeviceGetGraphicsRunningProcesses_v3=13"
    events = "nvmlDeviceGetCurrentClocksEventReasons=13"
    offered = stub.ask("capabilities", rc=f"{newer} {events}", pids="1,2", graphics="9")
    assert (offered["compute_processes"], offered["graphics_processes"]) == (2, 1)
    assert offered["event_reasons"] == []


def test_a_driver_of_2018_offers_what_it_offers(stub: Stub) -> None:
    offered = stub.ask("capabilities", library="old")
    assert offered["usage_w"] == 123.0
    assert offered["energy_mj"] == {"reason": "NVML: Function Not Found"}
    assert offered["instant_w"] == {"reason": "NVML: Function Not Found"}
    assert offered["mps_processes"] == {"reason": "NVML: Function Not Found"}


@pytest.mark.parametrize(
    ("times", "buffer"),
    [
        ("1000000", {"samples": 1, "spacing_ms": {"reason": "one sample has no spacing"}}),
        ("30000,10000,20000", {"samples": 3, "spacing_ms": 10.0}),
        ("", {"reason": "NVML: Not Found"}),
    ],
    ids=["one", "out of order", "none"],
)
def test_the_drivers_own_samples(stub: Stub, times: str, buffer: object) -> None:
    assert stub.ask("capabilities", samples=times)["samples"] == buffer


def test_a_field_that_failed_inside_a_call_that_succeeded_tells_its_code(stub: Stub) -> None:
    offered = stub.ask("capabilities", field_186="15:1:0", field_82="3:1:0")
    assert offered["instant_w"] == {"reason": "NVML: field 186: return code 15"}
    assert offered["memory_temperature_c"] == {"reason": "NVML: field 82: return code 3"}


@pytest.mark.parametrize(
    ("script", "module_w"),
    [({"module_186": "0:1:400000"}, 400.0), ({"module_185": "0:1:390000"}, 390.0)],
)
def test_nv_module_a_board_that_answers_for_its_module_only_is_known(
    stub: Stub, script: dict[str, str], module_w: float
) -> None:
    """NV-MODULE: the module's power is seen, and never taken for the board's."""
    failing = {"field_186": "3:1:0", "field_185": "3:1:0"}
    offered, kind, power = stub.ask_all("capabilities", "kind", "power", **failing, **script)
    assert offered["module_w"] == module_w
    assert (kind, power) == ("power-usage", 123.0)
    assert Capabilities.model_validate_json(_json(offered)).module_only


def test_a_board_that_answers_for_gpu_and_module_is_read_for_its_gpu(stub: Stub) -> None:
    offered, kind = stub.ask_all("capabilities", "kind", module_186="0:1:400000")
    assert (offered["module_w"], kind) == (400.0, "power-instant")
    assert not Capabilities.model_validate_json(_json(offered)).module_only


def _json(answer: object) -> str:
    return json.dumps(answer)


@pytest.mark.parametrize("field", ["compute_processes", "graphics_processes", "mps_processes"])
def test_in_a_pid_namespace_nobody_seen_is_not_nobody(stub: Stub, field: str) -> None:
    root = make_machine(stub.work / "machine", pids=OWN_PIDS)
    offered = stub.ask("capabilities", STUB_ROOT=str(root))
    assert offered[field]["reason"].startswith("cannot tell")
    seen = stub.ask("capabilities", STUB_ROOT=str(root), pids="7", graphics="8", mps="9")
    assert seen[field] == 1


def test_a_board_that_vanishes_leaves_a_reason_in_every_place(stub: Stub) -> None:
    gone = stub.work / "gone"
    _, _, offered = stub.ask_all("kind", f"touch={gone}", "capabilities", gone=str(gone))
    assert all(value == {"reason": "NVML: Unknown Error"} for value in offered.values()), offered


def test_what_is_not_there_is_a_reason_not_a_default() -> None:
    for name, field in Capabilities.model_fields.items():
        if not field.is_required():
            assert field.default == EARLY, name
        assert Absent in getattr(field.annotation, "__args__", ()), name
