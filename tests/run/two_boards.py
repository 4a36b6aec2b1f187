"""A machine with two scripted boards, over which a model is split."""

from __future__ import annotations

from pathlib import Path

from ecocompute_cube.backends.fake import FakeBackend
from ecocompute_cube.device.scripted import Behaviour, ScriptedBoard, ScriptedTracer
from ecocompute_cube.engine.executor import InProcess
from ecocompute_cube.engine.worker import ArmWorker
from ecocompute_cube.measure import Equipment
from ecocompute_cube.units import Second

from .rig import COSTS, IDLE_W, Scene

SHARE = 0.75  # of the first board's power, that the second draws while both work
SECOND = Behaviour(idle_w=IDLE_W, name="second")
DEVICES = ("scripted:0", "scripted:1")


class TwoBoards(Scene):
    """A machine with two boards, whose ticks come at different moments."""

    def __init__(self, folder: Path, second: Behaviour = SECOND, **first: object) -> None:
        behaviour = Behaviour(**{"idle_w": IDLE_W, **first})  # type: ignore[arg-type]
        super().__init__(folder, behaviour)
        self.clock.sleep(0.037)
        self.second = ScriptedBoard(self.clock, second)

    def _equipment(self, rehearse: bool, boards: int) -> Equipment:
        assert boards == 2 and not rehearse
        both = (self.board, self.second)
        return Equipment(
            source=self.board,
            executor=lambda folder: InProcess(self._arm),
            tracers=tuple(ScriptedTracer(board, self.clock) for board in both),
            clock=self.clock,
            memory_bytes=2**37,
            others=(self.second,),
        )

    def _arm(self) -> ArmWorker:
        return ArmWorker(
            FakeBackend(self.work, COSTS, devices=DEVICES),
            self.board,
            self.clock,
            ",".join(DEVICES),
            pace=lambda _: Second(0.0),
            others=(self.second,),
        )

    def work(self, duration_s: float, power_w: float) -> None:
        start = self.clock.now_ns()
        self.clock.sleep(duration_s)
        self.board.drew(start, power_w)
        self.second.drew(start, SHARE * power_w)
