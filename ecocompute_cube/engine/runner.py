"""Walks the schedule and writes down what happens. It decides nothing: the plan does."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ecocompute_cube.backends.precision import CERTIFICATE_CODES
from ecocompute_cube.engine.cooling import cool
from ecocompute_cube.engine.links import Links
from ecocompute_cube.engine.orders import Load, Measure, Place, Profile, Score, Warm
from ecocompute_cube.engine.progress import Progress, blocks_left, finished
from ecocompute_cube.engine.schedule import groups, least_window_s, start_delay
from ecocompute_cube.engine.traces import store_trace, traced
from ecocompute_cube.errors import ArmFailed, BoardLost, Interrupted
from ecocompute_cube.model.around import Cooled
from ecocompute_cube.model.base import Absent, MaybeFloat, present, without_paths
from ecocompute_cube.model.cost import Profiled
from ecocompute_cube.model.journal import (
    ArmReady,
    BlockClosed,
    BlockOpened,
    QualitySkipped,
    Refused,
    RunClosed,
    WindowMeasured,
)
from ecocompute_cube.model.readings import COUNTER_STUCK
from ecocompute_cube.model.stop import AdaptiveStop
from ecocompute_cube.units import nanoseconds, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ecocompute_cube.device.base import Clock, RawTrace, Tracer
    from ecocompute_cube.engine.executor import ArmLink, Executor
    from ecocompute_cube.engine.orders import Answer, Order
    from ecocompute_cube.engine.schedule import Block
    from ecocompute_cube.model.cost import Calibrated
    from ecocompute_cube.model.journal import SessionOpened
    from ecocompute_cube.model.journal_file import JournalWriter
    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm, Plan
    from ecocompute_cube.model.stop import Stopped

Ending = Literal["finished", "session done", "time is up", "interrupted", "failed"]
Stage = Literal["load", "certify", "warm", "window"]

_MARGIN: Final = 1.1  # a block may take a tenth longer than the longest one before it


class Rig(NamedTuple):
    """Everything a run touches; what tests replace."""

    executor: Executor
    tracers: tuple[Tracer, ...]  #: one a board
    clock: Clock
    say: Callable[[str], None]
    folder: Path  #: of the run
    models: Mapping[str, tuple[Manifest, Path]]  #: by reference
    prompt_text: Path
    quality_text: Path
    quality_name: str
    #: whether the plan's rule ends the blocks of this (session, group), from the journal so far
    look: Callable[[int, int], Stopped | None] = lambda session, group: None
    temperature: Callable[[], MaybeFloat] = lambda: Absent(reason="no board")
    #: what a byte and an operation cost the board, for a session that has no such fact
    calibrate: Callable[[SessionOpened], Calibrated | None] = lambda session: None


class _NotCountedError(Exception):
    """A window whose counter gave nothing."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Runner:
    """One visit of the program to one journal, within one session."""

    def __init__(
        self,
        plan: Plan,
        rig: Rig,
        journal: JournalWriter,
        session: SessionOpened,
        done: Progress,
    ) -> None:
        self._plan = plan
        self._rig = rig
        self._journal = journal
        self._session = session
        self._done = done
        self._arms = {arm.id: arm for arm in plan.expanded()}
        self._links = Links(rig.executor, rig.clock)
        self._refused: set[str] = set()  # a refusal holds for this visit of the program
        self._lost: set[str] = set()  # failed at their last visit after having been measured
        self._measured: set[str] = set()
        self._scored = {arm for number, arm in done.scored if number == session.session}
        self._profiled = {arm for number, arm in done.profiled if number == session.session}
        self._phases: dict[str, int] = {}
        known = (first for number, first in done.first_c if number == session.session)
        self._first_c: MaybeFloat = next(known, Absent(reason="no temperature was read"))
        self._looked: set[tuple[int, int]] = set()  # (group, complete blocks)
        self._silent = 0  # blocks in a row that ended because the counter gave nothing

    def run(self, block_s: float, deadline_ns: int | None) -> None:
        """Do every block this session still owes, or as many as fit before ``deadline_ns``.

        ``block_s`` is how long the first block is expected to take, in seconds. Raises Interrupted
        (what was finished is in the journal), BoardLost, DiskFull or OutputError.
        """
        try:
            self._calibrate()
            ending = self._blocks(block_s, deadline_ns)
            for arm in tuple(self._links.arms):
                self._profile(arm)
            self._close(*ending)
        except BoardLost as error:
            self._close("failed", error.cause)
            raise
        except KeyboardInterrupt:
            self._links.end(patient=False)
            self._close("interrupted", "stopped by the user")
            raise Interrupted(
                "Stopped; finished blocks are kept.", "Run the same command again to go on."
            ) from None
        finally:
            self._links.end(patient=False)

    def _calibrate(self) -> None:
        session = self._session.session
        nothing_left = next(blocks_left(self._plan, self._done, session), None) is None
        if nothing_left or session in self._done.calibrated:
            return
        fact = self._rig.calibrate(self._session)
        if fact is not None:
            self._journal.append(fact)

    def _blocks(self, block_s: float, deadline_ns: int | None) -> tuple[Ending, str]:
        taken: list[tuple[float, float]] = []  # seconds of each block: loading arms, and the rest
        while (block := self._next_block()) is not None:
            start = self._rig.clock.now_ns()
            expected = self._expected_s(block, taken) if taken else block_s
            if deadline_ns is not None and start + nanoseconds(expected * _MARGIN) > deadline_ns:
                return "time is up", f"the next block may take {expected:.0f} s"
            loaded = self._links.loading_s
            whole = self._block(block)
            took = seconds(self._rig.clock.now_ns() - start)
            loading = self._links.loading_s - loaded
            if whole or not taken:  # one that was cut short says nothing of the next
                taken.append((loading, took - loading))
        return self._ending()

    def _expected_s(self, block: Block, taken: list[tuple[float, float]]) -> float:
        """As long as the slowest before it; loading counts where arms must be loaded again."""
        loads = not self._refused.union(self._links.arms).issuperset(block.order)
        loading = max(loading for loading, _ in taken) if loads else 0.0
        return loading + max(rest for _, rest in taken)

    def _next_block(self) -> Block | None:
        if isinstance(self._plan.protocol.stop, AdaptiveStop):
            for group in range(len(groups(self._plan))):
                self._look(group)
        left = blocks_left(self._plan, self._done, self._session.session)
        return next((block for block in left if not self._refused.issuperset(block.order)), None)

    def _look(self, group: int) -> None:
        """Ask the rule once after each complete block; also after one of an earlier visit."""
        session = self._session.session
        seen = group, self._done.complete_in(session, group)
        known = (session, group) in self._done.stopped or seen in self._looked
        if known or seen[1] < self._plan.protocol.least_blocks:
            return
        self._looked.add(seen)
        stopped = self._rig.look(session, group)
        if stopped is not None:
            self._journal.append(stopped)
            self._done = self._done._replace(stopped=self._done.stopped | {(session, group)})
            self._rig.say(f"enough blocks: {stopped.reason} after {stopped.blocks}")

    def _ending(self) -> tuple[Ending, str]:
        if finished(self._plan, self._done):
            return "finished", "every block is complete"
        if next(blocks_left(self._plan, self._done, self._session.session), None) is not None:
            return "failed", "every arm that must share a block was refused"
        self._rig.say(
            "this session has its blocks; the plan wants more sessions: run the same command again "
            "after a reboot or on another machine"
        )
        return "session done", "the plan wants more sessions"

    def _block(self, block: Block) -> bool:
        """Visit a block's arms; whether the block is complete."""
        session, group, number, order = block
        self._journal.append(BlockOpened(session=session, group=group, block=number, order=order))
        self._done = self._done._replace(opened=self._done.opened | {(session, group, number)})
        began_with = set(order) - self._refused
        try:
            for position, arm in enumerate(order):
                if arm not in self._refused:
                    self._say_visit(block, position, arm)
                    place = Place(session=session, group=group, block=number, position=position)
                    self._visit(arm, place)
        except KeyboardInterrupt:
            self._close_block(block, "interrupted", complete=False)
            raise
        except _NotCountedError as error:
            self._close_block(block, error.reason, complete=False)
            self._after_a_loss(error.reason)
            return False
        self._silent = 0
        if self._lost & began_with:
            lost = ", ".join(sorted(self._lost & began_with))
            self._close_block(block, f"lost on the way: {lost}", complete=False)
            return False
        if self._refused.issuperset(order):
            self._close_block(block, "no arm could be measured", complete=False)
            return False
        self._close_block(block, "all arms visited or refused", complete=True)
        return True

    def _after_a_loss(self, reason: str) -> None:
        """The block is run again by arms that open the board anew; not a second time in a row."""
        self._silent += 1
        self._links.end(patient=True)
        if self._silent > 1:
            raise BoardLost(
                f"The board has stopped answering: {reason}.",
                "Finished blocks are kept. Look at nvidia-smi, then run the same command again.",
            )
        self._rig.say(f"  {reason}: the block is run again")

    def _close_block(self, block: Block, reason: str, *, complete: bool) -> None:
        if complete:
            key = (block.session, block.group, block.block)
            self._done = self._done._replace(complete=self._done.complete | {key})
        self._journal.append(
            BlockClosed(
                session=block.session,
                group=block.group,
                block=block.block,
                complete=complete,
                reason=reason,
            )
        )

    def _say_visit(self, block: Block, position: int, arm: str) -> None:
        done = self._done.complete_in(block.session, block.group)
        most = "at most " if isinstance(self._plan.protocol.stop, AdaptiveStop) else ""
        self._rig.say(
            f"block {done + 1} of {most}{self._plan.protocol.most_blocks}, "
            f"arm {position + 1} of {len(block.order)}: {arm}"
        )

    def _visit(self, arm: str, place: Place) -> None:
        self._rig.clock.sleep(self._plan.protocol.cooldown_s)
        self._cool(arm, place)
        self._phases = {}
        with self._traced(arm, place), self._refusing(arm) as stage:
            stage.append("load")
            link = self._link(arm)
            stage.append("warm")
            own = self._links.pids
            self._ask(link, Warm(place=place, tick_s=self._tick_s(), own_processes=own))
            stage.append("window")
            self._window(link, arm, place)
            self._quality(link, arm)
        if not self._session.resident:
            self._profile(arm)
            self._links.drop(arm)

    def _cool(self, arm: str, place: Place) -> None:
        rule = self._plan.protocol.cooldown
        if rule is None:
            return
        if not present(self._first_c):
            self._first_c = self._rig.temperature()
        pause = cool(rule, self._first_c, self._rig.temperature, self._rig.clock)
        visit = {"session": place.session, "group": place.group, "block": place.block}
        fact = {"arm": arm, "first_c": self._first_c, **visit, **pause._asdict()}
        self._journal.append(Cooled.model_validate(fact))

    def _traced(self, arm: str, place: Place) -> AbstractContextManager[None]:
        def keep(board: int, raw: RawTrace | Absent) -> None:
            fact = store_trace(raw, self._rig.folder, arm, place, self._phases, board)
            self._journal.append(fact)

        return traced(self._rig.tracers, self._rig.folder, keep)

    @contextlib.contextmanager
    def _refusing(self, arm: str) -> Iterator[list[Stage]]:
        stages: list[Stage] = []
        try:
            yield stages
        except ArmFailed as error:
            gone = self._silent and not present(self._rig.temperature())
            if gone and stages[-1] == "load":  # the arm is not to blame
                raise _NotCountedError(without_paths(error.cause.rstrip("."))) from error
            stage: Stage = "certify" if error.reason in CERTIFICATE_CODES else stages[-1]
            self._rig.say(f"  refused: {error.cause} {error.fix}".rstrip())
            self._journal.append(
                Refused(
                    arm=arm,
                    session=self._session.session,
                    stage=stage,
                    reason=error.reason,
                    cause=without_paths(error.cause),
                    fix=without_paths(error.fix),
                )
            )
            self._give_up(arm)
            self._links.drop(arm)

    def _give_up(self, arm: str) -> None:
        """Once measured, an arm has a second chance in the next block; else it is refused."""
        if arm in self._measured and arm not in self._lost:
            self._lost.add(arm)
        else:
            self._lost.discard(arm)
            self._refused.add(arm)

    def _link(self, arm: str) -> ArmLink:
        def load(link: ArmLink) -> None:
            ready = self._ask(link, self._load_order(self._arms[arm]))
            if isinstance(ready, ArmReady):
                self._mark("load_start", ready.load.start_ns)
                self._mark("model_ready", ready.load.end_ns)

        return self._links.opened(arm, load)

    def _load_order(self, arm: Arm) -> Load:
        manifest, folder = self._rig.models[arm.model]
        return Load(
            session=self._session.session,
            arm=arm,
            manifest=manifest,
            folder=str(folder),
            protocol=self._plan.protocol,
            prompt_text=str(self._rig.prompt_text),
        )

    def _window(self, link: ArmLink, arm: str, place: Place) -> None:
        self._mark("warmup_end", self._rig.clock.now_ns())
        window = self._ask(
            link,
            Measure(
                place=place,
                delay_s=self._delay_s(arm, place),
                least_s=least_window_s(self._plan.protocol, self._session.slowest),
                own_processes=self._links.pids,
            ),
        )
        if isinstance(window, WindowMeasured):
            self._mark("measure_start", window.work.start_ns)
            self._mark("measure_end", window.work.end_ns)
            self._check_counted(window)
            self._measured.add(arm)
            self._lost.discard(arm)
            self._say_window(window)

    def _check_counted(self, window: WindowMeasured) -> None:
        """A counter that the session has must have answered; one that stands still has."""
        counters = (window.counter, *(other.counter for other in window.others))
        for tick, counter in zip(self._session.ticks, counters, strict=True):
            if not present(tick) or present(counter):
                continue
            if COUNTER_STUCK not in counter.reason:
                raise _NotCountedError(f"its energy counter gave nothing ({counter.reason})")

    def _delay_s(self, arm: str, place: Place) -> float:
        share = start_delay(self._plan, place.session, place.group, place.block, arm)
        return share * (self._tick_s() or 0.0)

    def _tick_s(self) -> float | None:
        tick = self._session.slowest
        return tick.median_ms / 1e3 if present(tick) else None

    def _say_window(self, window: WindowMeasured) -> None:
        took = seconds(window.work.end_ns - window.work.start_ns)
        workload = self._arms[window.arm].workload
        tokens = sum(row.rows * workload.counted(row.output_tokens) for row in window.ledger)
        self._rig.say(f"  {tokens} tokens in {took:.1f} s: {tokens / took:.1f} tokens/s")

    def _quality(self, link: ArmLink, arm: str) -> None:
        quality = self._plan.quality
        if not quality.enabled or arm in self._scored:
            return
        self._mark("quality_start", self._rig.clock.now_ns())
        order = Score(
            text=str(self._rig.quality_text),
            name=self._rig.quality_name,
            window_tokens=quality.window_tokens,
            max_windows=quality.max_windows,
        )
        try:
            self._ask(link, order)
        except ArmFailed as error:  # costs the perplexity, not the arm
            self._rig.say(f"  no perplexity: {error.cause}")
            self._journal.append(
                QualitySkipped(
                    arm=arm, session=self._session.session, reason=without_paths(error.cause)
                )
            )
            self._links.drop(arm)
        self._mark("quality_end", self._rig.clock.now_ns())
        self._scored.add(arm)

    def _profile(self, arm: str) -> None:
        """Once a session, and last of all: a profiler may slow its process down for good."""
        if not self._plan.protocol.explain or not present(self._session.tick):
            return
        if arm not in self._links.arms or arm not in self._measured - self._profiled:
            return
        self._profiled.add(arm)
        try:
            self._ask(self._links.opened(arm, lambda link: None), Profile())
        except ArmFailed as error:  # costs the explanation, not the arm
            none = Absent(reason=without_paths(error.cause))
            session = self._session.session
            self._journal.append(
                Profiled(arm=arm, session=session, tokens=1, launches=none, busy_s=none)
            )

    def _ask(self, link: ArmLink, order: Order) -> Answer:
        fact = link.ask(order)
        self._journal.append(fact)
        return fact

    def _mark(self, phase: str, at_ns: int) -> None:
        self._phases[phase] = at_ns

    def _close(self, reason: Ending, detail: str) -> None:
        self._journal.append(RunClosed(reason=reason, detail=detail))
