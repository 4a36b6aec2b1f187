"""The page's evidence of one run: what was loaded under each name, and the blocks as they went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.report.labels import arm_label
from ecocompute_cube.units import gib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ecocompute_cube.model.base import MaybeFloat
    from ecocompute_cube.model.journal import Certificate
    from ecocompute_cube.model.report import ArmReport, BlockReport, Report

LOADED: Final = (
    "arm",
    "linear weights in its format",
    "computes in",
    "weights",
    "a product is off by",
    "settings",
    "kernels",
    "how ids are decoded",
    "ready after",
)
BLOCKS: Final = ("session", "block", "order, as drawn", "counts")
_NONE: Final = "–"


def loaded_rows(report: Report) -> tuple[tuple[str, ...], ...]:
    """A row an arm, in the order of ``LOADED``."""
    return tuple(_loaded(arm, report.arms) for arm in report.arms)


def _loaded(arm: ArmReport, arms: Sequence[ArmReport]) -> tuple[str, ...]:
    label, found = arm_label(arm, arms), arm.certificate
    if not present(found):
        return label, found.reason, *(_NONE,) * (len(LOADED) - 2)
    return (
        label,
        _share(found),
        found.compute_dtype,
        f"{gib(found.weight_bytes):.3g} GiB on {', '.join(found.devices)}",
        f"{found.probe_error:.2%}" if present(found.probe_error) else _NONE,
        _pairs(found.settings),
        found.kernels,
        _pairs(found.decoder) if present(found.decoder) else _NONE,
        _took(arm.load_s),
    )


def _share(found: Certificate) -> str:
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(found.linear_weights.items()))
    return f"{found.share_as_named:.1%} ({kinds})" if kinds else f"{found.share_as_named:.1%}"


def _pairs(told: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in sorted(told.items())) or _NONE


def _took(took: MaybeFloat) -> str:
    return f"{took:.1f} s" if present(took) else _NONE


def block_rows(report: Report) -> tuple[tuple[str, ...], ...]:
    """A row a block that began, in the order of ``BLOCKS``; none of an early document."""
    if isinstance(report.schedule, Absent):
        return ()
    groups = len({block.group for block in report.schedule}) > 1
    labels = {arm.arm: arm_label(arm, report.arms) for arm in report.arms}
    return tuple(_block(block, labels, groups=groups) for block in report.schedule)


def _block(
    block: BlockReport, labels: Mapping[str, str], *, groups: bool
) -> tuple[str, str, str, str]:
    name = f"{block.block + 1}, group {block.group + 1}" if groups else f"{block.block + 1}"
    return (
        str(block.session + 1),
        name,
        ", ".join(f"{labels.get(arm, arm)}{_trouble(arm, block)}" for arm in block.order),
        "yes" if block.counts else f"no: {block.why}",
    )


def _trouble(arm: str, block: BlockReport) -> str:
    """What became of an arm that was not measured; nothing of one that was."""
    refused = next((each for each in block.refused if each.arm == arm), None)
    if refused is not None:
        return f" (refused at {refused.stage}: {refused.reason})"
    return "" if arm in block.measured else " (not measured)"
