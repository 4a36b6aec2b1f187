"""What a byte and an operation cost this board: kernels of known work between readings.

It takes three quarters of a minute, and is a fact about the board: a run takes it over from an
earlier one in the same output folder, if that was on the same board, driver and torch and found
something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.engine.idle import read_idle
from ecocompute_cube.engine.orders import Calibrate
from ecocompute_cube.engine.window import measure
from ecocompute_cube.errors import ArmFailed, JournalBroken
from ecocompute_cube.model.base import Absent, present, printable, without_paths
from ecocompute_cube.model.cost import Calibrated, KernelRun
from ecocompute_cube.model.journal import RunOpened, SessionOpened
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal
from ecocompute_cube.model.plan import IDLE_S, PRECISE_S, PRECISE_TICKS
from ecocompute_cube.units import nanoseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ecocompute_cube.backends.base import Kernel, Kernels
    from ecocompute_cube.device.base import Clock, PowerSource
    from ecocompute_cube.engine.executor import Executor
    from ecocompute_cube.model.journal import Fact
    from ecocompute_cube.model.readings import IdleReading

PLACE: Final = "calibration"  #: what its process and its log are called
_AT_ONCE_S: Final = 0.05  # of launches before the host waits for them: bounds what is queued
_WARM_S: Final = 2.0  # until clocks and power are up


class Bench(NamedTuple):
    """A board, and where something can run on it."""

    source: PowerSource
    executor: Executor
    clock: Clock
    output: Path  #: where earlier runs may lie
    tells: Callable[[Calibrated], bool]  #: whether a calibration gives the costs
    say: Callable[[str], None]


def calibration_for(session: SessionOpened, bench: Bench) -> Calibrated | None:
    """What an earlier run found on this board, else what is measured now; None without a counter.

    What cannot be measured is absent in it with its reason: it costs the explanation, not the run.
    """
    if not present(session.tick):
        return None
    known = next(filter(bench.tells, _earlier(session, bench.output)), None)
    if known is not None:
        told = printable(str(known.taken_from))  # out of a file that anybody may have written
        bench.say(f"calibration of this board taken over from {told}")
        return known
    (bare,) = read_idle((bench.source,), bench.clock, frozenset(), IDLE_S)
    if isinstance(others := bare.seen.foreign_processes, Absent):  # so would they be beside it
        unknown = Absent(reason=f"neighbours_unknown: {others.reason}")
        return _fact(session, bare, unknown, unknown)
    bench.say("calibrating this board, once: a copy and a product, about 45 s")
    try:
        return _measured(session, bench, bare)
    except ArmFailed as error:
        bench.say(f"  not calibrated: {error.cause}")
        none = Absent(reason=without_paths(error.cause))
        return _fact(session, bare, none, none)


def _measured(session: SessionOpened, bench: Bench, bare: IdleReading) -> Calibrated:
    link = bench.executor.start(PLACE)
    finished = False
    try:
        order = Calibrate(
            session=session.session, tick=session.tick, bare=bare, own_processes=(link.pid,)
        )
        fact = link.ask(order)
        finished = True
    finally:
        link.close(patient=finished)
    if not isinstance(fact, Calibrated):
        raise ArmFailed("garbled_answer", "The calibration answered something else.", "")
    return fact


def _earlier(session: SessionOpened, output: Path) -> Iterator[Calibrated]:
    """The latest first."""
    for path in sorted(output.glob(f"*/{JOURNAL_NAME}"), reverse=True):
        try:
            facts = read_journal(path).records
        except (JournalBroken, OSError):
            continue  # `report` and `validate` name it
        opened = facts[0] if facts else None
        if isinstance(opened, RunOpened):
            yield from _usable(session, opened.run_id, facts)


def _usable(session: SessionOpened, run_id: str, facts: tuple[Fact, ...]) -> Iterator[Calibrated]:
    alike = {
        fact.session
        for fact in facts
        if isinstance(fact, SessionOpened) and _stack(fact) == _stack(session)
    }
    for fact in facts:
        if isinstance(fact, Calibrated) and fact.session in alike:
            first = fact.taken_from if isinstance(fact.taken_from, str) else run_id
            yield fact.model_copy(update={"session": session.session, "taken_from": first})


def _stack(session: SessionOpened) -> tuple[object, ...]:
    """What a calibration holds for."""
    board = session.board
    if not present(board):
        return ()
    which = board.uuid_sha256, board.driver, board.power_limit_w, board.ecc
    return (*which, session.packages.get("torch"))


def calibrate(
    order: Calibrate, kernels: Kernels | Absent, source: PowerSource | None, clock: Clock
) -> Calibrated:
    """In a process of its own: rest with a context, then copy and multiply, twenty seconds each."""
    if source is None or not present(kernels) or not present(order.tick):
        none = kernels if isinstance(kernels, Absent) else Absent(reason="no energy counter")
        return _fact(order, order.bare, none, none)
    _repeat(kernels.copy, kernels.sync, clock, 0.0)  # makes the context
    (resting,) = read_idle((source,), clock, frozenset(order.own_processes), IDLE_S)
    least_s = max(PRECISE_S, PRECISE_TICKS * order.tick.median_ms / 1e3)
    copied, multiplied = (
        _run(kernel, kernels.sync, source, clock, least_s)
        for kernel in (kernels.copy, kernels.product)
    )
    return _fact(order, order.bare, resting, copied, multiplied, kernels)


def _fact(
    of: SessionOpened | Calibrate,
    bare: IdleReading | Absent,
    resting: IdleReading | Absent,
    copied: KernelRun | Absent,
    multiplied: KernelRun | Absent | None = None,
    kernels: Kernels | None = None,
) -> Calibrated:
    return Calibrated(
        session=of.session,
        tick=of.tick,
        bare=bare,
        resting=resting,
        copy_bytes=copied,
        product_flop=copied if multiplied is None else multiplied,
        cache_bytes=Absent(reason="not calibrated") if kernels is None else kernels.cache_bytes,
        taken_from=Absent(reason="measured in this run"),
    )


def _run(
    kernel: Kernel, sync: Callable[[], None], source: PowerSource, clock: Clock, least_s: float
) -> KernelRun:
    _repeat(kernel, sync, clock, _WARM_S)
    launches = 0

    def work() -> None:
        nonlocal launches
        launches = _repeat(kernel, sync, clock, least_s)

    window = measure(source, clock, sync, work, 0.0)
    return KernelRun(amount=launches * kernel.amount, counter=window.counter, work=window.work)


def _repeat(kernel: Kernel, sync: Callable[[], None], clock: Clock, least_s: float) -> int:
    """Launch for so long, at least once; how often. The board never waits for the host."""
    start = clock.now_ns()
    launches, batch = 0, 1
    while not launches or clock.now_ns() < start + nanoseconds(least_s):
        begun = clock.now_ns()
        for _ in range(batch):
            kernel.launch()
        sync()
        launches += batch
        if clock.now_ns() - begun < nanoseconds(_AT_ONCE_S / 2):
            batch *= 2
    return launches
