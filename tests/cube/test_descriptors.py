"""The descriptors of the cube, its image and its plans say what they must, and the same thing."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from ecocompute_cube.model.plan import Mode
from ecocompute_cube.model.plan_file import read_plan

from . import lint
from .lint import Cube, CubeRule, DockerRule

ROOT: Final = Path(__file__).parents[2]
CUBES: Final = ("mlcube.yaml", "mlcube.cpu.yaml")
MADE: Final = ("mlcube.cpu.yaml", "container_config.yaml")
CONFIG: Final = ROOT / "workspace" / "config"
PLANS: Final = sorted(CONFIG.glob("*.yaml"))


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def descriptor(name: str) -> Cube:
    data: Cube = yaml.safe_load(text_of(name))
    return data


def name_of(rule: Callable[..., object]) -> str:
    return rule.__name__


# mlcube.yaml and mlcube.cpu.yaml


@pytest.mark.parametrize("name", CUBES)
@pytest.mark.parametrize("rule", lint.CUBE_RULES, ids=name_of)
def test_in_a_descriptor(rule: CubeRule, name: str) -> None:
    assert [*rule(descriptor(name))] == []


DIRECTORY: Final = {"type": "directory", "default": "models/", "opts": "ro"}

#: A rule, where something is changed, and to what; None takes it out.
FAULTS: Final[list[tuple[CubeRule, str, Any]]] = [
    (lint.the_tasks_are_download_measure_report, "tasks/report", None),
    (lint.the_tasks_are_download_measure_report, "tasks/main", {}),
    (lint.no_task_has_an_entrypoint, "tasks/measure/entrypoint", "/opt/venv/bin/ecocompute"),
    (
        lint.every_parameter_has_type_default_and_opts,
        "tasks/measure/parameters/inputs/models_dir/opts",
        None,
    ),
    (
        lint.every_parameter_has_type_default_and_opts,
        "tasks/measure/parameters/outputs/output_dir/type",
        None,
    ),
    (
        lint.every_parameter_has_type_default_and_opts,
        "tasks/measure/parameters/outputs/output_dir/opts",
        "ro",
    ),
    (
        lint.every_parameter_has_type_default_and_opts,
        "tasks/report/parameters/inputs/results_dir/default",
        "results",
    ),
    (lint.every_parameter_has_a_folder_of_its_own, "tasks/measure/parameters/inputs/a", DIRECTORY),
    (
        lint.every_parameter_has_a_folder_of_its_own,
        "tasks/measure/parameters/inputs/parameters_file/default",
        "models/protocol.yaml",
    ),
    (
        lint.every_parameter_has_a_folder_of_its_own,
        "tasks/measure/parameters/inputs/parameters_file/default",
        "protocol.yaml",
    ),
    (
        lint.every_parameter_is_an_option_of_its_command,
        "tasks/report/parameters/inputs/models_dir",
        DIRECTORY,
    ),
    (lint.mlcube_knows_every_docker_key, "docker/shm_size", "1g"),
    (lint.mlcube_knows_every_docker_key, "docker/run_args", "--rm"),
    (lint.containers_end_with_their_run_and_belong_to_the_caller, "docker/cpu_args", "--rm"),
    (
        lint.containers_end_with_their_run_and_belong_to_the_caller,
        "eco/common",
        "--rm --init --ipc=host --user=${oc.env:ECO_USER,${eco.user}}",
    ),
    (lint.containers_end_with_their_run_and_belong_to_the_caller, "eco/user", "0:0"),
    (lint.boards_are_asked_for_once, "docker/gpu_args", "${eco.common}"),
    (lint.boards_are_asked_for_once, "docker/gpu_args", "${eco.common} --gpus=all --gpus=all"),
    (lint.boards_are_asked_for_once, "docker/gpu_args", "${eco.common} --gpus all"),
    (lint.boards_are_asked_for_once, "docker/cpu_args", "${eco.common} --gpus=all"),
    (lint.the_network_is_left_to_the_command_line, "eco/common", "--rm --network=host"),
    (lint.the_network_is_left_to_the_command_line, "docker/cpu_args", "--net host"),
    (lint.secrets_are_forwarded_by_name, "docker/env_args", {"HF_TOKEN": "hf_abc"}),
    (lint.secrets_are_forwarded_by_name, "docker/env_args", "-e HF_TOKEN -e HF_TOKEN=hf_abc"),
    (lint.secrets_are_forwarded_by_name, "docker/env_args", "-e HF_HUB_OFFLINE"),
    (lint.secrets_are_forwarded_by_name, "docker/env_args", "-e HF_TOKEN --env-file=secrets"),
    (lint.the_image_has_this_version, "docker/image", "ecocompute-cube:latest"),
    (lint.the_image_has_this_version, "docker/image", "ecocompute-cube"),
]


def changed(data: Cube, place: str, value: object) -> Cube:
    """A copy with something else in that place."""
    made = copy.deepcopy(data)
    *folders, last = place.split("/")
    node = made
    for folder in folders:
        node = node[folder]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return made


@pytest.mark.parametrize(("rule", "place", "value"), FAULTS)
def test_a_fault_in_a_descriptor_is_found(rule: CubeRule, place: str, value: object) -> None:
    assert [*rule(changed(descriptor("mlcube.yaml"), place, value))]


def test_every_rule_for_a_descriptor_has_a_fault_that_it_finds() -> None:
    assert {rule for rule, _, _ in FAULTS} == set(lint.CUBE_RULES)


@pytest.mark.parametrize("name", CUBES)
def test_every_file_that_a_task_takes_by_default_is_there(name: str) -> None:
    cube = descriptor(name)
    files = [
        each["default"]
        for task in lint.TASKS
        for each in lint.parameters(cube, task).values()
        if each["type"] == "file"
    ]
    assert len(files) == 2 and all((ROOT / "workspace" / file).is_file() for file in files)


# What is made from mlcube.yaml


def test_the_descriptor_without_a_gpu_differs_in_accelerator_and_plan_alone() -> None:
    cube = descriptor("mlcube.yaml")
    wanted = changed(cube, "platform/accelerator_count", 0)
    for task in ("download", "measure"):
        place = f"tasks/{task}/parameters/inputs/parameters_file/default"
        wanted = changed(wanted, place, "config/rehearsal.yaml")
    assert descriptor("mlcube.cpu.yaml") == wanted
    assert cube["platform"]["accelerator_count"] == 1


def test_the_plan_without_a_gpu_rehearses() -> None:
    assert read_plan(CONFIG / "rehearsal.yaml").protocol.mode is Mode.REHEARSAL


@pytest.mark.parametrize("rule", lint.MEDPERF_RULES, ids=name_of)
def test_for_medperf(rule: CubeRule) -> None:
    assert [*rule(descriptor("container_config.yaml"))] == []


MEDPERF_FAULTS: Final[list[tuple[CubeRule, str, Any]]] = [
    (lint.the_tasks_are_download_measure_report, "tasks/report", None),
    (lint.medperf_takes_every_run_argument, "tasks/measure/run_args/network", "none"),
    (lint.only_measure_asks_medperf_for_boards, "tasks/measure/run_args/gpus", None),
    (lint.only_measure_asks_medperf_for_boards, "tasks/report/run_args/gpus", "all"),
    (lint.medperf_mounts_what_the_command_names, "tasks/report/run_args/command", ["report"]),
    (
        lint.medperf_mounts_what_the_command_names,
        "tasks/report/input_volumes/results_dir/type",
        "dir",
    ),
    (lint.medperf_runs_the_same_image, "image", "ecocompute-cube:latest"),
    (lint.medperf_runs_the_same_image, "container_type", "docker"),
]


@pytest.mark.parametrize(("rule", "place", "value"), MEDPERF_FAULTS)
def test_a_fault_for_medperf_is_found(rule: CubeRule, place: str, value: object) -> None:
    assert [*rule(changed(descriptor("container_config.yaml"), place, value))]


def test_every_rule_for_medperf_has_a_fault_that_it_finds() -> None:
    assert {rule for rule, _, _ in MEDPERF_FAULTS} == set(lint.MEDPERF_RULES)


def test_medperf_mounts_what_mlcube_mounts_with_the_same_types() -> None:
    cube, config = descriptor("mlcube.yaml"), descriptor("container_config.yaml")
    for name, task in cube["tasks"].items():
        for side in ("inputs", "outputs"):
            volumes = config["tasks"][name][f"{side[:-1]}_volumes"]
            types = {each: volume["type"] for each, volume in volumes.items()}
            assert types == {e: p["type"] for e, p in task["parameters"][side].items()}


@pytest.mark.parametrize("name", MADE)
def test_a_made_descriptor_says_from_what_and_how(name: str) -> None:
    head = text_of(name).splitlines()[0]
    assert head.startswith("# ") and "mlcube.yaml" in head and "make schema" in head


def descriptors(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script that stands in this checkout."""
    script = folder / "scripts" / "descriptors.py"
    return subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of nothing but the descriptors and their script."""
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/descriptors.py", "mlcube.yaml", *MADE):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_nothing_has_drifted() -> None:
    ended = descriptors(ROOT, "--check")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("name", MADE)
def test_a_descriptor_that_drifted_is_named_and_made_anew(checkout: Path, name: str) -> None:
    (checkout / name).write_text("name: another\n")
    ended = descriptors(checkout, "--check")
    assert ended.returncode == 1
    assert ended.stderr == f"{name} is not what mlcube.yaml says: run make schema\n"
    assert (checkout / name).read_text() == "name: another\n"
    assert descriptors(checkout).returncode == 0
    assert (checkout / name).read_text() == text_of(name)


def test_a_descriptor_that_is_missing_is_named(checkout: Path) -> None:
    (checkout / "mlcube.cpu.yaml").unlink()
    ended = descriptors(checkout, "--check")
    assert ended.returncode == 1 and "mlcube.cpu.yaml" in ended.stderr


def test_a_change_of_the_source_shows_as_drift(checkout: Path) -> None:
    source = checkout / "mlcube.yaml"
    source.write_text(source.read_text().replace("ecocompute-cube:", "other-cube:"))
    ended = descriptors(checkout, "--check")
    assert ended.returncode == 1 and all(name in ended.stderr for name in MADE)


def test_a_source_of_another_shape_is_told(checkout: Path) -> None:
    source = checkout / "mlcube.yaml"
    source.write_text(source.read_text().replace("accelerator_count: 1", "accelerator_count: 2"))
    ended = descriptors(checkout)
    assert ended.returncode == 1
    assert "has 'accelerator_count: 1' 0 times, and 1 are expected" in ended.stderr


# Plans to start from


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.name)
def test_a_plan_to_start_from_is_valid_and_says_what_it_is_for(path: Path) -> None:
    assert read_plan(path).name == path.stem
    assert re.match(r"# \S", path.read_text(encoding="utf-8").splitlines()[0])


def test_the_plans_to_start_from_are_all_there() -> None:
    wanted = {"precise", "protocol", "quickstart", "rehearsal", "sweep"}
    assert {path.stem for path in PLANS} == wanted


# The image


@pytest.mark.parametrize("rule", lint.DOCKER_RULES, ids=name_of)
def test_in_the_dockerfile(rule: DockerRule) -> None:
    assert [*rule(lint.instructions(text_of("Dockerfile")))] == []


DOCKER_FAULTS: Final[list[tuple[DockerRule, str, str]]] = [
    (lint.the_entrypoint_is_in_exec_form, '["/opt/venv/bin/ecocompute"]', "ecocompute"),
    (lint.a_builder_without_buildkit_takes_it, "RUN apt-get", "RUN --mount=type=cache apt-get"),
    (lint.a_builder_without_buildkit_takes_it, "RUN apt-get update", "RUN <<E\napt-get update\nE"),
    (lint.no_secret_goes_in, "ARG TORCH=", "ARG HF_TOKEN=\nARG TORCH="),
    (lint.no_secret_goes_in, "HOME=/tmp", "HOME=/tmp HUB_PASSWORD=x"),
    (lint.the_driver_gives_nvml_and_cuda, "=compute,utility", "=compute"),
    (lint.whatever_is_installed_has_a_hash, "--require-hashes ", ""),
    (lint.nothing_runs_as_root, "USER 65534:65534", "USER 0:0"),
    (lint.nothing_runs_as_root, "USER 65534:65534", ""),
    (lint.nothing_runs_as_root, "HOME=/tmp", ""),
    (lint.its_version_is_this_one, "ARG VERSION=", "ARG VERSION=9"),
]


@pytest.mark.parametrize(("rule", "old", "new"), DOCKER_FAULTS)
def test_a_fault_in_the_dockerfile_is_found(rule: DockerRule, old: str, new: str) -> None:
    text = text_of("Dockerfile")
    assert old in text
    assert [*rule(lint.instructions(text.replace(old, new)))]


def test_every_rule_for_the_dockerfile_has_a_fault_that_it_finds() -> None:
    assert {rule for rule, _, _ in DOCKER_FAULTS} == set(lint.DOCKER_RULES)


@pytest.mark.parametrize(
    ("file", "pin"),
    [
        ("image-torch.txt", "torch==2.11.0"),
        ("measure.txt", "transformers==5.17.0"),
        ("measure.txt", "bitsandbytes==0.50.2"),
    ],
)
def test_the_image_holds_what_ran_on_the_boards(file: str, pin: str) -> None:
    pins = re.findall(r"^[a-z0-9-]+==\S+", text_of(f"requirements/{file}"), re.MULTILINE)
    assert pin in pins
    assert f"requirement {file}" in text_of("Dockerfile") or f"torch={file}" in text_of(
        "Dockerfile"
    )


@pytest.mark.parametrize("file", ["image-torch.txt", "measure.txt", "build.txt"])
def test_everything_in_the_image_is_pinned_with_a_hash(file: str) -> None:
    lines = text_of(f"requirements/{file}").replace("\\\n", " ").splitlines()
    entries = [line for line in lines if re.match(r"[a-zA-Z0-9]", line)]
    assert entries and all("==" in line and "--hash=sha256:" in line for line in entries)
