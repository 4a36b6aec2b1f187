"""What is told of a scored text is what was really done."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecocompute_cube.backends.fake import FakeBackend
from ecocompute_cube.device.scripted import ScriptedBoard, ScriptedClock
from ecocompute_cube.engine.orders import Load, Score
from ecocompute_cube.engine.worker import ArmWorker
from ecocompute_cube.measure import builtin_text
from ecocompute_cube.model.journal import QualityScored
from ecocompute_cube.model.manifest import Manifest, Weights

from ..run.rig import COSTS, install_model, plan


def scored(folder: Path, asked_tokens: int, max_context: int) -> QualityScored:
    install_model(folder)
    home = folder / "random-smollm2-135m"
    manifest = Manifest.model_validate_json((home / "manifest.json").read_text())
    known = {"weights": Weights.ORIGINAL, "max_context": max_context}
    board = ScriptedBoard(ScriptedClock())
    worker = ArmWorker(FakeBackend(board.work, COSTS), board, board._clock, "scripted")
    worker.obey(
        Load(
            session=0,
            arm=plan().expanded()[0],
            manifest=manifest.model_copy(update=known),
            folder=str(home),
            protocol=plan().protocol,
            prompt_text=str(builtin_text()),
        )
    )
    text = str(builtin_text())
    fact = worker.obey(Score(text=text, name="builtin", window_tokens=asked_tokens, max_windows=1))
    assert isinstance(fact, QualityScored)
    return fact


@pytest.mark.parametrize(("asked", "context", "used"), [(64, 8192, 64), (1024, 32, 32)])
def test_the_journal_holds_the_size_of_window_that_was_used(
    tmp_path: Path, asked: int, context: int, used: int
) -> None:
    assert scored(tmp_path, asked, context).window_tokens == used
