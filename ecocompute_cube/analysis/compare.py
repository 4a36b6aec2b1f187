"""An arm beside another: paired within blocks, with a verdict against the stored threshold."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from ecocompute_cube.analysis.ratios import (
    as_percent,
    interval_of,
    paired_log_ratios,
    replicates,
    verdict,
)
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.claims import Comparison, Verdict
from ecocompute_cube.units import percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ecocompute_cube.model.plan import Contrast, Protocol

ByBlock = "Mapping[tuple[int, int], float]"


def compare(
    contrast: Contrast,
    protocol: Protocol,
    mj: Mapping[str, Mapping[tuple[int, int], float]],
    troubles: Mapping[str, str],
) -> Comparison:
    """Compare energy per token of two arms.

    ``mj`` holds mJ per token by arm and (session, block); ``troubles`` says, for arms that gave no
    valid number, why.
    """
    pairs = paired_log_ratios(mj.get(contrast.arm, {}), mj.get(contrast.against, {}))
    values, unit = replicates(pairs)
    sessions = len({session for session, _ in pairs})
    if not values:
        reason = _why_none(contrast, troubles)
        return _comparison(contrast, protocol, unit, Absent(reason=reason), Verdict.INVALID, reason)
    interval = as_percent(interval_of(values, protocol, unit))
    judged = verdict(interval, protocol.threshold_pct)
    return _comparison(
        contrast,
        protocol,
        unit,
        percent(math.exp(statistics.fmean(values))),
        judged,
        _why(judged, len(values), unit, protocol.threshold_pct),
    ).model_copy(
        update={
            "interval_pct": interval,
            "pairs_pct": tuple(percent(math.exp(value)) for value in values),
            "n": len(values),
            "blocks": len(pairs),
            "sessions": sessions,
        }
    )


def _comparison(
    contrast: Contrast,
    protocol: Protocol,
    unit: str,
    change: float | Absent,
    judged: Verdict,
    reason: str,
) -> Comparison:
    return Comparison.model_validate(
        {
            "arm": contrast.arm,
            "against": contrast.against,
            "change_pct": change,
            "interval_pct": change if not present(change) else Absent(reason="not computed"),
            "threshold_pct": protocol.threshold_pct,
            "verdict": judged,
            "pairs_pct": (),
            "unit": unit,
            "n": 0,
            "blocks": 0,
            "sessions": 0,
            "reason": reason,
        }
    )


def _why_none(contrast: Contrast, troubles: Mapping[str, str]) -> str:
    found = [troubles[arm] for arm in (contrast.arm, contrast.against) if arm in troubles]
    return found[0] if found else "no complete block holds a valid window of both arms"


def _why(judged: Verdict, n: int, unit: str, threshold: float) -> str:
    if n < 2:  # noqa: PLR2004 (a spread needs two)
        return f"one {unit.removesuffix('s')} gives a change but no interval"
    where = {
        Verdict.LOWER: f"the whole interval lies below -{threshold:g} %",
        Verdict.HIGHER: f"the whole interval lies above +{threshold:g} %",
        Verdict.SAME: f"the whole interval lies within ±{threshold:g} %",
    }
    return where.get(judged, f"the interval crosses -{threshold:g} % or +{threshold:g} %")
