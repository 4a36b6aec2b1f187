"""The order of things around a window: between two readings there is the work, and nothing else."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from ecocompute_cube.backends.fake import FakeBackend, FakeSession
from ecocompute_cube.device.scripted import ScriptedBoard, ScriptedClock
from ecocompute_cube.engine.orders import Load, Measure, Place, Score, Warm
from ecocompute_cube.engine.worker import ArmWorker
from ecocompute_cube.measure import builtin_text
from ecocompute_cube.model.journal import QualitySkipped, WindowMeasured
from ecocompute_cube.model.manifest import Manifest, Weights
from ecocompute_cube.model.plan import Arm, Plan
from ecocompute_cube.units import Second

from ..run.rig import COSTS, install_model, plan

PLACE = Place(session=0, group=0, block=0, position=0)


class Log(list[str]):
    """What was called, in order."""


class Clock(ScriptedClock):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def now_ns(self) -> int:
        self.log.append("now")
        return super().now_ns()

    def sleep(self, s: float) -> None:
        self.log.append("sleep")
        super().sleep(s)


class Board(ScriptedBoard):
    """Its own steps in scripted time are not of interest."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.log = clock.log

    def energy_mj(self) -> Any:  # noqa: ANN401 (as the board it is)
        return self._noted("energy", super().energy_mj)

    def telemetry(self, own_processes: frozenset[int]) -> Any:  # noqa: ANN401 (as the board it is)
        return self._noted("telemetry", lambda: ScriptedBoard.telemetry(self, own_processes))

    def _noted(self, word: str, step: Any) -> Any:  # noqa: ANN401 (any step)
        length = len(self.log)
        answer = step()
        self.log[length:] = [word]
        return answer


class Session(FakeSession):
    log: Log

    def generate(self, iteration: int, output_tokens: int) -> object:
        length = len(self.log)
        output = super().generate(iteration, output_tokens)
        self.log[length:] = ["generate" if not gc.isenabled() else "generate, collecting garbage"]
        return output

    def renew(self) -> None:
        self.log.append("renew")

    def sync(self) -> None:
        self.log.append("sync")

    def ledger(self, outputs: list[object]) -> Any:  # noqa: ANN401 (as the session it is)
        self.log.append("ledger")
        return super().ledger(outputs)


class Backend(FakeBackend):
    def __init__(self, board: Board) -> None:
        super().__init__(board.work, COSTS)
        self._board = board

    def load(self, arm: Arm, manifest: Manifest, folder: Path) -> Session:
        session = Session(arm, self._board.work, *COSTS[arm.precision])
        session.log = self._board.log
        return session


def loaded(asked: Plan, folder: Path, weights: Weights = Weights.RANDOM) -> tuple[ArmWorker, Log]:
    """A worker that has loaded and warmed the plan's first arm."""
    install_model(folder)
    home = folder / "random-smollm2-135m"
    manifest = Manifest.model_validate_json((home / "manifest.json").read_text())
    log = Log()
    board = Board(Clock(log))
    worker = ArmWorker(Backend(board), board, board._clock, "scripted", lambda clock: Second(0.0))
    worker.obey(
        Load(
            session=0,
            arm=asked.expanded()[0],
            manifest=manifest.model_copy(update={"weights": weights}),
            folder=str(home),
            protocol=asked.protocol,
            prompt_text=str(builtin_text()),
        )
    )
    worker.obey(Warm(place=PLACE, tick_s=0.1, own_processes=()))
    log.clear()
    return worker, log


def measured(worker: ArmWorker, least_s: float | None = None) -> WindowMeasured:
    window = worker.obey(Measure(place=PLACE, delay_s=0.03, least_s=least_s, own_processes=()))
    assert isinstance(window, WindowMeasured)
    return window


def window_of(log: Log) -> list[str]:
    """From the last reading before the work to the first one after it."""
    first = log.index("generate")
    last = len(log) - 1 - log[::-1].index("generate")
    opening = first - 1 - log[:first][::-1].index("energy")
    return log[opening : last + 1 + log[last + 1 :].index("energy") + 1]


def test_a_visit_begins_with_a_session_as_fresh_as_when_it_was_prepared(tmp_path: Path) -> None:
    worker, log = loaded(plan(), tmp_path)
    worker.obey(Warm(place=PLACE, tick_s=0.1, own_processes=()))
    first_pass = next(place for place, word in enumerate(log) if word.startswith("generate"))
    assert log.count("renew") == 1 and log.index("renew") < first_pass
    log.clear()
    measured(worker)
    assert "renew" not in log


def test_between_two_readings_lie_the_delay_and_ten_generations(tmp_path: Path) -> None:
    worker, log = loaded(plan(), tmp_path)
    assert measured(worker).iterations == 10
    work = ["sleep", "now", *["generate", "sync", "now"] * 10, "sync", "now"]
    assert window_of(log) == ["energy", "now", *work, "now", "energy"]


def test_a_precise_window_looks_at_the_clock_between_generations(tmp_path: Path) -> None:
    worker, log = loaded(plan(protocol={"mode": "precise"}), tmp_path)
    window = measured(worker, least_s=12.0)
    work = window_of(log)[2:-2]
    steps = [step for _ in range(window.iterations) for step in ("generate", "sync", "now")]
    assert work == ["sleep", "now", "now", *steps, "sync", "now"]
    assert (window.work.end_ns - window.work.start_ns) / 1e9 >= 12.0


def test_everything_else_is_before_or_after_the_readings(tmp_path: Path) -> None:
    worker, log = loaded(plan(), tmp_path)
    measured(worker)
    ledger = log.index("ledger")
    energies = [place for place, step in enumerate(log[:ledger]) if step == "energy"]
    telemetry = [place for place, step in enumerate(log) if step == "telemetry"]
    assert len(telemetry) == 3
    assert telemetry[0] < energies[0] and energies[-1] < telemetry[1] < ledger < telemetry[2]
    assert log.index("sync") < energies[0], "work from before is not waited for"


@pytest.mark.parametrize(
    ("text", "weights", "why"),
    [
        ("x", Weights.ORIGINAL, "too short"),
        ("a text of some length", Weights.RANDOM, "random weights"),
    ],
)
def test_a_perplexity_that_would_say_nothing_is_skipped_with_the_reason(
    tmp_path: Path, text: str, weights: Weights, why: str
) -> None:
    worker, _ = loaded(plan(), tmp_path, weights)
    file = tmp_path / "text.txt"
    file.write_text(text)
    fact = worker.obey(Score(text=str(file), name="text.txt", window_tokens=64, max_windows=1))
    assert isinstance(fact, QualitySkipped)
    assert why in fact.reason
