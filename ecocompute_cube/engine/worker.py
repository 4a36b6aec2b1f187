"""One arm at work: load, warm, measure, score. Runs in a process of the arm's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.backends.precision import check_certificate
from ecocompute_cube.engine.calibration import calibrate
from ecocompute_cube.engine.idle import read_idle
from ecocompute_cube.engine.orders import (
    Answer,
    Calibrate,
    Load,
    Measure,
    Order,
    Profile,
    Score,
    Warm,
)
from ecocompute_cube.engine.pace import spin
from ecocompute_cube.engine.room import check_room
from ecocompute_cube.engine.settling import Pass, settled, settled_by
from ecocompute_cube.engine.window import Window, measure
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import Absent, present, sha256_hex
from ecocompute_cube.model.cost import Profiled
from ecocompute_cube.model.journal import (
    ArmReady,
    QualityScored,
    QualitySkipped,
    Warmed,
    WindowMeasured,
)
from ecocompute_cube.model.manifest import Weights
from ecocompute_cube.model.plan import PROTOCOL_ITERATIONS
from ecocompute_cube.model.readings import (
    IdleReading,
    OtherReadings,
    Span,
    Telemetry,
    hottest,
)
from ecocompute_cube.units import nanoseconds, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ecocompute_cube.backends.base import InferenceBackend, Session
    from ecocompute_cube.device.base import Clock, PowerSource
    from ecocompute_cube.model.base import MaybeFloat
    from ecocompute_cube.model.plan import Workload
    from ecocompute_cube.units import Second

_NO_BOARD: Final = Absent(reason="no board")
_NOT_ASKED: Final = Absent(reason="idle_not_measured: the plan asks for no idle power")
_LONGEST_PRECISE: Final = 10_000  # generations; a stop for a clock that does not move


class ArmWorker:
    """Carries out orders for one arm, in the order they come.

    ``pace`` times the host around each window; where time is scripted, it would only take time.
    ``others`` are the further boards of a model that is split; ``device`` then names them all.
    """

    def __init__(
        self,
        backend: InferenceBackend,
        source: PowerSource | None,
        clock: Clock,
        device: str,
        pace: Callable[[Clock], Second] = spin,
        others: Sequence[PowerSource] = (),
    ) -> None:
        self._backend = backend
        self._boards = () if source is None else (source, *others)
        self._clock = clock
        self._device = device
        self._pace = pace
        self._loaded: tuple[Load, Session] | None = None
        self._fresh = True  #: nothing was generated since the load
        self._told = False  #: whether a window has told its first ids

    def obey(self, order: Order) -> Answer:
        """Carry out one order. Raises ArmFailed when the arm cannot go on."""
        if isinstance(order, Load):
            return self._load(order)
        if isinstance(order, Calibrate):
            source = self._boards[0] if self._boards else None
            return calibrate(order, self._backend.kernels(), source, self._clock)
        if self._loaded is None:
            raise ArmFailed("not_loaded", "The arm was asked to work before it was loaded.", "")
        load, session = self._loaded
        if isinstance(order, Warm):
            return self._warm(order, load, session)
        if isinstance(order, Measure):
            return self._measure(order, load, session)
        if isinstance(order, Profile):
            seen = session.profile()
            return Profiled(arm=load.arm.id, session=load.session, **seen._asdict())
        return self._score(order, load, session)

    def close(self) -> None:
        """Free the model and the board."""
        if self._loaded is not None:
            self._loaded[1].close()
        for board in self._boards:
            board.close()

    def _load(self, order: Load) -> ArmReady:
        start = self._clock.now_ns()
        if len(self._boards) > 1:
            check_room(order.arm, order.manifest, Path(order.folder), self._boards)
        session = self._backend.load(order.arm, order.manifest, Path(order.folder))
        certificate = session.certificate()
        check_certificate(order.arm.precision, self._device, certificate)
        text = Path(order.prompt_text).read_text(encoding="utf-8")
        prompts = session.prepare(text, order.protocol.iterations or PROTOCOL_ITERATIONS)
        self._loaded = order, session
        return ArmReady(
            arm=order.arm.id,
            session=order.session,
            load=Span(start_ns=start, end_ns=self._clock.now_ns()),
            certificate=certificate,
            prompt_sha256=prompts,
            step=session.step(),
        )

    def _warm(self, order: Warm, load: Load, session: Session) -> Warmed:
        rule = load.protocol.warmup
        passes: list[Pass] = []
        temperatures: list[MaybeFloat] = [self._temperature()]
        idle, *others_idle = self._idle(load, order.own_processes)
        session.renew()
        done = False
        while len(passes) < rule.max_passes and not done:
            tokens = self._pass_tokens(load)
            passes.append(self._timed(session, len(passes), tokens, load.arm.workload))
            temperatures.append(self._temperature())
            done = len(passes) >= rule.min_passes and settled(
                passes, temperatures, rule, order.tick_s
            )
        return Warmed(
            arm=load.arm.id,
            session=order.place.session,
            group=order.place.group,
            block=order.place.block,
            passes=len(passes),
            pass_s=tuple(each.seconds for each in passes),
            pass_mj=tuple(each.mj for each in passes),
            settled_by=settled_by(passes, rule, order.tick_s),
            temperatures_c=tuple(temperatures),
            settled=done,
            idle=idle,
            others_idle=tuple(others_idle),
        )

    def _pass_tokens(self, load: Load) -> int:
        rule, full = load.protocol.warmup, load.arm.workload.generated_tokens
        first, self._fresh = self._fresh, False
        return full if first and rule.full_first else min(rule.output_tokens, full)

    def _timed(self, session: Session, iteration: int, tokens: int, workload: Workload) -> Pass:
        before = self._counter()
        start = self._clock.now_ns()
        session.generate(iteration, tokens)
        session.sync()
        took = seconds(self._clock.now_ns() - start)
        after = self._counter()
        if not present(before) or not present(after):
            return Pass(took, before if not present(before) else after)
        if after < before:
            return Pass(took, Absent(reason="the counter went backwards"))
        return Pass(took, (after - before) / (workload.counted(tokens) * workload.batch))

    def _counter(self) -> int | Absent:
        """All boards' energy so far."""
        total = 0
        for board in self._boards:
            read = board.energy_mj()
            if not present(read):
                return read
            total += read
        return total if self._boards else _NO_BOARD

    def _temperature(self) -> MaybeFloat:
        return hottest(board.telemetry(frozenset()).temperature_c for board in self._boards)

    def _idle(self, load: Load, own: tuple[int, ...]) -> tuple[IdleReading | Absent, ...]:
        """Of every board; of none in a rehearsal, which is told once."""
        idle_s = load.protocol.idle_s
        if not self._boards:
            return (_NO_BOARD,)
        if not idle_s:
            return (_NOT_ASKED,) * len(self._boards)
        return read_idle(self._boards, self._clock, frozenset(own), idle_s)

    def _telemetry(self, own: tuple[int, ...]) -> tuple[Telemetry | Absent, ...]:
        seen = tuple(board.telemetry(frozenset(own)) for board in self._boards)
        return seen or (_NO_BOARD,)

    def _measure(self, order: Measure, load: Load, session: Session) -> WindowMeasured:
        outputs: list[object] = []
        ends: list[int] = []
        work = self._work(load, order.least_s, session, outputs, ends)
        before = self._telemetry(order.own_processes)
        pace = self._pace(self._clock)
        if self._boards:
            first, *more = self._boards
            read = measure(first, self._clock, session.sync, work, order.delay_s, more)
        else:
            read = Window(_NO_BOARD, self._without_board(session, work))
        pace_after = self._pace(self._clock)
        after = self._telemetry(order.own_processes)
        ledger = session.ledger(outputs)
        idle = self._idle(load, order.own_processes)
        window = WindowMeasured(
            arm=load.arm.id,
            session=order.place.session,
            group=order.place.group,
            block=order.place.block,
            position=order.place.position,
            counter=read.counter,
            delay_ns=nanoseconds(order.delay_s),
            work=read.work,
            least_s=order.least_s,
            iterations=len(outputs),
            iteration_ends_ns=tuple(ends),
            ledger=ledger.rows,
            output_sha256=ledger.output_sha256,
            first_ids=() if self._told else ledger.first_ids,
            host_spin_s=(pace, pace_after),
            before=before[0],
            after=after[0],
            idle=idle[0],
            others=tuple(
                OtherReadings(counter=counter, before=begun, after=ended, idle=rest)
                for counter, begun, ended, rest in zip(
                    read.others, before[1:], after[1:], idle[1:], strict=True
                )
            ),
            look_ns=read.look_ns,
        )
        self._told = True
        return window

    def _without_board(self, session: Session, work: Callable[[], None]) -> Span:
        start = self._clock.now_ns()
        work()
        session.sync()
        return Span(start_ns=start, end_ns=self._clock.now_ns())

    def _work(
        self,
        load: Load,
        least_s: float | None,
        session: Session,
        outputs: list[object],
        ends: list[int],
    ) -> Callable[[], None]:
        tokens = load.arm.workload.generated_tokens
        count = load.protocol.iterations or PROTOCOL_ITERATIONS
        if least_s is not None:
            return self._until(session, tokens, least_s, outputs, ends)

        def work() -> None:
            for iteration in range(count):
                outputs.append(session.generate(iteration, tokens))
                session.sync()  # a captured runtime is far ahead of its board otherwise
                ends.append(self._clock.now_ns())

        return work

    def _until(
        self,
        session: Session,
        tokens: int,
        window_s: float,
        outputs: list[object],
        ends: list[int],
    ) -> Callable[[], None]:
        def work() -> None:
            now = self._clock.now_ns()
            enough = now + nanoseconds(window_s)
            while now < enough and len(outputs) < _LONGEST_PRECISE:
                outputs.append(session.generate(len(outputs), tokens))
                session.sync()
                now = self._clock.now_ns()
                ends.append(now)

        return work

    def _score(self, order: Score, load: Load, session: Session) -> QualityScored | QualitySkipped:
        if load.manifest.weights is Weights.RANDOM:
            return _skipped(load, "random weights: a perplexity would say nothing")
        data = Path(order.text).read_bytes()
        scores = session.score(data.decode("utf-8"), order.window_tokens, order.max_windows)
        if not sum(scores.scored_tokens):
            return _skipped(load, f"the text {order.name} is too short: it has a single token")
        return QualityScored(
            arm=load.arm.id,
            session=load.session,
            text=order.name,
            text_bytes=len(data),
            text_sha256=sha256_hex(data),
            window_tokens=scores.window_tokens,
            nll=scores.nll,
            scored_tokens=scores.scored_tokens,
        )


def _skipped(load: Load, reason: str) -> QualitySkipped:
    return QualitySkipped(arm=load.arm.id, session=load.session, reason=reason)
