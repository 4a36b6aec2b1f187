"""Paired ratios over replicates, their interval, and the verdict.

The replicate is the block while there is one session, the session (the mean of its blocks' log
ratios) once there are several; never the iteration. The interval is Student's t on log ratios.

Where the adaptive rule looks at that interval to end a session, the plain one would be too short:
looks end early where the spread happens to seem small, and 95 % becomes 93 % (Y. S. Chow and
H. Robbins, Ann. Math. Stat. 36, 1965, show that this vanishes with n only; N. Starr, Ann. Math.
Stat. 37, 1966, how large it is). There, Student's quantile is taken a step further out;
``benchmarks.coverage`` shows what that gives.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Final, NamedTuple

from scipy import special

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.claims import Interval, Unit, Verdict
from ecocompute_cube.model.stop import AdaptiveStop
from ecocompute_cube.units import percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ecocompute_cube.model.plan import Protocol

#: × the chance of missing, where looks ended the session. In simulations (20,000 a case, noise of
#: 1 to 4 %) a plain 95 % interval covers 93.1 to 95.3 %, with 0.75 it covers 94.6 to 96.4 %.
_LOOKED: Final = 0.75

#: One value a (session, block).
Blocks = "Mapping[tuple[int, int], float]"


class Replicates(NamedTuple):
    """Independent values, and what each of them is."""

    values: tuple[float, ...]
    unit: Unit


def replicates(by_block: Mapping[tuple[int, int], float]) -> Replicates:
    """Blocks of a single session as they are; of several sessions, each session's mean."""
    sessions = sorted({session for session, _ in by_block})
    if len(sessions) <= 1:
        return Replicates(tuple(by_block[key] for key in sorted(by_block)), "blocks")
    means = tuple(
        statistics.fmean(value for (session, _), value in by_block.items() if session == wanted)
        for wanted in sessions
    )
    return Replicates(means, "sessions")


def paired_log_ratios(
    arm: Mapping[tuple[int, int], float], against: Mapping[tuple[int, int], float]
) -> dict[tuple[int, int], float]:
    """log(arm / against) for every block that holds both."""
    return {key: math.log(arm[key] / against[key]) for key in sorted(arm.keys() & against.keys())}


def t_interval(values: Sequence[float], confidence: float, unit: Unit) -> Interval | Absent:
    """Interval of the mean: mean ± t·s/√n. A reason for fewer than two values."""
    n = len(values)
    if n < 2:  # noqa: PLR2004 (a spread needs two)
        return Absent(reason=f"{n} of the {unit}: a spread needs at least two")
    quantile = float(special.stdtrit(n - 1, 0.5 + confidence / 2))
    half = quantile * statistics.stdev(values) / math.sqrt(n)
    mean = statistics.fmean(values)
    return Interval(low=mean - half, high=mean + half, confidence=confidence, n=n, unit=unit)


def interval_of(values: Sequence[float], protocol: Protocol, unit: Unit) -> Interval | Absent:
    """Interval of the mean at the plan's confidence, by the plan's stopping rule.

    The adaptive rule looks at blocks of one session: means of several sessions are not selected.
    """
    miss = 1 - protocol.confidence
    if unit == "blocks" and isinstance(protocol.stop, AdaptiveStop):
        miss *= _LOOKED
    found = t_interval(values, 1 - miss, unit)
    if not present(found):
        return found
    return found.model_copy(update={"confidence": protocol.confidence})


def log_interval(values: Sequence[float], protocol: Protocol, unit: Unit) -> Interval | Absent:
    """Interval of the geometric mean of positive values: t on their logarithms, then back."""
    found = interval_of([math.log(value) for value in values], protocol, unit)
    if not present(found):
        return found
    return found.model_copy(update={"low": math.exp(found.low), "high": math.exp(found.high)})


def as_percent(interval: Interval | Absent) -> Interval | Absent:
    """An interval of log ratios as changes in percent."""
    if not present(interval):
        return interval
    return interval.model_copy(
        update={
            "low": percent(math.exp(interval.low)),
            "high": percent(math.exp(interval.high)),
        }
    )


def verdict(interval_pct: Interval | Absent, threshold_pct: float) -> Verdict:
    """Where the whole interval lies: below −τ, above +τ, within ±τ, or in none of them."""
    if not present(interval_pct):
        return Verdict.INCONCLUSIVE
    if interval_pct.high < -threshold_pct:
        return Verdict.LOWER
    if interval_pct.low > threshold_pct:
        return Verdict.HIGHER
    if -threshold_pct <= interval_pct.low and interval_pct.high <= threshold_pct:
        return Verdict.SAME
    return Verdict.INCONCLUSIVE
