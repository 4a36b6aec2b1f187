"""The cube in a real Docker Engine: three tasks, their files, and everything that can go wrong.

They want the image built from this checkout, and ``mlcube`` in its environment: `make test-cube`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ecocompute_cube import __version__
from ecocompute_cube.device.lock import claim
from ecocompute_cube.model.base import present
from ecocompute_cube.model.journal import (
    Isolation,
    RunClosed,
    SessionOpened,
)
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal

from .engine import (
    IMAGE,
    LABEL,
    PLAIN,
    ROOT,
    Ended,
    containers,
    docker,
    ended_within,
    inspected,
    missing,
    run,
    start,
    until,
    volumes,
)

pytestmark = [pytest.mark.cube, pytest.mark.usefixtures("image")]

MOST_BYTES = 6_500_000_000
ANY_UID = "54321"
ONE_ARM = "name: one-arm\nmodels: [embedded]\narms: [FP16]\nprotocol: {mode: rehearsal}\n"


@pytest.fixture(scope="session")
def image() -> str:
    """The image built from this checkout."""
    if docker("info").status != 0:
        missing("No Docker Engine answers here.")
    if docker("image", "inspect", IMAGE).status != 0:
        missing(f"There is no image {IMAGE}: make image.")
    return IMAGE


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the descriptors and the plans: what `mlcube run` is given."""
    folder = tmp_path_factory.mktemp("cube")
    for name in ("mlcube.yaml", "mlcube.cpu.yaml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "workspace" / "config", folder / "workspace" / "config")
    (folder / "workspace" / "config" / "one-arm.yaml").write_text(ONE_ARM)
    return folder


@pytest.fixture(scope="module")
def tasks(cube: Path, mlcube: Path) -> dict[str, Ended]:
    """Download with a network, then measure and report without one."""
    network = {"download": "host", "measure": "none", "report": "none"}
    return {task: _mlcube(mlcube, cube, task, network[task]) for task in network}


def _mlcube(mlcube: Path, cube: Path, task: str, network: str = "none", *more: str) -> Ended:
    return run(*_command(mlcube, cube, task, network, *more), environment={"ECO_RUN": "tests"})


def _command(mlcube: Path, cube: Path, task: str, network: str, *more: str) -> list[str]:
    head = [str(mlcube), "run", f"--mlcube={cube / 'mlcube.cpu.yaml'}", f"--task={task}"]
    return [*head, f"--network={network}", "--", *more]


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    yield
    assert containers() == []


def _journals(cube: Path) -> list[Path]:
    return sorted((cube / "workspace" / "results").glob(f"*/{JOURNAL_NAME}"))


def _hashes(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_image_is_within_its_size_and_says_what_it_is() -> None:
    told = inspected()
    assert told["Size"] <= MOST_BYTES
    labels = told["Config"]["Labels"]
    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.revision"] == _revision(), "an old image: make image"
    assert not [entry for entry in told["Config"]["Env"] if "TOKEN" in entry]
    assert docker("run", *PLAIN, IMAGE, "--version").out == f"ecocompute {__version__}\n"


def _revision() -> str:
    asked = ("describe", "--always", "--dirty", "--exclude=*")
    return run("git", "-C", ROOT, *asked).out.strip()


def test_every_file_of_the_image_can_be_read_by_any_uid() -> None:
    find = ["--entrypoint=find", IMAGE, "/opt", "!", "-perm", "-o=r", "!", "-type", "l"]
    assert docker("run", *PLAIN, *find) == Ended(0, "")


def test_three_tasks_leave_their_files_and_they_belong_to_the_caller(
    cube: Path, tasks: dict[str, Ended]
) -> None:
    assert {task: ended.status for task, ended in tasks.items()} == dict.fromkeys(tasks, 0), tasks
    documents = sorted((cube / "workspace" / "results").glob("*/arms/*/energy.json"))
    assert len(documents) == 3
    for path in documents:
        document = json.loads(path.read_text())
        assert document["results"]["basis"] == "unavailable"
        assert document["results"]["tokens_generated"] == 32
        assert document["quality"]["value"] > 1
    pages = {path.name for path in (cube / "workspace" / "report").iterdir()}
    assert {"report.json", "report.html", "results.csv"} <= pages
    owners = {path.stat().st_uid for path in (cube / "workspace").rglob("*")}
    assert owners == {os.geteuid()}


def test_the_documents_agree_with_their_journal_outside_the_container(
    cube: Path, tasks: dict[str, Ended]
) -> None:
    command = [sys.executable, "-m", "ecocompute_cube.cli", "validate", "--json"]
    checked = run(*command, cube / "workspace" / "results")
    told = json.loads(checked.out)
    assert len(told["documents"]) == 3
    assert {document["verdict"] for document in told["documents"]} == {"schema-valid"}, told


def _isolation(journal: Path) -> Isolation:
    found = [r.isolation for r in read_journal(journal).records if isinstance(r, SessionOpened)]
    assert present(found[0])
    return found[0]


def test_the_journal_says_that_it_was_a_container(cube: Path, tasks: dict[str, Ended]) -> None:
    isolation = _isolation(_journals(cube)[0])
    assert isolation.container == "docker"
    assert isolation.host_ipc is True
    assert str(isolation.image).startswith(f"{__version__}+")


def test_measuring_and_reporting_again_overwrites_no_run(
    cube: Path, tasks: dict[str, Ended], mlcube: Path, tmp_path: Path
) -> None:
    results = Path(shutil.copytree(cube / "workspace" / "results", tmp_path / "results"))
    before = _hashes(results)
    plan = f"parameters_file={cube / 'workspace' / 'config' / 'one-arm.yaml'}"
    for _ in range(2):
        again = _mlcube(mlcube, cube, "measure", "none", plan, f"output_dir={results}/")
        assert again.status == 0, again.out
    assert before.items() <= _hashes(results).items()
    assert len(list(results.glob(f"*/{JOURNAL_NAME}"))) == 3
    pages = f"report_dir={tmp_path / 'report'}/"
    assert _mlcube(mlcube, cube, "report", "none", f"results_dir={results}/", pages).status == 0


def _workspace(folder: Path, cube: Path) -> Path:
    """A workspace for a plain ``docker run``, with the cube's model, writable by anybody."""
    workspace = folder / "workspace"
    (workspace / "config").mkdir(parents=True)
    shutil.copytree(cube / "workspace" / "models", workspace / "models", copy_function=os.link)
    (workspace / "config" / "protocol.yaml").write_text(ONE_ARM)
    (workspace / "results").mkdir(mode=0o777)
    (workspace / "results").chmod(0o777)
    return workspace


def test_a_plain_docker_run_works_for_a_uid_that_nobody_knows(
    tmp_path: Path, cube: Path, tasks: dict[str, Ended]
) -> None:
    workspace = _workspace(tmp_path, cube)
    done = docker("run", *PLAIN, f"--user={ANY_UID}", *volumes(workspace), IMAGE, "measure")
    assert done.status == 0, done.out
    owners = {path.stat().st_uid for path in (workspace / "results").rglob("*")}
    assert owners == {int(ANY_UID)}


def test_dockers_own_64_mib_of_shared_memory_are_enough_and_recorded(
    tmp_path: Path, cube: Path, tasks: dict[str, Ended]
) -> None:
    workspace = _workspace(tmp_path, cube)
    private = [flag for flag in PLAIN if flag != "--ipc=host"]
    done = docker("run", *private, f"--user={ANY_UID}", *volumes(workspace), IMAGE, "measure")
    assert done.status == 0, done.out
    journal = next((workspace / "results").glob(f"*/{JOURNAL_NAME}"))
    isolation = _isolation(journal)
    assert isolation.shm_mib == 64
    assert isolation.host_ipc is False


BAD_INPUT = {
    "a plan that is not there": ("measure", 2, "parameters_file={cube}/workspace/config/no.yaml"),
    "a plan that is a folder": ("measure", 2, "parameters_file={cube}/workspace/config"),
    "an empty models folder": ("measure", 4, "models_dir={tmp}/empty/"),
    "results of which there are none": ("report", 2, "results_dir={tmp}/empty/"),
}


@pytest.mark.parametrize(("task", "status", "override"), BAD_INPUT.values(), ids=list(BAD_INPUT))
def test_what_the_command_says_and_its_status_come_through_mlcube(
    task: str, status: int, override: str, cube: Path, mlcube: Path, tmp_path: Path
) -> None:
    told = _mlcube(mlcube, cube, task, "none", override.format(cube=cube, tmp=tmp_path))
    assert told.status == status, told.out
    assert "error: " in told.out
    assert "Traceback" not in told.out.partition("mlcube.shell")[0]


def test_an_engine_without_nvidias_toolkit_starts_nothing(
    cube: Path, tasks: dict[str, Ended], mlcube: Path
) -> None:
    before = _hashes(cube / "workspace" / "results")
    if "nvidia" in docker("info", "--format={{.Runtimes}}").out:
        pytest.skip("this engine has NVIDIA's runtime")
    task = ["run", f"--mlcube={cube / 'mlcube.yaml'}", "--task=measure", "--network=none"]
    told = run(mlcube, *task, environment={"ECO_RUN": "tests"})
    assert told.status == 125
    assert "could not select device driver" in told.out
    assert _hashes(cube / "workspace" / "results") == before


def test_an_engine_that_does_not_answer_ends_mlcube_with_an_error(cube: Path, mlcube: Path) -> None:
    nowhere = {"DOCKER_HOST": "unix:///nowhere.sock"}
    told = run(*_command(mlcube, cube, "measure", "none"), environment=nowhere)
    assert told.status != 0
    assert "Cannot connect to the Docker daemon" in told.out


def test_a_container_without_a_gpu_says_which_flag_was_forgotten(
    tmp_path: Path, cube: Path, tasks: dict[str, Ended]
) -> None:
    workspace = _workspace(tmp_path, cube)
    plan = ROOT / "workspace" / "config" / "protocol.yaml"
    shutil.copy(plan, workspace / "config" / "protocol.yaml")
    done = docker("run", *PLAIN, f"--user={ANY_UID}", *volumes(workspace), IMAGE, "measure")
    assert done.status == 3
    assert "--gpus=all" in done.out


def test_an_output_folder_that_cannot_be_written_is_said_before_any_work(
    tmp_path: Path, cube: Path, tasks: dict[str, Ended]
) -> None:
    workspace = _workspace(tmp_path, cube)
    (workspace / "results").chmod(0o755)
    user = f"--user={ANY_UID}"
    readonly = [f"--volume={workspace}:/workspace:ro", IMAGE, "measure"]
    for arguments in ([*volumes(workspace), IMAGE, "measure"], readonly):
        done = docker("run", *PLAIN, user, *arguments)
        assert done.status == 7, done.out
        assert list((workspace / "results").iterdir()) == []


def test_a_lock_taken_in_one_container_is_seen_by_the_host() -> None:
    uuid = f"GPU-of-the-tests-{os.getpid()}"
    hold = (
        "import sys; from pathlib import Path; from ecocompute_cube.device.lock import claim; "
        f"held = claim({uuid!r}, Path('/')); print('held', flush=True); sys.stdin.read()"
    )
    python = ["--entrypoint=python", IMAGE, "-c", hold]
    holder = subprocess.Popen(
        ["docker", "run", "--interactive", f"--user={ANY_UID}", *PLAIN, *python],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert holder.stdin is not None and holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert claim(uuid, Path("/")) is None
    holder.stdin.close()
    assert holder.wait(timeout=30) == 0
    holder.stdout.close()
    mine = claim(uuid, Path("/"))
    assert mine is not None and mine.trouble is None
    mine.close()


@pytest.mark.parametrize("init", [True, False], ids=["with --init", "as process 1"])
def test_sigterm_ends_a_run_within_five_seconds_and_keeps_its_journal(
    init: bool, tmp_path: Path, cube: Path, tasks: dict[str, Ended]
) -> None:
    workspace = _workspace(tmp_path, cube)
    flags = [flag for flag in PLAIN if init or flag != "--init"]
    measuring = start(
        "docker", "run", *flags, f"--user={ANY_UID}", *volumes(workspace), IMAGE, "measure"
    )
    _until_block(workspace / "results")
    docker("kill", "--signal=TERM", *containers())
    ended = ended_within(measuring, 5)
    assert ended.status == 130, ended.out
    _assert_stopped(workspace / "results")


def _until_block(results: Path) -> None:
    """Wait until the first block is open."""
    journals = f"*/{JOURNAL_NAME}"
    until(lambda: any("block_opened" in path.read_text() for path in results.glob(journals)))


def _assert_stopped(results: Path) -> None:
    (journal,) = results.glob(f"*/{JOURNAL_NAME}")
    last = read_journal(journal).records[-1]
    assert isinstance(last, RunClosed) and last.reason == "interrupted"
    assert not [path for path in results.rglob("*") if path.name.endswith(".tmp")]


def test_sigterm_to_mlcubes_process_group_ends_the_container(
    tmp_path: Path, cube: Path, tasks: dict[str, Ended], mlcube: Path
) -> None:
    measuring = _start_measuring(tmp_path, cube, mlcube)
    start_of_the_end = time.monotonic()
    os.killpg(measuring.pid, signal.SIGTERM)
    ended_within(measuring, 5)
    until(lambda: not containers(), 5)
    assert time.monotonic() - start_of_the_end < 5
    _assert_stopped(tmp_path / "results")


def test_if_mlcube_alone_is_killed_the_label_finds_its_container(
    tmp_path: Path, cube: Path, tasks: dict[str, Ended], mlcube: Path
) -> None:
    measuring = _start_measuring(tmp_path, cube, mlcube)
    measuring.kill()
    assert len(containers()) == 1
    removed = run("sh", "-c", f"docker ps -aq --filter label={LABEL} | xargs -r docker rm -f")
    assert removed.status == 0
    assert containers() == []
    measuring.wait(timeout=5)
    (journal,) = (tmp_path / "results").glob(f"*/{JOURNAL_NAME}")
    assert read_journal(journal).records  # whole, though nobody closed it


def _start_measuring(tmp_path: Path, cube: Path, mlcube: Path) -> subprocess.Popen[str]:
    plan = f"parameters_file={cube / 'workspace' / 'config' / 'one-arm.yaml'}"
    output = f"output_dir={tmp_path / 'results'}/"
    command = _command(mlcube, cube, "measure", "none", plan, output)
    measuring = start("env", "ECO_RUN=tests", *command)
    _until_block(tmp_path / "results")
    return measuring
