"""What must be known before a number is believed: one function a rule, in one table."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.idle import busy
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.claims import Finding
from ecocompute_cube.model.readings import EARLY, PowerKind
from ecocompute_cube.units import Joule, joules, seconds, signed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecocompute_cube.analysis.energy import WindowEnergy
    from ecocompute_cube.analysis.idle import IdlePower
    from ecocompute_cube.analysis.rates import MemoryUse
    from ecocompute_cube.analysis.traces import Bound
    from ecocompute_cube.model.base import MaybeFloat
    from ecocompute_cube.model.journal import Warmed, WindowMeasured
    from ecocompute_cube.model.plan import Workload
    from ecocompute_cube.model.readings import IdleReading, Telemetry

_IMPLAUSIBLE: Final = 1.2  # × power limit: H200 boards briefly pass their limit (our probe: 1.3)
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
    integral_bound: Bound | None = None
    tick_s: float = 0.0  #: the longest seen; zero without a counter
    idle: IdlePower | Absent = Absent(reason="idle_not_measured")  #: with a live context
    memory: MemoryUse | None = None  #: where the board was calibrated
    parts: tuple[Judged, ...] = ()  #: each board's own, where there are several: this is their sum

    @property
    def work_s(self) -> float:
        """Seconds the work took."""
        return seconds(self.fact.work.end_ns - self.fact.work.start_ns)

    @property
    def tokens(self) -> int:
        """Output tokens of all rows; of a prefill its prompt tokens."""
        counted = self.workload.counted
        return sum(row.rows * counted(row.output_tokens) for row in self.fact.ledger)

    @property
    def steps(self) -> int:
        """Passes through the model: a prompt gives the first token, a step each of the others."""
        return self.fact.iterations * self.workload.generated_tokens

    @property
    def difference_pct(self) -> float | None:
        """Integral against counter, in percent of the counter."""
        if not present(self.energy) or not present(self.integral) or self.energy.energy <= 0:
            return None
        return (self.integral / self.energy.energy - 1) * 100

    @property
    def integral_pct(self) -> float:
        """How far the integral's own bound reaches from it, in percent of the counter."""
        if self.integral_bound is None or not present(self.energy) or not present(self.integral):
            return 0.0
        low, high = self.integral_bound
        return 100 * max(high - self.integral, self.integral - low) / self.energy.energy


def judge(window: Judged) -> tuple[Finding, ...]:
    """Every finding about one window; of several boards each is asked, and named."""
    of_boards = [
        _named(finding, place, window) if window.parts else finding
        for place, board in enumerate(window.parts or (window,))
        for gate in OF_A_BOARD
        if (finding := gate(board)) is not None
    ]
    of_the_work = (gate(window) for gate in OF_THE_WORK)
    return (*of_boards, *(finding for finding in of_the_work if finding is not None))


def _named(finding: Finding, place: int, window: Judged) -> Finding:
    where = f"Board {place + 1} of {len(window.parts)}: "
    return finding.model_copy(update={"cause": where + finding.cause})


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
    known = code in {"counter_reset", "counter_stuck", "below_resolution", "counter_lost"}
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
    """More power than the board may draw, over the work or between two readings."""
    if _why_none(window) or not present(window.power_limit_w):
        return None
    power, limit_w = _highest_mean(window), window.power_limit_w
    if power <= _IMPLAUSIBLE * limit_w:
        return None
    return _finding(
        window,
        "implausible_power",
        "invalid",
        f"The mean power of a window, {power:.0f} W, is beyond {_IMPLAUSIBLE} times the limit of "
        f"{limit_w:.0f} W.",
        "The counter is wrong on this driver; report it with the journal.",
    )


def _highest_mean(window: Judged) -> float:
    """Of the work, and of the steps between the counter's readings.

    A step may hold the energy of one tick more than the time between its two readings.
    """
    work_w = window.energy.energy / window.work_s if present(window.energy) else 0.0
    bracket = window.fact.counter
    if window.source is not PowerKind.COUNTER or not present(bracket):
        return work_w
    readings = (bracket.previous, bracket.opening, bracket.closing, bracket.next)
    return max(
        work_w,
        *(
            joules(b.energy_mj - a.energy_mj) / (seconds(b.after_ns - a.before_ns) + window.tick_s)
            for a, b in pairwise((*readings, bracket.after_next))
        ),
    )


def sources_differ(window: Judged) -> Finding | None:
    """Counter and integral tell different stories, beyond what either may be off."""
    difference = window.difference_pct
    if difference is None or not _apart(window):
        return None
    wrong = _disagree(window)
    return _finding(
        window,
        "sources_disagree" if wrong else "sources_differ",
        "invalid" if wrong else "lowers the tier",
        f"The integral of the trace is {signed(difference)} % off the energy counter, and may "
        f"itself be off by {window.integral_pct:.1f} %.",
        "Both are published; look at the trace for gaps or a neighbour.",
    )


