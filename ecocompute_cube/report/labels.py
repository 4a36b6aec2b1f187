"""Short names for arms: only what tells them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.model.report import ArmReport


def arm_label(arm: ArmReport, arms: Sequence[ArmReport]) -> str:
    """``NF4 eager`` or ``NF4 eager #2``, with the model and the workload where ``arms`` differ."""
    again = f" #{arm.replica}" if arm.replica > 1 else ""
    parts = [f"{arm.precision} {arm.runtime}{again}"]
    if len({other.model for other in arms}) > 1:
        parts.append(arm.model)
    if len({other.workload.slug for other in arms}) > 1:
        parts.append(arm.workload.slug)
    return ", ".join(parts)


def label_of(identifier: str, arms: Sequence[ArmReport]) -> str:
    """The label of the arm with this id; the identifier itself where there is none."""
    found = next((arm for arm in arms if arm.arm == identifier), None)
    return arm_label(found, arms) if found else identifier
