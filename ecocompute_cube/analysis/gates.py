"""What must be known before a number is believed: one function a rule, in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.claims import Finding
from ecocompute_cube.model.journal import PowerKind
from ecocompute_cube.units import Joule, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecocompute_cube.analysis.energy import WindowEnergy
    from ecocompute_cube.model.base import MaybeFloat
    from ecocompute_cube.model.journal import Warmed, WindowMeasured
    from ecocompute_cube.model.plan import Workload

_IMPLAUSIBLE: Final = 1.2  # × power limit: H200 boards briefly pass their limit (our probe: 1.3)
_DIFFER_PCT: Final = 3.0  # counter and integral normally agree within 1 % (Zeus issue 12)
_DISAGREE_PCT: Final = 10.0  # beyond this one of the two is wrong (Zeus issue 181: 43 %)
HOST_CHANGE: Final = 0.15  # a quiet core repeats the loop within a few percent
_SLOWED: Final = frozenset({"hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"})


class Judged(NamedTuple):
    """A window with what is known about it."""

    fact: WindowMeasured
    warmed: Warmed | None
    workload: Workload
    energy: WindowEnergy | Absent
    source: PowerKind
    integral: Joule | Absent
    integral_source: PowerKind
    rate_hz: MaybeFloat
    reasons: frozenset[str] | Absent  #: event reasons the trace saw during the work
    power_limit_w: MaybeFloat

    @property
    def work_s(self) -> float:
        """Seconds the work took."""
        return seconds(self.fact.work.end_ns - self.fact.work.start_ns)

    @property
    def tokens(self) -> int:
        """Output tokens of all rows."""
        return sum(row.rows * row.output_tokens for row in self.fact.ledger)

    @property
    def difference_pct(self) -> float | None:
        """Integral against counter, in percent of the counter."""
        if not present(self.energy) or not present(self.integral) or self.energy.energy <= 0:
            return None
        return (self.integral / self.energy.energy - 1) * 100


def judge(window: Judged) -> tuple[Finding, ...]:
    """Every finding about one window."""
    found = (gate(window) for gate in GATES)
    return tuple(finding for finding in found if finding is not None)


def valid(findings: tuple[Finding, ...]) -> bool:
    """Whether none of the findings forbids using the number."""
    return all(finding.effect != "invalid" for finding in findings)


def _finding(window: Judged, code: str, effect: str, cause: str, fix: str) -> Finding:
    return Finding.model_validate(
        {"code": code, "subject": window.fact.arm, "cause": cause, "fix": fix, "effect": effect}
    )


def no_energy(window: Judged) -> Finding | None:
    """The readings give no energy at all, or none that work can have taken."""
    reason = _why_none(window)
    if reason is None:
        return None
    code, colon, rest = reason.partition(": ")
    known = code in {"counter_reset", "below_resolution", "counter_lost"}
    return _finding(
        window,
        code if known else "no_energy",
        "invalid",
        f"A window has no energy: {rest if known and colon else reason}.",
        "Measure again; docs/method.md lists what a board must offer.",
    )


def _why_none(window: Judged) -> str | None:
    if not present(window.energy):
        return window.energy.reason
    if window.energy.energy <= 0:
        return f"the readings add up to {window.energy.energy:g} J"
    return None if window.work_s > 0 else "its work took no time"


def no_counter(window: Judged) -> Finding | None:
    """The headline comes from the trace, not from the counter."""
    if not present(window.energy) or window.source is PowerKind.COUNTER:
        return None
    why = window.fact.counter.reason if isinstance(window.fact.counter, Absent) else "unknown"
    return _finding(
        window,
        "no_energy_counter",
        "lowers the tier",
        f"The board's energy counter gave nothing ({why}); {window.source} was integrated instead.",
        "Nothing can be done on this board; compare only with runs of the same source.",
    )


def implausible_power(window: Judged) -> Finding | None:
    """More power than the board may draw."""
    if _why_none(window) or not present(window.energy) or not present(window.power_limit_w):
        return None
    power = window.energy.energy / window.work_s
    if power <= _IMPLAUSIBLE * window.power_limit_w:
        return None
    return _finding(
        window,
        "implausible_power",
        "invalid",
        f"The mean power of a window, {power:.0f} W, is beyond {_IMPLAUSIBLE} times the limit of "
        f"{window.power_limit_w:.0f} W.",
        "The counter is wrong on this driver; report it with the journal.",
    )


def sources_differ(window: Judged) -> Finding | None:
    """Counter and integral tell different stories."""
    difference = window.difference_pct
    if difference is None or abs(difference) <= _DIFFER_PCT:
        return None
    wrong = abs(difference) > _DISAGREE_PCT
    return _finding(
        window,
        "sources_disagree" if wrong else "sources_differ",
        "invalid" if wrong else "lowers the tier",
        f"The integral of the trace is {difference:+.1f} % off the energy counter.",
        "Both are published; look at the trace for gaps or a neighbour.",
    )


def no_cross_check(window: Judged) -> Finding | None:
    """Nothing stands beside the headline."""
    if present(window.integral) or not present(window.energy):
        return None
    return _finding(
        window,
        "no_cross_check",
        "lowers the tier",
        f"No integral stands beside the counter: {window.integral.reason}.",
        "See the run folder for what happened to the side sampler.",
    )


def neighbours(window: Judged) -> Finding | None:
    """Somebody else computes on the board, or nobody can tell."""
    edges = [edge for edge in (window.fact.before, window.fact.after) if present(edge)]
    counts = [edge.foreign_processes for edge in edges]
    if any(present(count) and count > 0 for count in counts):
        return _finding(
            window,
            "foreign_process",
            "invalid",
            "Another process was computing on the board during a window.",
            "Stop it (nvidia-smi shows it) and measure again.",
        )
    unread = [edge for edge in (window.fact.before, window.fact.after) if not present(edge)]
    unknown = [each.reason for each in (*counts, *unread) if isinstance(each, Absent)]
    if not unknown:
        return None
    return _finding(
        window,
        "neighbours_unknown",
        "note",
        f"Whether others used the board cannot be told: {unknown[0]}.",
        "Make sure of it yourself, or run outside the container.",
    )


def slowed(window: Judged) -> Finding | None:
    """The board says it slowed itself down."""
    edges = [edge for edge in (window.fact.before, window.fact.after) if present(edge)]
    reasons = {r for edge in edges if present(edge.event_reasons) for r in edge.event_reasons}
    if present(window.reasons):
        reasons |= window.reasons
    if not reasons & _SLOWED:
        return None
    return _finding(
        window,
        "slowed_down",
        "lowers the tier",
        f"The board slowed down during a window ({', '.join(sorted(reasons & _SLOWED))}).",
        "Improve the cooling or the power supply and measure again.",
    )


def unequal_tokens(window: Judged) -> Finding | None:
    """Rows that did not produce their budget, or are missing."""
    asked, ledger = window.workload.output_tokens, window.fact.ledger
    rows = window.fact.iterations * window.workload.batch
    full = all(row.output_tokens == asked and row.stop == "length" for row in ledger)
    if full and sum(row.rows for row in ledger) == rows:
        return None
    return _finding(
        window,
        "unequal_tokens",
        "invalid",
        f"Not all of {rows} rows ran to {asked} output tokens.",
        "The runtime ignores the token budget; this arm cannot be compared.",
    )


def host_unsteady(window: Judged) -> Finding | None:
    """The host changed its speed while it was driving the board."""
    spins = window.fact.host_spin_s
    if not present(spins) or min(spins) <= 0:
        return None
    change = max(spins) / min(spins) - 1
    if change <= HOST_CHANGE:
        return None
    return _finding(
        window,
        "host_unsteady",
        "lowers the tier",
        f"The host's own speed, by a fixed loop, changed by {change:.0%} across a window.",
        "Use a host that nobody shares, or more blocks: at batch 1 the board waits for the host.",
    )


def not_settled(window: Judged) -> Finding | None:
    """Warm-up reached its ceiling."""
    if window.warmed is None or window.warmed.settled:
        return None
    return _finding(
        window,
        "not_settled",
        "lowers the tier",
        f"Speed or temperature had not settled after {window.warmed.passes} warm-up passes.",
        "Raise protocol.warmup.max_passes.",
    )


GATES: Final[tuple[Callable[[Judged], Finding | None], ...]] = (
    no_energy,
    no_counter,
    implausible_power,
    sources_differ,
    no_cross_check,
    neighbours,
    slowed,
    unequal_tokens,
    host_unsteady,
    not_settled,
)
