"""A scripted board with known truth, in scripted time: what the tests measure."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, NamedTuple

from ecocompute_cube.device.base import RawTrace
from ecocompute_cube.model.base import Absent, MaybeFloat, sha256_hex
from ecocompute_cube.model.capabilities import Capabilities
from ecocompute_cube.model.journal import TRACE_COLUMNS, Board, PowerKind, Telemetry
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
    tick_s: float = 0.1
    call_s: float = 0.003
    lag_s: float = 0.0  #: the counter shows energy as of this long before its tick
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


class ScriptedBoard:
    """Power is ``idle_w`` but where ``work`` has put a load; energy is its exact integral."""

    def __init__(self, clock: ScriptedClock, behaviour: Behaviour | None = None) -> None:
        self._clock = clock
        self.behaviour = behaviour or Behaviour()
        self._start = clock.now_ns()
        self._edges: list[int] = []  #: load starts, then ends, alternating
        self._loads: list[float] = []
        self._extra: list[float] = [0.0]  #: joules above idle before each load, and after the last

    def work(self, duration_s: float, power_w: float) -> None:
        """Draw ``power_w`` for ``duration_s`` seconds of scripted time."""
        start = self._clock.now_ns()
        self._clock.sleep(duration_s)
        self._edges += [start, self._clock.now_ns()]
        self._loads.append(power_w)
        above_w = power_w - self.behaviour.idle_w
        self._extra.append(self._extra[-1] + above_w * seconds(self._edges[-1] - start))

    def power_at(self, at_ns: int) -> float:
        """The true power, in watts."""
        place = bisect.bisect_right(self._edges, at_ns)
        return self._loads[place // 2] if place % 2 else self.behaviour.idle_w

    def true_energy_j(self, start_ns: int, end_ns: int) -> float:
        """The true energy between two moments, in joules."""
        idle_j = self.behaviour.idle_w * seconds(end_ns - start_ns)
        return idle_j + self._extra_j(end_ns) - self._extra_j(start_ns)

    def _extra_j(self, until_ns: int) -> float:
        """Energy above idle from the beginning until a moment."""
        place = bisect.bisect_right(self._edges, until_ns)
        whole = self._extra[place // 2]
        if place % 2 == 0:
            return whole
        above_w = self._loads[place // 2] - self.behaviour.idle_w
        return whole + above_w * seconds(until_ns - self._edges[place - 1])

    def energy_mj(self) -> int | Absent:
        """The counter: true energy at the last tick, in whole millijoules."""
        if not self.behaviour.counter:
            return Absent(reason="NVML: Not Supported")
        silent = self.behaviour.silent_s
        if silent and silent[0] <= seconds(self._clock.now_ns() - self._start) < silent[1]:
            return Absent(reason="NVML: Unknown Error")
        self._clock.sleep(self.behaviour.call_s / 2)
        seen = self._shown()
        self._clock.sleep(self.behaviour.call_s / 2)
        return seen

    def _shown(self) -> int:
        now = self._clock.now_ns()
        stuck = self.behaviour.stuck_after_s
        if stuck is not None:
            now = min(now, self._start + nanoseconds(stuck))
        tick = nanoseconds(self.behaviour.tick_s)
        last = self._start + (now - self._start) // tick * tick - nanoseconds(self.behaviour.lag_s)
        from_ns = self._start
        if self.behaviour.reset_at_s is not None:
            reset = self._start + nanoseconds(self.behaviour.reset_at_s)
            from_ns = reset if last >= reset else from_ns
        return int(1e3 * self.true_energy_j(from_ns, max(from_ns, last)))

    def power_w(self) -> MaybeFloat:
        """The true power now."""
        if self.behaviour.power is PowerKind.NONE:
            return Absent(reason="this board reports no power")
        return self.power_at(self._clock.now_ns())

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
            foreign_processes=self.behaviour.foreign,
        )

    def board(self) -> Board:
        """A board that says what it is."""
        return Board(
            name="Scripted board",
            uuid_sha256=sha256_hex(b"scripted"),
            architecture="scripted",
            compute_capability="0.0",
            memory_mib=143_771,
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
            compute_processes=behaviour.foreign,
            graphics_processes=behaviour.graphics,
            mps_processes=unread,
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
            f"{at},{self._board.power_at(at):.3f},40,1980,3201,{self._reasons()}\n"
            for at in (*range(start, end, self._period), end)
        ]
        file.write_text(",".join(TRACE_COLUMNS) + "\n" + "".join(lines), encoding="ascii")
        return RawTrace(file, PowerKind.INSTANT, len(lines), 0)
