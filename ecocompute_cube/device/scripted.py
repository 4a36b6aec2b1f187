"""A scripted board with known truth, in scripted time: what the tests measure."""

from __future__ import annotations

import bisect
import math
import random
from typing import TYPE_CHECKING, NamedTuple

from ecocompute_cube.device.base import RawTrace
from ecocompute_cube.model.base import Absent, MaybeFloat, MaybeInt, sha256_hex
from ecocompute_cube.model.capabilities import Capabilities
from ecocompute_cube.model.journal import TRACE_COLUMNS
from ecocompute_cube.model.readings import (
    Board,
    PowerKind,
    Telemetry,
)
from ecocompute_cube.units import nanoseconds, seconds

if TYPE_CHECKING:
    from pathlib import Path


class ScriptedClock:
    """Time that passes only when told to."""

    def __init__(self, start_ns: int = 1_000_000_000) -> None:
        self._now = start_ns

    def now_ns(self) -> int:
        """The scripted time."""
        return self._now

    def sleep(self, s: float) -> None:
        """Let scripted time pass at once."""
        self._now += nanoseconds(s)


class Behaviour(NamedTuple):
    """How the scripted board behaves; each field one thing a real board may do."""

    idle_w: float = 80.0
    idle_swing: float = 0.0  #: idle power swings by this share of itself, as a sine
    idle_swing_s: float = 1.0  #: of this period
    tick_s: float = 0.1
    call_s: float = 0.003
    lag_s: float = 0.0  #: the counter shows energy as of this long before its tick
    lag_spread_s: float = 0.0  #: and of up to so much longer, other at each tick
    tick_spread: float = 0.0  #: a tick comes up to this share of a tick early or late, below 0.5
    slow_call_s: float = 0.033  #: the slowest call on an H200 (our probe)
    slow_share: float = 0.0  #: of the calls, that take ``slow_call_s``
    gain: float = 1.0  #: what the counter counts for one true joule
    noise: float = 0.0  #: of what the counter adds at a tick, one standard deviation, as a share
    duty: float = 1.0  #: the counter sees this first part of each tick and takes it for the whole
    refresh_s: float = 0.0  #: power reads as of the last of these moments
    counted_j: float = 0.0  #: what the counter had counted before the script began
    seed: int = 0  #: of ticks, slow calls and noise
    counter: bool = True
    power: PowerKind = PowerKind.INSTANT
    reset_at_s: float | None = None  #: the counter starts again from zero here
    stuck_after_s: float | None = None  #: the counter stops here
    silent_s: tuple[float, float] | None = None  #: the counter gives no answer between these
    limit_w: float = 700.0
    trace: bool = True
    foreign: int = 0
    reasons: tuple[str, ...] = ()
    temperature_c: float = 40.0
    module_w: float | None = None  #: what the board says of its whole module
    virtualization: str = "none"
    graphics: int = 0  #: processes that draw
    hidden: str | None = None  #: why nobody can tell who computes on the board
    busy_pct: float = 0.0  #: utilization while this run rests
    memory_mib: int = 143_771
    name: str = "scripted"  #: told apart by it
    used_mib: int = 0  #: memory that processes held before the run loaded anything


