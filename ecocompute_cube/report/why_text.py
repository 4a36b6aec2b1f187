"""Where each arm's energy goes, as lines for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.base import present
from ecocompute_cube.report.labels import arm_label
from ecocompute_cube.report.table import table, three_digits

if TYPE_CHECKING:
    from ecocompute_cube.model.report import ArmReport, Report
    from ecocompute_cube.model.why import Why

_HEAD: Final = (
    "mJ/token of",
    "idle, waiting",
    "idle, busy",
    "memory",
    "compute",
    "unattributed",
    "waits",
    "kernels/token",
)


def why_lines(report: Report) -> list[str]:
    """A table and a sentence an arm; nothing where no arm is explained."""
    explained = [(arm, arm.why) for arm in report.arms if present(arm.why)]
    if not explained:
        return []
    rows = [_row(arm, why, report) for arm, why in explained]
    said = [f"{arm_label(arm, report.arms)}: {why.says}" for arm, why in explained]
    return ["where the energy goes:", *table([_HEAD, *rows]), *said]


def _row(arm: ArmReport, why: Why, report: Report) -> tuple[str, ...]:
    parts = (
        why.idle_waiting_mj,
        why.idle_busy_mj,
        why.memory_mj,
        why.compute_mj,
        why.unattributed_mj,
    )
    launches = why.launches_per_token
    return (
        arm_label(arm, report.arms),
        *map(three_digits, parts),
        f"{why.waiting:.0%}",
        f"{launches:.0f}" if present(launches) else "–",
    )
