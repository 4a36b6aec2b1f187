"""A run has a folder of its own; an unfinished run of the same plan is found again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ecocompute_cube.engine.folders import FolderLock, new_run, prepare_output, unfinished_run
from ecocompute_cube.errors import OutputBusy, OutputError
from ecocompute_cube.model.journal import Fact, RunClosed, RunOpened
from ecocompute_cube.model.journal_file import JOURNAL_NAME

from ..model.facts import UTC, block_facts, run_opened, session_opened, write_journal


def put(output: Path, name: str, *facts: Fact) -> Path:
    folder = output / name
    folder.mkdir()
    write_journal(folder / JOURNAL_NAME, facts)
    return folder


def anything(opened: RunOpened, facts: tuple[Fact, ...]) -> bool:
    return opened.plan.name == "small" and facts[0] == opened


ALL = (run_opened(), session_opened(), *block_facts(0), *block_facts(1), *block_facts(2))
ENDED = RunClosed(reason="finished", detail="every block is complete")


def test_a_run_folder_is_named_by_time_and_plan_and_never_taken_twice(tmp_path: Path) -> None:
    first = new_run(tmp_path, "my plan/../x", UTC)
    second = new_run(tmp_path, "my plan/../x", UTC)
    assert first.name == "20260102T030405Z-my-plan-..-x"
    assert second.name == f"{first.name}-1"
    assert first.parent == second.parent == tmp_path


def test_the_name_of_a_new_run_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    def look(descriptor: int) -> None:
        assert os.path.samestat(os.fstat(descriptor), tmp_path.stat())
        synced.append([p.name for p in tmp_path.iterdir()])

    monkeypatch.setattr(os, "fsync", look)
    made = new_run(tmp_path, "p", UTC)
    assert synced == [[made.name]]


def test_a_hundred_runs_of_one_second_are_too_many(tmp_path: Path) -> None:
    for _ in range(100):
        new_run(tmp_path, "p", UTC)
    with pytest.raises(OutputError, match="hundred"):
        new_run(tmp_path, "p", UTC)


def test_the_latest_unfinished_run_is_gone_on_with(tmp_path: Path) -> None:
    put(tmp_path, "a", *ALL[:3])
    latest = put(tmp_path, "b", *ALL[:5])
    assert unfinished_run(tmp_path, anything) == latest


def test_a_finished_run_is_not_gone_on_with(tmp_path: Path) -> None:
    put(tmp_path, "a", *ALL[:3])
    put(tmp_path, "b", *ALL, RunClosed(reason="finished", detail=""))
    assert unfinished_run(tmp_path, anything) is None


@pytest.mark.parametrize("ending", [(), (RunClosed(reason="interrupted", detail=""),)])
def test_a_run_that_was_stopped_after_its_last_block_is_gone_on_with(
    tmp_path: Path, ending: tuple[Fact, ...]
) -> None:
    latest = put(tmp_path, "b", *ALL, *ending)
    assert unfinished_run(tmp_path, anything) == latest


def test_another_plans_run_is_not_gone_on_with(tmp_path: Path) -> None:
    put(tmp_path, "a", *ALL[:3])
    assert unfinished_run(tmp_path, lambda opened, _: opened.plan.name == "another") is None


def test_what_is_no_journal_is_passed_over(tmp_path: Path) -> None:
    good = put(tmp_path, "a", *ALL[:3])
    broken = put(tmp_path, "b", *ALL[:3]) / JOURNAL_NAME
    broken.write_bytes(broken.read_bytes().replace(b"small", b"smell", 1))
    torn = put(tmp_path, "c", *ALL[:1]) / JOURNAL_NAME
    torn.write_bytes(torn.read_bytes()[:50])
    (tmp_path / "d" / JOURNAL_NAME).mkdir(parents=True)
    put(tmp_path, "e", *ALL[1:3])
    foreign = put(tmp_path, "f", *ALL[:3]) / JOURNAL_NAME
    foreign.write_bytes(foreign.read_bytes().replace(b"smollm2-135m", b"from-tomorrow", 1))
    assert unfinished_run(tmp_path, anything) == good


def test_an_output_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    prepare_output(tmp_path / "a" / "b")
    prepare_output(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_file_in_the_way_is_an_output_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="not a folder") as caught:
        prepare_output(tmp_path / place)
    assert "--output_dir" in caught.value.fix


def test_a_folder_that_refuses_is_an_output_error() -> None:
    with pytest.raises(OutputError):
        prepare_output(Path("/proc/nowhere"))
    with pytest.raises(OutputError), FolderLock(Path("/proc")):
        pass


def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    with FolderLock(tmp_path), pytest.raises(OutputBusy) as caught, FolderLock(tmp_path):
        pass
    assert caught.value.exit_status == 7
    with FolderLock(tmp_path):
        pass


HOLD = """
import sys
from pathlib import Path
from ecocompute_cube.engine.folders import FolderLock
with FolderLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_free_again_when_its_holder_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(OutputBusy), FolderLock(tmp_path):
            pass
        holder.kill()
        holder.wait()
    with FolderLock(tmp_path):
        pass
