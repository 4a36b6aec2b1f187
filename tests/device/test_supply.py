"""What feeds the machine, from files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecocompute_cube.device.supply import governor, supply
from ecocompute_cube.model.base import Absent

AC_ON = {"AC/type": "Mains", "AC/online": "1"}
AC_OFF = {"AC/type": "Mains", "AC/online": "0"}
USB_ON = {"ucsi/type": "USB", "ucsi/online": "1"}
CHARGING = {"BAT0/type": "Battery", "BAT0/status": "Charging"}
FULL = {"BAT0/type": "Battery", "BAT0/status": "Full"}
DISCHARGING = {"BAT0/type": "Battery", "BAT0/status": "Discharging"}
MOUSE = {"mouse/type": "Battery", "mouse/status": "Discharging", "mouse/scope": "Device"}
UPS_ODD = {"odd/type": "Wireless"}


def machine(root: Path, files: dict[str, str], below: str = "sys/class/power_supply") -> Path:
    for name, text in files.items():
        path = root / below / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("files", "fed"),
    [
        (AC_ON, "mains"),
        (AC_ON | DISCHARGING, "mains"),
        (USB_ON | CHARGING, "mains"),
        (AC_OFF | USB_ON, "mains"),
        (AC_ON | MOUSE, "mains"),
        (DISCHARGING, "battery"),
        (AC_OFF | DISCHARGING, "battery"),
        (AC_OFF | FULL, "battery"),
    ],
)
def test_mains_or_battery(tmp_path: Path, files: dict[str, str], fed: str) -> None:
    assert supply(machine(tmp_path, files)) == fed


@pytest.mark.parametrize("files", [{}, MOUSE, FULL, AC_OFF, UPS_ODD, {"AC/online": "1"}])
def test_what_is_not_listed_is_not_guessed(tmp_path: Path, files: dict[str, str]) -> None:
    assert isinstance(supply(machine(tmp_path, files)), Absent)


def test_governors_are_told_each_once(tmp_path: Path) -> None:
    files = {
        f"cpu{n}/cpufreq/scaling_governor": word
        for n, word in enumerate(["powersave", "performance", "powersave"])
    }
    below = "sys/devices/system/cpu"
    assert governor(machine(tmp_path, files, below)) == "performance+powersave"


def test_a_machine_without_governors_has_a_reason(tmp_path: Path) -> None:
    assert governor(tmp_path) == Absent(reason="the system tells no governor")
