"""Calibration and profiles of a run that was broken off anywhere: it has them when it is done."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ecocompute_cube.backends.base import Profile
from ecocompute_cube.device.scripted import Behaviour
from ecocompute_cube.errors import ArmFailed, Interrupted
from ecocompute_cube.model.base import present
from ecocompute_cube.model.cost import Calibrated, Profiled
from ecocompute_cube.model.journal import Fact, Refused
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal
from ecocompute_cube.report.write import write_energy

from .rig import IDLE_W, Scene, plan
from .test_why import Told, backend

ASKED = plan(
    arms=["FP16", "FP16/loop"],
    workloads=[{"output_tokens": 100}],
    protocol={"mode": "precise", "iterations": 4, "blocks": 1, "warmup": {"min_passes": 1}},
)
LINES = 20  # of an undisturbed run
HEAD = 3  # run, session, calibration


def machine(folder: Path, session: type[Told] = Told) -> Scene:
    return Scene(folder, Behaviour(idle_w=IDLE_W), backend=backend(session))


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return machine(tmp_path_factory.mktemp("calm")).measure(ASKED)


def facts(run: Path) -> tuple[Fact, ...]:
    return read_journal(run / JOURNAL_NAME).records


def broken_off(scene: Scene, calm: Path, number: int) -> Path:
    """The run as a kill after so many lines leaves it."""
    run = scene.output / "20260102T030405Z-scripted"
    run.mkdir(parents=True)
    (run / "traces").symlink_to(calm / "traces")
    lines = (calm / JOURNAL_NAME).read_bytes().splitlines(keepends=True)
    (run / JOURNAL_NAME).write_bytes(b"".join(lines[:number]))
    return run


def assert_explained(run: Path) -> None:
    known = facts(run)
    assert [fact.session for fact in known if isinstance(fact, Calibrated)] == [0]
    profiles = Counter(fact.arm for fact in known if isinstance(fact, Profiled))
    assert len(profiles) == 2 and set(profiles.values()) == {1}
    assert all(present(arm.why) for arm in write_energy(run).arms)


def test_every_line_was_tried(calm: Path) -> None:
    assert len(facts(calm)) == LINES


@pytest.mark.parametrize("number", range(2, LINES))
def test_a_run_that_ended_after_any_line_is_explained_by_running_it_again(
    tmp_path: Path, calm: Path, number: int
) -> None:
    scene = machine(tmp_path)
    run = broken_off(scene, calm, number)
    assert scene.measure(ASKED) == run
    assert_explained(run)


def test_a_run_that_is_done_is_not_gone_on_with(tmp_path: Path, calm: Path) -> None:
    scene = machine(tmp_path)
    assert scene.measure(ASKED) != broken_off(scene, calm, LINES)


class Stopped(Told):
    """Ctrl-C while a profiler looks."""

    def profile(self) -> Profile:
        raise KeyboardInterrupt


def test_ctrl_c_during_a_profile_leaves_a_run_that_can_be_explained(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        machine(tmp_path, Stopped).measure(ASKED)
    run = machine(tmp_path).measure(ASKED)
    assert len(list(tmp_path.glob(f"results/*/{JOURNAL_NAME}"))) == 1
    assert_explained(run)


def test_an_arm_that_does_not_load_again_for_its_profile_is_not_refused(
    tmp_path: Path, calm: Path
) -> None:
    number = next(n for n, fact in enumerate(facts(calm)) if isinstance(fact, Profiled))
    failing = ArmFailed("out_of_memory", "Memory ran out.", "Free it.")
    scene = Scene(tmp_path, Behaviour(idle_w=IDLE_W), backend=backend(), failures={"FP16": failing})
    run = broken_off(scene, calm, number)
    assert scene.measure(ASKED) == run
    assert not [fact for fact in facts(run) if isinstance(fact, Refused)]
    assert {fact.arm for fact in facts(run) if isinstance(fact, Profiled)} == {
        arm.id for arm in ASKED.expanded()
    }


def test_where_no_block_is_left_nothing_is_calibrated(tmp_path: Path, calm: Path) -> None:
    scene = machine(tmp_path)
    before = len(facts(broken_off(scene, calm, LINES - 1)))
    run = scene.measure(ASKED)
    assert [fact.kind for fact in facts(run)[before:]] == ["resumed", "closed"]


def test_a_calibration_that_would_not_end_in_time_is_left_for_another_visit(
    tmp_path: Path,
) -> None:
    scene = machine(tmp_path)
    start = scene.clock.now_ns()
    scene.measure(ASKED, max_minutes=0.5)
    assert scene.clock.now_ns() - start < 40e9
    assert_explained(scene.measure(ASKED))
