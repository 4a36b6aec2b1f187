"""How many blocks a limited visit begins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.journal import RunClosed
from ecocompute_cube.model.plan import Precision
from ecocompute_cube.report.run import read_run

from .rig import FaultyBackend, Scene, plan

if TYPE_CHECKING:
    from ecocompute_cube.backends.base import Session
    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm

LOAD_S: Final = 300.0


def ending(scene: Scene) -> str:
    """How a visit ends that has time to load both arms once, and four minutes besides."""
    asked = plan(
        arms=["FP16", "NF4"],
        workloads=[{"output_tokens": 16}],
        protocol={"mode": "precise", "iterations": 1, "blocks": 4},
    )
    run = scene.measure(asked, max_minutes=(2 * LOAD_S + 240) / 60)
    closed = read_run(run).journal.records[-1]
    assert isinstance(closed, RunClosed)
    return closed.reason


class SlowToLoad(FaultyBackend):
    """Minutes to load an arm, which then stays."""

    def load(self, arm: Arm, manifest: Manifest, folder: Path) -> Session:
        self.scene.clock.sleep(LOAD_S)
        return super().load(arm, manifest, folder)


def test_blocks_that_load_nothing_are_not_expected_to_last_as_long_as_the_first(
    tmp_path: Path,
) -> None:
    assert ending(Scene(tmp_path, backend=SlowToLoad)) == "finished"


class SlowToFail(SlowToLoad):
    """FP16 is refused, after as long."""

    def load(self, arm: Arm, manifest: Manifest, folder: Path) -> Session:
        session = super().load(arm, manifest, folder)
        if arm.precision is Precision.FP16:
            raise ArmFailed("out_of_memory", "Memory ran out.", "Free it.")
        return session


def test_an_arm_that_was_refused_is_not_expected_to_load_again(tmp_path: Path) -> None:
    assert ending(Scene(tmp_path, backend=SlowToFail)) == "finished"
