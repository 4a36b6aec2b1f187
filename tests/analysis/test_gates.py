"""Each gate: a window that passes, one that trips it, and what tripping costs."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from ecocompute_cube.analysis.energy import WindowEnergy
from ecocompute_cube.analysis.gates import OF_A_BOARD, OF_THE_WORK, Judged, judge, valid
from ecocompute_cube.analysis.rates import MemoryUse
from ecocompute_cube.analysis.traces import Bound
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.journal import (
    LedgerRow,
    Warmed,
    WindowMeasured,
)
from ecocompute_cube.model.plan import Workload
from ecocompute_cube.model.readings import (
    CounterBracket,
    CounterReading,
    IdleReading,
    PowerKind,
    Span,
    Telemetry,
)
from ecocompute_cube.units import Joule, Watt, nanoseconds

GONE = Absent(reason="gone")
MS = 1_000_000


def energy(joule: float) -> WindowEnergy:
    return WindowEnergy(Joule(joule), Joule(joule), Joule(joule), Watt(80))


def edge(**changes: object) -> Telemetry:
    calm = Telemetry(
        at_ns=0,
        temperature_c=40.0,
        power_w=80.0,
        sm_clock_mhz=1980.0,
        memory_clock_mhz=3201.0,
        event_reasons=("sw_power_cap",),
        foreign_processes=0,
    )
    return calm.model_copy(update=changes)


def fact(**changes: object) -> WindowMeasured:
    """Ten generations of 256 tokens in ten seconds."""
    calm = WindowMeasured(
        arm="a",
        session=0,
        group=0,
        block=0,
        position=0,
        counter=GONE,
        delay_ns=0,
        work=Span(start_ns=0, end_ns=nanoseconds(10)),
        iterations=10,
        ledger=(row(),),
        output_sha256="0" * 64,
        host_spin_s=(0.020, 0.020),
        before=edge(),
        after=edge(),
    )
    return calm.model_copy(update=changes)


def rest(**changes: object) -> IdleReading:
    span = Span(start_ns=0, end_ns=1_000 * MS)
    return IdleReading(span=span, first=GONE, last=GONE, seen=edge(**changes))


def row(**changes: object) -> LedgerRow:
    calm = LedgerRow(rows=10, prompt_tokens=10, padding_tokens=0, output_tokens=256, stop="length")
    return calm.model_copy(update=changes)


def warmed(*, settled: bool) -> Warmed:
    return Warmed(
        arm="a",
        session=0,
        group=0,
        block=0,
        passes=6,
        pass_s=(1.0,),
        temperatures_c=(40.0,),
        settled=settled,
    )


#: 1000 J in ten seconds: 100 W on a board of 700 W, and the trace agrees.
CALM = Judged(
    fact=fact(),
    warmed=warmed(settled=True),
    workload=Workload(),
    energy=energy(1000),
    source=PowerKind.COUNTER,
    integral=Joule(1000),
    integral_source=PowerKind.INSTANT,
    rate_hz=20.0,
    reasons=frozenset(),
    power_limit_w=700.0,
)


def counted(closing_mj: int, after_next: int | None = None) -> Judged:
    """1000 J by a counter with ticks of 0.1 s that stands at ``closing_mj`` in the end."""

    def reading(at_ms: int, value: int) -> CounterReading:
        return CounterReading(before_ns=at_ms * MS, energy_mj=value, after_ns=at_ms * MS)

    bracket = CounterBracket(
        previous=reading(1000, closing_mj - 1_010_000),
        opening=reading(1100, closing_mj - 1_000_000),
        closing=reading(11_200, closing_mj),
        next=reading(11_300, closing_mj),
        after_next=reading(11_400, after_next or closing_mj),
    )
    return CALM._replace(
        fact=fact(counter=bracket), tick_s=0.1, integral_bound=Bound(Joule(990), Joule(1010))
    )


class Trip(NamedTuple):
    """A window that trips a gate."""

    window: Judged
    code: str
    effect: str
    says: str


def off(percent: float) -> Judged:
    return CALM._replace(integral=Joule(1000 * (1 + percent / 100)))


TRIPS = {
    "no energy": Trip(CALM._replace(energy=GONE), "no_energy", "invalid", "gone"),
    "zero": Trip(CALM._replace(energy=energy(0)), "no_energy", "invalid", "add up to 0 J"),
    "less than zero": Trip(CALM._replace(energy=energy(-1)), "no_energy", "invalid", "-1 J"),
    "no time": Trip(
        CALM._replace(fact=fact(work=Span(start_ns=5, end_ns=5))), "no_energy", "invalid", "no time"
    ),
    "a counter that started again": Trip(
        CALM._replace(energy=Absent(reason="counter_reset: went backwards")),
        "counter_reset",
        "invalid",
        "no energy: went backwards",
    ),
    "too short": Trip(
        CALM._replace(energy=Absent(reason="below_resolution: too short")),
        "below_resolution",
        "invalid",
        "no energy: too short",
    ),
    "a counter that stood still": Trip(
        CALM._replace(energy=Absent(reason="counter_stuck: stood still")),
        "counter_stuck",
        "invalid",
        "no energy: stood still",
    ),
    "a step of terawatts": Trip(
        counted(10_000_000, after_next=2**63),
        "implausible_power",
        "invalid",
        "is beyond 1.2 times the limit of 700 W",
    ),
    "a step of 841 W over two ticks": Trip(
        counted(10_000_000, after_next=10_000_000 + 841 * 200),
        "implausible_power",
        "invalid",
        "841 W",
    ),
    "a counter younger than the work": Trip(
        counted(1_100_000), "counter_young", "invalid", "held 1100 J"
    ),
    "a young counter and no trace": Trip(
        counted(8_400_000)._replace(integral_bound=None), "counter_young", "invalid", "8400 J"
    ),
    "no counter": Trip(
        CALM._replace(source=PowerKind.INSTANT),
        "no_energy_counter",
        "lowers the tier",
        "(gone); power-instant was integrated",
    ),
    "too much power": Trip(
        CALM._replace(energy=energy(8401), integral=Joule(8401)),
        "implausible_power",
        "invalid",
        "840 W, is beyond 1.2 times the limit of 700 W",
    ),
    "more than both bounds allow": Trip(
        off(3.1)._replace(integral_bound=Bound(Joule(1001), Joule(1061))),
        "sources_differ",
        "lowers the tier",
        "+3.1 % off the energy counter, and may itself be off by 3.0 %",
    ),
    "less than both bounds allow": Trip(
        off(-3.1)._replace(integral_bound=Bound(Joule(939), Joule(999))),
        "sources_differ",
        "lowers the tier",
        "-3.1 %",
    ),
    "far more, by a trace that says little": Trip(
        off(20)._replace(integral_bound=Bound(Joule(1001), Joule(1450))),
        "sources_differ",
        "lowers the tier",
        "may itself be off by 25.0 %",
    ),
    "far more than a poor trace explains": Trip(
        off(20)._replace(integral_bound=Bound(Joule(1050), Joule(1350))),
        "sources_disagree",
        "invalid",
        "may itself be off by 15.0 %",
    ),
    "ten percent more": Trip(off(10.1), "sources_disagree", "invalid", "+10.1 %"),
    "ten percent less": Trip(off(-10.1), "sources_disagree", "invalid", "-10.1 %"),
    "nothing beside it": Trip(
        CALM._replace(integral=GONE, rate_hz=GONE), "no_cross_check", "lowers the tier", "gone"
    ),
    "a neighbour before": Trip(
        CALM._replace(fact=fact(before=edge(foreign_processes=1))),
        "foreign_process",
        "invalid",
        "Another process",
    ),
    "a neighbour after": Trip(
        CALM._replace(fact=fact(after=edge(foreign_processes=2), before=GONE)),
        "foreign_process",
        "invalid",
        "Another process",
    ),
    "neighbours unknown": Trip(
        CALM._replace(fact=fact(after=edge(foreign_processes=GONE))),
        "neighbours_unknown",
        "note",
        "gone",
    ),
    "a neighbour at rest": Trip(
        CALM._replace(fact=fact(idle=rest(foreign_processes=1))),
        "foreign_process",
        "invalid",
        "Another process",
    ),
    "busy while the run rests": Trip(
        CALM._replace(fact=fact(idle=rest(utilization_pct=37.0))),
        "busy_at_rest",
        "lowers the tier",
        "busy for 37 %",
    ),
    "a display server": Trip(
        CALM._replace(fact=fact(after=edge(graphics_processes=1))),
        "display_server",
        "lowers the tier",
        "display server",
    ),
    "nobody looked": Trip(
        CALM._replace(fact=fact(before=GONE)), "neighbours_unknown", "note", "gone"
    ),
    "too hot": Trip(
        CALM._replace(fact=fact(after=edge(event_reasons=("sw_power_cap", "hw_thermal")))),
        "slowed_down",
        "lowers the tier",
        "(hw_thermal)",
    ),
    "a short row": Trip(
        CALM._replace(fact=fact(ledger=(row(rows=9), row(rows=1, output_tokens=255)))),
        "unequal_tokens",
        "invalid",
        "256",
    ),
    "an early end": Trip(
        CALM._replace(fact=fact(ledger=(row(stop="eos"),))), "unequal_tokens", "invalid", "256"
    ),
    "a missing row": Trip(
        CALM._replace(fact=fact(ledger=(row(rows=9),))), "unequal_tokens", "invalid", "10 rows"
    ),
    "no row at all": Trip(
        CALM._replace(fact=fact(ledger=())), "unequal_tokens", "invalid", "10 rows"
    ),
    "a host that slowed down": Trip(
        CALM._replace(fact=fact(host_spin_s=(0.020, 0.040))),
        "host_unsteady",
        "lowers the tier",
        "100%",
    ),
    "a host that sped up": Trip(
        CALM._replace(fact=fact(host_spin_s=(0.040, 0.020))),
        "host_unsteady",
        "lowers the tier",
        "100%",
    ),
    "weights read at a terabyte a second": Trip(
        CALM._replace(memory=MemoryUse(1e12 * CALM.work_s / CALM.steps, 0.5e12)),
        "impossible_rate",
        "invalid",
        "1.00 TB/s; a copy on this board reaches 0.50 TB/s",
    ),
    "not settled": Trip(
        CALM._replace(warmed=warmed(settled=False)),
        "not_settled",
        "lowers the tier",
        "6 warm-up passes",
    ),
}


def test_a_calm_window_has_nothing_to_say() -> None:
    assert judge(CALM) == ()
    assert valid(judge(CALM))


@pytest.mark.parametrize("what", TRIPS)
def test_a_gate_finds_what_it_is_for_and_nothing_else(what: str) -> None:
    """NV-UNDERFLOW, NV-STUCK, NV-XCHECK, ID-CONTEND: a row each."""
    window, code, effect, says = TRIPS[what]
    (finding,) = judge(window)
    assert (finding.code, finding.effect, finding.subject) == (code, effect, "a")
    assert says in finding.cause
    assert finding.fix
    assert valid((finding,)) == (effect != "invalid")


def test_every_gate_has_a_window_that_trips_it() -> None:
    gates = (*OF_A_BOARD, *OF_THE_WORK)
    tripped = {gate for gate in gates for trip in TRIPS.values() if gate(trip.window)}
    assert tripped == set(gates)


@pytest.mark.parametrize(
    "window",
    [
        off(20)._replace(integral_bound=Bound(Joule(1000), Joule(1400))),
        off(-3.1)._replace(integral_bound=Bound(Joule(938), Joule(1000))),
        CALM._replace(energy=WindowEnergy(Joule(1000), Joule(985), Joule(1035), Watt(80))),
        off(3.1)._replace(energy=WindowEnergy(Joule(1000), Joule(985), Joule(1031), Watt(80))),
        counted(1_200_000),
        counted(8_500_000)._replace(integral_bound=None),
        counted(1_100_000)._replace(integral_bound=None, power_limit_w=GONE),
        counted(10_000_000, after_next=10_000_000 + 839 * 200),
        CALM._replace(energy=energy(8400), integral=Joule(8400)),
        CALM._replace(power_limit_w=GONE),
        CALM._replace(fact=fact(host_spin_s=(0.020, 0.021))),
        CALM._replace(fact=fact(host_spin_s=GONE)),
        CALM._replace(fact=fact(host_spin_s=(0.0, 0.0))),
        CALM._replace(warmed=None),
        CALM._replace(fact=fact(after=edge(event_reasons=GONE))),
        CALM._replace(fact=fact(ledger=(row(rows=4), row(rows=6)))),
    ],
)
def test_what_is_within_bounds_or_merely_unknown_passes(window: Judged) -> None:
    assert judge(window) == ()


def test_several_things_may_be_wrong_at_once() -> None:
    window = off(20)._replace(warmed=warmed(settled=False))
    assert [finding.code for finding in judge(window)] == ["sources_disagree", "not_settled"]


def test_an_absent_energy_is_never_compared_with_anything() -> None:
    window = CALM._replace(energy=GONE, integral=GONE, rate_hz=GONE, power_limit_w=GONE)
    assert [finding.code for finding in judge(window)] == ["no_energy"]
    assert window.difference_pct is None


def test_tokens_are_those_of_all_rows() -> None:
    assert CALM.tokens == 2560
    assert (
        CALM._replace(fact=fact(ledger=(row(rows=3), row(rows=2, output_tokens=4)))).tokens == 776
    )
    assert CALM.work_s == 10
