"""What the real ``mlcube`` makes of our descriptors: the exact docker line, and its own traps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .engine import IMAGE
from .stage import Played, Stage

pytestmark = pytest.mark.cube

SECRET = "hf_never_to_be_seen"  # noqa: S105 (it opens nothing)
CALLER = f"--user={os.getuid()}:{os.getgid()}"
ENVIRONMENT = [
    "-e",
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    *("-e", "CUDA_VISIBLE_DEVICES", "-e", "CUDA_DEVICE_ORDER"),
    *("-e", "HF_TOKEN", "-e", "HF_HUB_OFFLINE", "-e", "HF_ENDPOINT"),
    *("-e", "HTTP_PROXY", "-e", "HTTPS_PROXY", "-e", "NO_PROXY"),
    *("-e", "PIP_INDEX_URL", "-e", "PIP_EXTRA_INDEX_URL"),
]


@pytest.fixture
def stage(mlcube: Path, tmp_path: Path) -> Stage:
    return Stage(mlcube, tmp_path)


def line(
    *mounts: str,
    task: list[str],
    boards: str | None = "--gpus=all",
    network: str | None = None,
    label: str = "cube",
) -> list[str]:
    """The whole call of docker; mounts are ``HOST:MODE`` and numbered in their order."""
    volumes = [each.rpartition(":") for each in mounts]
    return [
        *("run", "--rm", "--init", "--ipc=host", CALLER, f"--label=ecocompute={label}"),
        *([boards] if boards else []),
        *([f"--network={network}"] if network else []),
        *ENVIRONMENT,
        *(
            word
            for number, (host, _, mode) in enumerate(volumes)
            for word in ("--volume", f"{host}:/mlcube_io{number}:{mode}")
        ),
        IMAGE,
        *task,
    ]


def measuring(plan: str = "protocol.yaml") -> list[str]:
    return [
        "measure",
        f"--parameters_file=/mlcube_io0/{plan}",
        "--models_dir=/mlcube_io1",
        "--output_dir=/mlcube_io2",
    ]


def folders(workspace: Path) -> list[str]:
    """What measure mounts."""
    return [f"{workspace}/config:ro", f"{workspace}/models:ro", f"{workspace}/results:rw"]


def only_run(played: Played) -> list[str]:
    assert played.status == 0, played.out
    (run,) = played.runs
    return run


def boards_of(run: list[str]) -> list[str]:
    return [word for word in run if word.startswith("--gpus")]


# The line


def test_measure_gets_every_board_once(stage: Stage) -> None:
    run = only_run(stage.run("measure"))
    assert run == line(*folders(stage.workspace), task=measuring())


def test_the_three_tasks_in_one_call_are_three_containers(stage: Stage) -> None:
    at = stage.workspace
    played = stage.run("download,measure,report", environment={"ECO_RUN": "42"})
    assert played.status == 0
    assert played.runs == [
        line(
            f"{at}/config:ro",
            f"{at}/hub_cache:ro",
            f"{at}/models:rw",
            label="42",
            task=[
                "download",
                "--parameters_file=/mlcube_io0/protocol.yaml",
                "--hub_cache=/mlcube_io1",
                "--models_dir=/mlcube_io2",
            ],
        ),
        line(*folders(at), label="42", task=measuring()),
        line(
            f"{at}/results:ro",
            f"{at}/report:rw",
            label="42",
            task=["report", "--results_dir=/mlcube_io0", "--report_dir=/mlcube_io1"],
        ),
    ]


@pytest.mark.parametrize(
    ("typed", "docker_gets"),
    [
        ("device=1", "--gpus=device=1"),
        ("'\"device=0,1\"'", '--gpus="device=0,1"'),  # docker wants the inner quotes
        ("2", "--gpus=2"),
    ],
)
def test_eco_gpus_chooses_the_boards(stage: Stage, typed: str, docker_gets: str) -> None:
    run = only_run(stage.run("measure", environment={"ECO_GPUS": typed}))
    assert boards_of(run) == [docker_gets]


def test_the_gpus_option_of_mlcube_would_ask_twice(stage: Stage) -> None:
    run = only_run(stage.run("measure", "--gpus=device=1"))
    assert boards_of(run) == ["--gpus=all", "--gpus=device=1"]


def test_measuring_without_a_network(stage: Stage) -> None:
    run = only_run(stage.run("measure", "--network=none"))
    assert run == line(*folders(stage.workspace), network="none", task=measuring())


def test_a_host_without_a_gpu_rehearses(stage: Stage) -> None:
    run = only_run(stage.run("measure", "--mlcube=mlcube.cpu.yaml"))
    assert run == line(*folders(stage.workspace), boards=None, task=measuring("rehearsal.yaml"))


# Values of the host's environment


def test_a_choice_by_cuda_visible_devices_is_handed_on_by_name(stage: Stage) -> None:
    played = stage.run("measure", environment={"CUDA_VISIBLE_DEVICES": "1"})
    assert only_run(played) == line(*folders(stage.workspace), task=measuring())
    assert "CUDA_VISIBLE_DEVICES=1\n" in played.environment


@pytest.mark.parametrize("status", [0, 4])
def test_a_token_is_handed_on_and_printed_nowhere(stage: Stage, status: int) -> None:
    played = stage.run("download", environment={"HF_TOKEN": SECRET}, status=status)
    assert played.status == status
    assert f"HF_TOKEN={SECRET}\n" in played.environment
    assert SECRET not in played.out
    assert not any(SECRET in word for call in played.calls for word in call)


def test_a_token_stays_unseen_when_mlcube_tells_all_it_does(stage: Stage) -> None:
    arguments = [
        "--log-level=debug",
        "run",
        "--task=download",
        "--",
        f"-Prunner.docker={stage.docker}",
    ]
    played = stage.call(arguments, {"HF_TOKEN": SECRET})
    assert only_run(played) and "mlcube_io0" in played.out
    assert SECRET not in played.out


# Places


def test_another_workspace_gets_the_plans_and_not_the_models(stage: Stage) -> None:
    (stage.workspace / "models" / "embedded").mkdir(parents=True)
    other = stage.folder / "elsewhere"
    run = only_run(stage.run("measure", f"--workspace={other}"))
    assert run == line(*folders(other), task=measuring())
    assert (other / "config" / "protocol.yaml").is_file()
    assert [*(other / "models").iterdir()] == []


def test_another_workspace_is_relative_to_where_mlcube_is_called(stage: Stage) -> None:
    run = only_run(stage.run("measure", "--workspace=../elsewhere"))
    assert run == line(*folders(stage.folder / "elsewhere"), task=measuring())


def test_models_that_lie_elsewhere(stage: Stage) -> None:
    models = stage.folder / "my-models"
    run = only_run(stage.run("measure", after=[f"models_dir={models}/"]))
    config, _, results = folders(stage.workspace)
    assert run == line(config, f"{models}:ro", results, task=measuring())


def test_another_plan_is_named_below_the_workspace(stage: Stage) -> None:
    run = only_run(stage.run("measure", after=["parameters_file=config/quickstart.yaml"]))
    assert run == line(*folders(stage.workspace), task=measuring("quickstart.yaml"))


def test_a_plan_that_lies_elsewhere_brings_its_folder(stage: Stage) -> None:
    plan = stage.folder / "plans" / "mine.yaml"
    plan.parent.mkdir()
    plan.write_text("name: mine\n")
    run = only_run(stage.run("measure", after=[f"parameters_file={plan}"]))
    _, *others = folders(stage.workspace)
    assert run == line(f"{plan.parent}:ro", *others, task=measuring("mine.yaml"))


def test_a_plan_that_is_not_there_is_passed_on_for_our_command_to_miss(stage: Stage) -> None:
    run = only_run(stage.run("measure", after=["parameters_file=plans/absent.yaml"]))
    assert "--parameters_file=/mlcube_io0/absent.yaml" in run
    assert [*(stage.workspace / "plans").iterdir()] == []


def test_folders_that_are_not_there_are_made(stage: Stage) -> None:
    only_run(stage.run("measure"))
    assert [*(stage.workspace / "models").iterdir()] == []
    assert [*(stage.workspace / "results").iterdir()] == []


# Status


@pytest.mark.parametrize("status", [2, 3, 5, 130, 137])
def test_the_status_of_the_container_is_that_of_mlcube(stage: Stage, status: int) -> None:
    assert stage.run("measure", status=status).status == status


def test_the_first_task_that_fails_is_the_last(stage: Stage) -> None:
    played = stage.run("download,measure,report", status=4)
    assert played.status == 4 and len(played.runs) == 1


# The image


def test_configure_builds_this_checkout_with_its_revision(stage: Stage) -> None:
    revision = commit(stage.cube)
    played = stage.call(["configure", f"-Pdocker.docker={stage.docker}"])
    assert played.status == 0
    build = ["build", "--build-arg", f"REVISION={revision}", "-t", IMAGE]
    assert played.calls == [[*build, "-f", f"{stage.cube}/Dockerfile", str(stage.cube)]]


def test_the_revision_is_the_cubes_own_wherever_mlcube_is_called(
    stage: Stage, tmp_path: Path
) -> None:
    revision = commit(stage.cube)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "other.txt").write_text("another history")
    assert commit(tmp_path / "elsewhere") != revision
    cube = [f"--mlcube={stage.cube}", f"-Pdocker.docker={stage.docker}"]
    played = stage.call(["configure", *cube], cwd=tmp_path / "elsewhere")
    assert f"REVISION={revision}" in played.calls[0]


def test_changes_that_are_not_committed_show_in_the_revision(stage: Stage) -> None:
    revision = commit(stage.cube)
    with (stage.cube / "Dockerfile").open("a") as file:
        file.write("# changed\n")
    played = stage.call(["configure", f"-Pdocker.docker={stage.docker}"])
    assert f"REVISION={revision}-dirty" in played.calls[0]


def test_where_docker_itself_runs_as_the_caller_another_user_can_be_named(stage: Stage) -> None:
    (call,) = stage.run("measure", environment={"ECO_USER": "7:7"}).runs
    assert "--user=7:7" in call and CALLER not in call


def commit(folder: Path) -> str:
    def git(*arguments: str) -> str:
        who = ("-c", "user.name=A", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message=All of it")
    return git("rev-parse", "--short", "HEAD")


# Traps of mlcube 0.0.9. When one of these fails, the trap is gone, and our words on it are stale.


def test_trap_an_override_with_an_h_before_the_dashes_prints_help_and_does_nothing(
    stage: Stage,
) -> None:
    docker = f"-Prunner.docker={stage.docker}"
    played = stage.call(["run", "--task=measure", "-Pplatform.none=h", "--", docker])
    assert (played.status, played.calls) == (0, [])
    assert "Usage: mlcube run" in played.out


def test_the_same_override_after_the_dashes_is_obeyed(stage: Stage) -> None:
    run = only_run(stage.run("measure", after=["-Pdocker.image=somebody/cube:0.1"]))
    assert run[-5:] == ["somebody/cube:0.1", *measuring()]


@pytest.mark.parametrize("written", ["--models_dir=/elsewhere/", "model_dir=/elsewhere/"])
def test_trap_a_value_with_dashes_or_a_wrong_name_is_ignored(stage: Stage, written: str) -> None:
    run = only_run(stage.run("measure", after=[written]))
    assert run == line(*folders(stage.workspace), task=measuring())


def test_trap_a_space_in_a_path_tears_the_line_apart(stage: Stage) -> None:
    run = only_run(stage.run("measure", f"--workspace={stage.folder}/a b"))
    assert run[-7:-4] == [f"{stage.folder}/a", "b/results:/mlcube_io2:rw", IMAGE]


def test_trap_a_plan_is_not_looked_for_where_mlcube_is_called(stage: Stage) -> None:
    only_run(stage.run("measure", after=["parameters_file=workspace/config/quickstart.yaml"]))
    assert [*(stage.workspace / "workspace" / "config").iterdir()] == []
