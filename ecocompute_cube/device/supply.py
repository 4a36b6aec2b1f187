"""What feeds the machine and who sets its clock, from /sys below a root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.model.base import Absent, MaybeStr
from ecocompute_cube.model.doctor import Supply

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def supply(root: Path) -> Supply | Absent:
    """Mains or battery (kernel documentation, sysfs-class-power); most servers list neither."""
    units = sorted((root / "sys/class/power_supply").glob("*"))
    own = [unit for unit in units if _word(unit / "scope") != "Device"]  # a mouse has a battery too
    chargers = [unit for unit in own if _word(unit / "type") in {"Mains", "USB"}]
    if any(_word(unit / "online") == "1" for unit in chargers):
        return "mains"
    batteries = [unit for unit in own if _word(unit / "type") == "Battery"]
    if any(_word(unit / "status") == "Discharging" for unit in batteries):
        return "battery"
    if batteries and chargers:
        return "battery"
    return Absent(reason="the system lists no battery in use and no charger")


def governor(root: Path) -> MaybeStr:
    """The governors of the processors' clocks, each once."""
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    found = _words(files)
    return "+".join(sorted(found)) if found else Absent(reason="the system tells no governor")


def _words(files: Iterable[Path]) -> set[str]:
    return {word for file in files if (word := _word(file))}


def _word(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
