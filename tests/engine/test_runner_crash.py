"""Whatever stops a run, at whatever fact: nothing torn counts, and going on finishes the plan."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ecocompute_cube.backends.fake import FakeBackend
from ecocompute_cube.device.scripted import (
    Behaviour,
    ScriptedBoard,
    ScriptedClock,
    ScriptedTracer,
)
from ecocompute_cube.engine.executor import InProcess
from ecocompute_cube.engine.progress import finished, progress
from ecocompute_cube.engine.runner import Rig, Runner
from ecocompute_cube.engine.worker import ArmWorker
from ecocompute_cube.errors import DiskFull, Interrupted
from ecocompute_cube.measure import builtin_text, utc_now
from ecocompute_cube.model.journal import (
    BlockClosed,
    Fact,
    RunClosed,
    RunOpened,
    SessionOpened,
    WindowMeasured,
)
from ecocompute_cube.model.journal_file import JOURNAL_NAME, JournalWriter, read_journal
from ecocompute_cube.report.build import build_report
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.write import write_energy
from ecocompute_cube.units import Second

from ..run.rig import COSTS, Scene, plan

ASKED = plan(
    arms=["FP16", "NF4"],
    workloads=[{"output_tokens": 16}],
    protocol={
        "mode": "precise",
        "iterations": 1,
        "blocks": 2,
        "warmup": {"min_passes": 1, "max_passes": 1, "output_tokens": 2},
    },
)
QUICK = Behaviour(counter=False)  # without a counter nothing waits for its ticks
MOST = 23  # facts of an undisturbed run
Sync = Callable[[int], None]


class Killed(BaseException):
    """The process is gone: nobody may catch this."""


def killed(descriptor: int) -> None:
    raise Killed


def interrupted(descriptor: int) -> None:
    raise KeyboardInterrupt


def no_room(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def lost_power(descriptor: int) -> None:
    os.ftruncate(descriptor, os.fstat(descriptor).st_size - 9)
    raise Killed


STOPS: dict[str, tuple[Sync, type[BaseException]]] = {
    "killed": (killed, Killed),
    "killed with a torn line": (lost_power, Killed),
    "out of room": (no_room, DiskFull),
}


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run."""
    return Scene(tmp_path_factory.mktemp("calm"), QUICK).measure(ASKED)


@pytest.fixture(scope="module")
def facts(calm: Path) -> tuple[Fact, ...]:
    return read_journal(calm / JOURNAL_NAME).records


def at(number: int, stop: Sync) -> Sync:
    calls = itertools.count()

    def sync(descriptor: int) -> None:
        if next(calls) == number:
            stop(descriptor)

    return sync


def start(scene: Scene, facts: tuple[Fact, ...], sync: Sync) -> None:
    """What ``measure`` does for a new run, with a hand on the journal's syncs."""
    run, session = facts[:2]
    assert isinstance(run, RunOpened) and isinstance(session, SessionOpened)
    folder = scene.output / "20260102T030405Z-scripted"
    folder.mkdir(parents=True)
    models = scene.models / "random-smollm2-135m"
    with JournalWriter.create(folder / JOURNAL_NAME, utc_now, sync) as journal:
        journal.append(run)
        journal.append(session)
        rig = Rig(
            executor=InProcess(lambda: _worker(scene)),
            tracers=(ScriptedTracer(scene.board, scene.clock),),
            clock=scene.clock,
            say=scene.lines.append,
            folder=folder,
            models={"random:smollm2-135m": (run.models[0], models)},
            prompt_text=builtin_text(),
            quality_text=builtin_text(),
            quality_name="builtin",
        )
        Runner(ASKED, rig, journal, session, progress(facts[:2])).run(1.0, None)


def _worker(scene: Scene) -> ArmWorker:
    backend = FakeBackend(scene.board.work, COSTS)
    return ArmWorker(backend, scene.board, scene.clock, "scripted", pace=lambda _: Second(0.0))


def assert_finished_exactly(run: Path) -> None:
    """As many complete blocks as planned, each arm measured once in each, nothing torn counted."""
    journal = read_journal(run / JOURNAL_NAME)
    done = progress(journal.records)
    assert journal.torn == b""
    assert finished(ASKED, done)
    assert len(done.complete) == ASKED.protocol.blocks
    windows = Counter(
        (f.block, f.arm)
        for f in journal.records
        if isinstance(f, WindowMeasured) and (f.session, f.group, f.block) in done.complete
    )
    assert len(windows) == 2 * ASKED.protocol.blocks and set(windows.values()) == {1}
    report = build_report(read_run(run))
    assert [(arm.blocks, arm.windows) for arm in report.arms] == [(2, 2), (2, 2)]


def kinds(journal: Path) -> list[str]:
    return [fact.kind for fact in read_journal(journal).records]


def go_on(scene: Scene) -> Path:
    """Run the plan again, if anything is left of it: a block, or its end."""
    (run,) = scene.output.glob("*/")
    ends = [f for f in read_journal(run / JOURNAL_NAME).records if isinstance(f, RunClosed)]
    if "finished" not in {end.reason for end in ends}:
        assert scene.measure(ASKED) == run
    assert kinds(run / JOURNAL_NAME)[-1] == "closed"
    return run