class ScriptedBoard:
    """Power is idle but where ``work`` has put a load; energy is its exact integral."""

    def __init__(self, clock: ScriptedClock, behaviour: Behaviour | None = None) -> None:
        self._clock = clock
        self.behaviour = behaviour or Behaviour()
        self._start = clock.now_ns()
        self._edges: list[int] = []  #: load starts, then ends, alternating
        self._loads: list[float] = []
        self._extra: list[float] = [0.0]  #: joules above idle before each load, and after the last
        self._errors: list[float] = [0.0]  #: joules by which the counter is off, at each tick
        self._calls = random.Random(self.behaviour.seed)
        self._ticks: dict[int, int] = {}  #: moments of ticks that do not come regularly
        self._last: tuple[int | None, int] = None, 0  #: the last tick read, and what it showed

    def work(self, duration_s: float, power_w: float) -> None:
        """Draw ``power_w`` for ``duration_s`` seconds of scripted time."""
        start = self._clock.now_ns()
        self._clock.sleep(duration_s)
        self.drew(start, power_w)

    def drew(self, start: int, power_w: float) -> None:
        """Have drawn ``power_w`` from a moment until now."""
        self._edges += [start, self._clock.now_ns()]
        self._loads.append(power_w)
        above_j = power_w * seconds(self._edges[-1] - start) - self._idle_j(start, self._edges[-1])
        self._extra.append(self._extra[-1] + above_j)

    def power_at(self, at_ns: int) -> float:
        """The true power, in watts."""
        place = bisect.bisect_right(self._edges, at_ns)
        if place % 2:
            return self._loads[place // 2]
        return self.behaviour.idle_w * (1 + self.behaviour.idle_swing * math.sin(self._turn(at_ns)))

    def _turn(self, at_ns: int) -> float:
        """Where idle power is in its swing, in radians."""
        return math.tau * seconds(at_ns - self._start) / self.behaviour.idle_swing_s

    def _idle_j(self, start_ns: int, end_ns: int) -> float:
        """What an idle board takes between two moments."""
        behaviour, length_s = self.behaviour, seconds(end_ns - start_ns)
        if not behaviour.idle_swing:
            return behaviour.idle_w * length_s
        swung = math.cos(self._turn(start_ns)) - math.cos(self._turn(end_ns))
        swung_s = behaviour.idle_swing * behaviour.idle_swing_s / math.tau * swung
        return behaviour.idle_w * (length_s + swung_s)

    def true_energy_j(self, start_ns: int, end_ns: int) -> float:
        """The true energy between two moments, in joules."""
        return self._idle_j(start_ns, end_ns) + self._extra_j(end_ns) - self._extra_j(start_ns)

    def _extra_j(self, until_ns: int) -> float:
        """Energy above idle from the beginning until a moment."""
        place = bisect.bisect_right(self._edges, until_ns)
        whole = self._extra[place // 2]
        if place % 2 == 0:
            return whole
        load_j = self._loads[place // 2] * seconds(until_ns - self._edges[place - 1])
        return whole + load_j - self._idle_j(self._edges[place - 1], until_ns)

    def energy_mj(self) -> int | Absent:
        """The counter: true energy at the last tick, in whole millijoules."""
        if not self.behaviour.counter:
            return Absent(reason="NVML: Not Supported")
        silent = self.behaviour.silent_s
        if silent and silent[0] <= seconds(self._clock.now_ns() - self._start) < silent[1]:
            return Absent(reason="NVML: Unknown Error")
        slow = self._calls.random() < self.behaviour.slow_share
        call_s = self.behaviour.slow_call_s if slow else self.behaviour.call_s
        share = self._calls.random() if self.behaviour.slow_share else 0.5
        self._clock.sleep(call_s * share)  # the counter is looked at somewhere in the call
        seen = self._shown()
        self._clock.sleep(call_s * (1 - share))
        return seen

    def _shown(self) -> int:
        now, behaviour = self._clock.now_ns(), self.behaviour
        if behaviour.stuck_after_s is not None:
            now = min(now, self._start + nanoseconds(behaviour.stuck_after_s))
        number = self._ticks_until(now)
        if self._last[0] != number:
            self._last = number, int(1e3 * max(0.0, self._counted(number)))
        return self._last[1]

    def _counted(self, number: int) -> float:
        """Joules that the counter shows at the tick of that number."""
        behaviour, reset_s = self.behaviour, self.behaviour.reset_at_s
        reset = None if reset_s is None else self._start + nanoseconds(reset_s)
        counted = self._since_start(number)
        if reset is None or self._shown_moment(number) < reset:
            return behaviour.counted_j + counted
        before = self._ticks_until(reset)
        lost_j = self._errors_j(before) + self.true_energy_j(self._start, reset)
        return counted - behaviour.gain * lost_j

    def _since_start(self, number: int) -> float:
        """Joules counted since the script began, by the tick of that number."""
        until = max(self._start, self._shown_moment(number))
        true_j = self.true_energy_j(self._start, until)
        return self.behaviour.gain * (true_j + self._errors_j(number))

    def _ticks_until(self, at_ns: int) -> int:
        """The number of the last tick."""
        number = (at_ns - self._start) // nanoseconds(self.behaviour.tick_s)
        if self.behaviour.tick_spread:
            number += self._tick_at(number + 1) <= at_ns
            number -= self._tick_at(number) > at_ns
        return number

    def _tick_at(self, number: int) -> int:
        regular = self._start + number * nanoseconds(self.behaviour.tick_s)
        if not self.behaviour.tick_spread or number <= 0:
            return regular
        if number not in self._ticks:
            spread_s = self.behaviour.tick_spread * self.behaviour.tick_s
            off_s = spread_s * self._random(number).uniform(-1, 1)
            self._ticks[number] = regular + nanoseconds(off_s)
        return self._ticks[number]

    def _random(self, number: int) -> random.Random:
        return random.Random(self.behaviour.seed * 1_000_003 + number)

    def _shown_moment(self, number: int) -> int:
        """As of when a tick shows the energy."""
        behaviour, lag_s = self.behaviour, self.behaviour.lag_s
        if behaviour.lag_spread_s:
            lag_s += behaviour.lag_spread_s * self._random(number + (1 << 40)).random()
        return self._tick_at(number) - nanoseconds(lag_s)

    def _errors_j(self, number: int) -> float:
        """What noise and a part of the time unseen have added to the counter by a tick."""
        if not self.behaviour.noise and self.behaviour.duty == 1:
            return 0.0
        while len(self._errors) <= number:
            self._errors.append(self._errors[-1] + self._error_j(len(self._errors)))
        return self._errors[max(0, number)]

    def _error_j(self, number: int) -> float:
        start, end = self._tick_at(number - 1), self._tick_at(number)
        true_j = self.true_energy_j(start, end)
        seen_until = start + round(self.behaviour.duty * (end - start))
        seen_j = self.true_energy_j(start, seen_until) / self.behaviour.duty
        return seen_j - true_j + seen_j * self.behaviour.noise * self._random(-number).gauss()

    def power_w(self) -> MaybeFloat:
        """The true power now."""
        if self.behaviour.power is PowerKind.NONE:
            return Absent(reason="this board reports no power")
        return self.shown_w(self._clock.now_ns())

    def shown_w(self, at_ns: int) -> float:
        """What the power reading shows at a moment."""
        if self.behaviour.refresh_s:
            refresh = nanoseconds(self.behaviour.refresh_s)
            at_ns = self._start + (at_ns - self._start) // refresh * refresh
        return self.behaviour.gain * self.power_at(at_ns)

    def telemetry(self, own_processes: frozenset[int]) -> Telemetry:
        """A cool, undisturbed board unless scripted otherwise."""
        del own_processes
        return Telemetry(
            at_ns=self._clock.now_ns(),
            temperature_c=self.behaviour.temperature_c,
            power_w=self.power_w(),
            sm_clock_mhz=1980.0,
            memory_clock_mhz=3201.0,
            event_reasons=self.behaviour.reasons,
            foreign_processes=self._foreign(),
            graphics_processes=self.behaviour.graphics,
            utilization_pct=self.behaviour.busy_pct,
        )

    def _foreign(self) -> MaybeInt:
        hidden = self.behaviour.hidden
        return self.behaviour.foreign if hidden is None else Absent(reason=hidden)

    def board(self) -> Board:
        """A board that says what it is."""
        return Board(
            name="Scripted board",
            uuid_sha256=sha256_hex(self.behaviour.name.encode()),
            architecture="scripted",
            compute_capability="0.0",
            memory_mib=self.behaviour.memory_mib,
            driver="0",
            nvml="0",
            energy_counter=self.behaviour.counter or Absent(reason="NVML: Not Supported"),
            power=self.behaviour.power,
            power_limit_w=self.behaviour.limit_w,
            power_limit_default_w=self.behaviour.limit_w,
            persistence=True,
            mig=False,
            ecc=True,
            virtualization=self.behaviour.virtualization,
        )

    def capabilities(self) -> Capabilities:
        """What a board offers that has nothing but the scripted readings."""
        seen, behaviour, power = self.telemetry(frozenset()), self.behaviour, self.power_w()
        unread = Absent(reason="not scripted")
        return Capabilities(
            energy_mj=0 if behaviour.counter else Absent(reason="NVML: Not Supported"),
            instant_w=power if behaviour.power is PowerKind.INSTANT else unread,
            average_w=power if behaviour.power is PowerKind.AVERAGE else unread,
            usage_w=power if behaviour.power is PowerKind.USAGE else unread,
            module_w=behaviour.module_w or unread,
            samples=unread,
            limit_w=behaviour.limit_w,
            limit_default_w=behaviour.limit_w,
            limit_lowest_w=unread,
            limit_highest_w=unread,
            sm_clock_mhz=seen.sm_clock_mhz,
            sm_clock_highest_mhz=unread,
            memory_clock_mhz=seen.memory_clock_mhz,
            temperature_c=seen.temperature_c,
            memory_temperature_c=unread,
            slowdown_c=unread,
            event_reasons=seen.event_reasons,
            ecc=True,
            mig=False,
            virtualization=behaviour.virtualization,
            persistence=True,
            compute_processes=self._foreign(),
            graphics_processes=behaviour.graphics,
            mps_processes=unread,
            memory_used_mib=behaviour.used_mib,
        )

    def close(self) -> None:
        """Nothing to let go of."""


class ScriptedTracer:
    """Writes the true power of a scripted board as a side sampler would have seen it."""

    def __init__(self, board: ScriptedBoard, clock: ScriptedClock, period_s: float = 0.05) -> None:
        self._board = board
        self._clock = clock
        self._period = nanoseconds(period_s)
        self._open: tuple[Path, int] | None = None

    def _reasons(self) -> str:
        return "+".join(self._board.behaviour.reasons) or "-"

    def start(self, file: Path) -> None:
        """Remember when."""
        self._open = file, self._clock.now_ns()

    def stop(self) -> RawTrace | Absent:
        """Write every sample since the start."""
        if self._open is None or not self._board.behaviour.trace:
            return Absent(reason="the side sampler died: killed")
        file, start = self._open
        end = self._clock.now_ns()
        lines = [
            f"{at},{self._board.shown_w(at):.3f},40,1980,3201,{self._reasons()}\n"
            for at in (*range(start, end, self._period), end)
        ]
        file.write_text(",".join(TRACE_COLUMNS) + "\n" + "".join(lines), encoding="ascii")
        return RawTrace(file, PowerKind.INSTANT, len(lines), 0)
