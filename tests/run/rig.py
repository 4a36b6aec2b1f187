"""A whole measurement on a scripted board: scripted time, known truth, the real runner."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ecocompute_cube.backends.fake import FakeBackend
from ecocompute_cube.device.scripted import (
    Behaviour,
    ScriptedBoard,
    ScriptedClock,
    ScriptedTracer,
)
from ecocompute_cube.engine.executor import InProcess
from ecocompute_cube.engine.worker import ArmWorker
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.measure import Equipment, Request, measure
from ecocompute_cube.model.manifest import FORMAT, Manifest, ModelFile
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.units import Second

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecocompute_cube.backends.base import Ledger, Session
    from ecocompute_cube.model.plan import Arm

#: Seconds a token and watts while decoding, by precision: the truth the tests recover.
COSTS = {"FP16": (0.020, 200.0), "NF4": (0.022, 190.0), "INT8": (0.040, 180.0)}
IDLE_W = 80.0


def true_mj(precision: str) -> float:
    """Energy of one token on the scripted board, in mJ."""
    token_s, power_w = COSTS[precision]
    return 1e3 * token_s * power_w


def plan(**changes: object) -> Plan:
    """A quick plan over the scripted model; keys as in YAML."""
    data = {"name": "scripted", "models": ["random:smollm2-135m"], **changes}
    return Plan.model_validate_json(json.dumps(data))


def install_model(models: Path, reference: str = "random:smollm2-135m") -> None:
    """A model folder with a manifest and one tiny file: enough for a backend that loads nothing."""
    folder = models / reference.replace(":", "-")
    folder.mkdir(parents=True)
    (folder / "config.json").write_bytes(b"{}")
    file = ModelFile(
        path="config.json",
        bytes=2,
        sha256="44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    )
    manifest = Manifest.model_validate(
        {
            "format": FORMAT,
            "reference": reference,
            "name": "Scripted model",
            "weights": "random",
            "origin": "made by a test",
            "license": "none",
            "seed": 0,
            "architecture": "llama",
            "parameters": 134_515_008,
            "layers": 30,
            "hidden_size": 576,
            "vocab_size": 49_152,
            "max_context": 8192,
            "tokenizer": False,
            "files": (file,),
        },
        strict=False,
    )
    (folder / "manifest.json").write_text(manifest.model_dump_json())


class Faulty:
    """A session that fails at some of its arm's windows, counted from one over the whole scene."""

    def __init__(self, inner: Session, precision: str, scene: Scene) -> None:
        self._inner, self._precision, self._scene = inner, precision, scene

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def ledger(self, outputs: list[object]) -> Ledger:
        self._scene.windows[self._precision] += 1
        if (self._precision, self._scene.windows[self._precision]) in self._scene.fails_at:
            raise ArmFailed("scripted_failure", "The arm failed as scripted.", "Go on.")
        return self._inner.ledger(outputs)


class FaultyBackend(FakeBackend):
    """Sessions that fail where their scene says."""

    scene: Scene

    def load(self, arm: Arm, manifest: Manifest, folder: Path) -> Session:
        inner = super().load(arm, manifest, folder)
        return cast("Session", Faulty(inner, arm.precision, self.scene))


class Scene:
    """One scripted machine and its folders."""

    def __init__(
        self,
        folder: Path,
        behaviour: Behaviour | None = None,
        failures: dict[str, ArmFailed] | None = None,
        costs: dict[str, tuple[float, float]] | None = None,
        fails_at: set[tuple[str, int]] | None = None,
        spread: Callable[[], float] = lambda: 1.0,
        backend: type[FakeBackend] | None = None,
    ) -> None:
        self._backend = backend or FaultyBackend
        self._spread = spread
        self.fails_at = fails_at or set()
        self.windows: Counter[str] = Counter()
        self.models, self.output = folder / "models", folder / "results"
        self.clock = ScriptedClock()
        self.board = ScriptedBoard(self.clock, behaviour or Behaviour(idle_w=IDLE_W))
        self.lines: list[str] = []
        self._failures = failures or {}
        self._costs = costs or COSTS
        if not self.models.exists():
            install_model(self.models)

    def measure(
        self, asked: Plan, *, rehearse: bool = False, max_minutes: float | None = None
    ) -> Path:
        """Run the plan; the run's folder."""
        request = Request(asked, self.models, self.output, rehearse, max_minutes)
        return measure(request, self._equipment, self.lines.append)

    def _equipment(self, rehearse: bool, boards: int) -> Equipment:
        return Equipment(
            source=None if rehearse else self.board,
            executor=lambda folder: InProcess(lambda: self._worker(rehearse)),
            tracers=() if rehearse else (ScriptedTracer(self.board, self.clock),),
            clock=self.clock,
            memory_bytes=2**37,
        )

    def _worker(self, rehearse: bool) -> ArmWorker:
        backend = self._backend(self.board.work, self._costs, self._failures, self._spread)
        if isinstance(backend, FaultyBackend):
            backend.scene = self
        board = None if rehearse else self.board
        return ArmWorker(backend, board, self.clock, "scripted", pace=lambda _: Second(0.0))