@pytest.mark.parametrize("number", range(MOST))
def test_a_run_interrupted_at_any_fact_is_finished_by_running_it_again(
    tmp_path: Path, facts: tuple[Fact, ...], number: int
) -> None:
    scene = Scene(tmp_path, QUICK)
    # The first two facts are written before the runner is there to name what happened.
    with pytest.raises(Interrupted if number > 1 else KeyboardInterrupt):
        start(scene, facts, at(number, interrupted))
    (run,) = scene.output.glob("*/")
    *before, _ = kinds(run / JOURNAL_NAME)[: number + 2]
    assert before == [fact.kind for fact in facts][: len(before)]
    assert_finished_exactly(go_on(scene))


@pytest.mark.parametrize("number", range(MOST))
@pytest.mark.parametrize("how", ["killed", "killed with a torn line", "out of room"])
def test_a_run_that_ends_at_any_fact_leaves_the_facts_before_it(
    tmp_path: Path, facts: tuple[Fact, ...], how: str, number: int
) -> None:
    stop, raised = STOPS[how]
    scene = Scene(tmp_path, QUICK)
    with pytest.raises(raised):
        start(scene, facts, at(number, stop))
    (run,) = scene.output.glob("*/")
    whole = number + (how != "killed with a torn line")
    if whole:
        assert kinds(run / JOURNAL_NAME) == [fact.kind for fact in facts][:whole]
        assert bool(read_journal(run / JOURNAL_NAME).torn) == ("torn" in how)


@pytest.mark.parametrize("number", range(1, MOST))
def test_a_run_that_ended_at_any_fact_is_finished_by_running_it_again(
    tmp_path: Path, calm: Path, number: int
) -> None:
    scene = Scene(tmp_path, QUICK)
    lines = (calm / JOURNAL_NAME).read_bytes().splitlines(keepends=True)
    run = scene.output / "20260102T030405Z-scripted"
    shutil.copytree(calm / "traces", run / "traces")
    (run / JOURNAL_NAME).write_bytes(b"".join(lines[:number]) + lines[number][:-9])
    assert go_on(scene) == run
    assert_finished_exactly(run)


def test_a_run_without_one_whole_fact_is_left_alone(tmp_path: Path, calm: Path) -> None:
    scene = Scene(tmp_path, QUICK)
    torn = scene.output / "20260102T030405Z-scripted"
    torn.mkdir(parents=True)
    (torn / JOURNAL_NAME).write_bytes((calm / JOURNAL_NAME).read_bytes()[:99])
    run = scene.measure(ASKED)
    assert run != torn
    assert (torn / JOURNAL_NAME).stat().st_size == 99
    assert_finished_exactly(run)


def test_an_interrupted_block_is_closed_as_such(tmp_path: Path, facts: tuple[Fact, ...]) -> None:
    scene = Scene(tmp_path, QUICK)
    number = next(n for n, fact in enumerate(facts) if isinstance(fact, WindowMeasured))
    with pytest.raises(Interrupted) as caught:
        start(scene, facts, at(number, interrupted))
    assert caught.value.exit_status == 130
    (run,) = scene.output.glob("*/")
    *_, block, end = read_journal(run / JOURNAL_NAME).records
    assert isinstance(block, BlockClosed) and not block.complete
    assert end.kind == "closed" and end.reason == "interrupted"


def test_every_fact_was_tried(facts: tuple[Fact, ...]) -> None:
    assert len(facts) == MOST


class Alarm(ScriptedClock):
    """Ctrl-C at the n-th wait."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._left = number

    def sleep(self, s: float) -> None:
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt
        super().sleep(s)


@pytest.mark.parametrize("number", range(1, 16, 2))
def test_ctrl_c_at_any_wait_leaves_a_run_that_can_be_finished(tmp_path: Path, number: int) -> None:
    scene = Scene(tmp_path, QUICK)
    scene.clock = Alarm(number)
    scene.board = ScriptedBoard(scene.clock, QUICK)
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        scene.measure(ASKED)
    assert_finished_exactly(go_on(Scene(tmp_path, QUICK)))


def test_a_rerun_of_a_finished_plan_is_a_run_of_its_own(tmp_path: Path) -> None:
    scene = Scene(tmp_path, QUICK)
    assert scene.measure(ASKED) != scene.measure(ASKED)


@pytest.mark.parametrize("number", range(1, 13))
def test_a_run_that_ended_after_any_fact_has_a_report(
    tmp_path: Path, calm: Path, number: int
) -> None:
    lines = (calm / JOURNAL_NAME).read_bytes().splitlines(keepends=True)
    (tmp_path / JOURNAL_NAME).write_bytes(b"".join(lines[: number + 1]))
    report = write_energy(tmp_path)
    complete = "block_closed" in kinds(tmp_path / JOURNAL_NAME)
    assert {arm.blocks for arm in report.arms} == {int(complete)} or not complete
    assert len(list(tmp_path.glob("arms/*/energy.json"))) == 2