def _disagree(window: Judged) -> bool:
    """Whether they are so far apart that one of them is wrong."""
    difference = window.difference_pct
    beyond = max(_DISAGREE_PCT, window.integral_pct)
    return difference is not None and abs(difference) > beyond and _apart(window)


def _apart(window: Judged) -> bool:
    """Whether the bounds of counter and integral have nothing in common."""
    if not present(window.energy) or not present(window.integral):
        return False
    low, high = window.integral_bound or (window.integral, window.integral)
    return low > window.energy.high or high < window.energy.low


def counter_young(window: Judged) -> Finding | None:
    """A counter that started again in the window would not show it.

    After a start within the work the counter holds a part of the work's energy at most. One that
    holds more at the closing than the work can have taken has not started again; of one that holds
    less, and has still not gone backwards, nobody can tell.
    """
    bracket, most = window.fact.counter, _most_j(window)
    if window.source is not PowerKind.COUNTER or not present(bracket) or most is None:
        return None
    counted_j = joules(bracket.closing.energy_mj)
    if _why_none(window) or counted_j > most or _disagree(window):
        return None
    return _finding(
        window,
        "counter_young",
        "invalid",
        f"The energy counter held {counted_j:.0f} J when a window closed, which may have taken "
        f"{most:.0f} J: had the counter started again meanwhile, nobody could tell.",
        "Measure again: the counter of a driver that stays loaded only grows (persistence mode).",
    )


def _most_j(window: Judged) -> float | None:
    """What may have flowed between opening and closing: by the trace, else by the limit."""
    idle_w = window.energy.idle if present(window.energy) else Absent(reason="no energy")
    waiting_j = 2 * window.tick_s * (idle_w if present(idle_w) else 0.0)
    if window.integral_bound is not None:
        return (1 + _DISAGREE_PCT / 100) * window.integral_bound.high + waiting_j
    if present(window.power_limit_w):
        return _IMPLAUSIBLE * window.power_limit_w * window.work_s + waiting_j
    return None


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
    edges = _edges(window)
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


def _edges(window: Judged) -> list[Telemetry]:
    """What the board said of itself around a window, at rest too."""
    around = (window.fact.before, window.fact.after)
    return [*(e for e in around if present(e)), *(r.seen for r in _at_rest(window))]


def _at_rest(window: Judged) -> list[IdleReading]:
    before = window.warmed.idle if window.warmed else EARLY
    return [reading for reading in (before, window.fact.idle) if present(reading)]


def busy_at_rest(window: Judged) -> Finding | None:
    """Kernels ran on the board while this run gave it none."""
    found = [reading.seen.utilization_pct for reading in _at_rest(window) if busy(reading)]
    if not found:
        return None
    return _finding(
        window,
        "busy_at_rest",
        "lowers the tier",
        f"The board was busy for {max(p for p in found if present(p)):.0f} % of a moment in which "
        "this run gave it nothing to do: somebody else computes on it.",
        "Look for them with nvidia-smi outside the container, and measure again.",
    )


def drawing(window: Judged) -> Finding | None:
    """A display server drew during the window."""
    counts = [edge.graphics_processes for edge in _edges(window)]
    if not any(present(count) and count for count in counts):
        return None
    return _finding(
        window,
        "display_server",
        "lowers the tier",
        "A display server drew on the board during a window: its energy is in it, and need not be "
        "the same in each.",
        "Measure without a display (sudo systemctl isolate multi-user.target).",
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
    asked, ledger = window.workload.generated_tokens, window.fact.ledger
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


def impossible_rate(window: Judged) -> Finding | None:
    """Weights would have been read faster than this board's memory can."""
    use = window.memory
    if use is None or window.work_s <= 0 or not use.impossible(window.steps, window.work_s):
        return None
    rate = use.step_bytes * window.steps / window.work_s
    return _finding(
        window,
        "impossible_rate",
        "invalid",
        f"The weights would have been read at {rate / 1e12:.2f} TB/s; a copy on this board reaches "
        f"{use.copy_bytes_per_s / 1e12:.2f} TB/s.",
        "The runtime cannot have done the work; report it with the journal.",
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


OF_A_BOARD: Final[tuple[Callable[[Judged], Finding | None], ...]] = (
    no_energy,
    no_counter,
    implausible_power,
    counter_young,
    sources_differ,
    no_cross_check,
    neighbours,
    busy_at_rest,
    drawing,
    slowed,
)
OF_THE_WORK: Final[tuple[Callable[[Judged], Finding | None], ...]] = (
    unequal_tokens,
    impossible_rate,
    host_unsteady,
    not_settled,
)
