"""What every descriptor of the cube must hold to, as functions that say what is wrong.

Each takes what stands in the file and yields a sentence a fault. They exist because mlcube 0.0.9
takes almost anything in silence: a misspelt key, a folder mounted twice, a value for a secret.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, Final, TypeAlias

from docs import generate
from ecocompute_cube import __version__

Cube: TypeAlias = dict[str, Any]
CubeRule: TypeAlias = Callable[[Cube], Iterator[str]]
DockerRule: TypeAlias = Callable[[list[str]], Iterator[str]]

TASKS: Final = ["download", "measure", "report"]
SHARED: Final = (
    "--rm",
    "--init",
    "--ipc=host",
    "--user=${oc.env:ECO_USER,${eco.user}}",
)
#: Every key of the docker section that mlcube 0.0.9 knows and we use; another one ends its run.
DOCKER_KEYS: Final = {
    "image",
    "build_context",
    "build_file",
    "build_strategy",
    "build_args",
    "cpu_args",
    "gpu_args",
    "env_args",
}
_SECRET: Final = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|NETRC", re.IGNORECASE)


def parameters(cube: Cube, task: str) -> dict[str, Any]:
    sides = cube["tasks"][task]["parameters"]
    return {**sides["inputs"], **sides["outputs"]}


def arguments(cube: Cube, which: str) -> list[str]:
    """The words of cpu_args or gpu_args; ``$( )`` and ``${ }`` stay as they are, and whole."""
    text = str(cube["docker"][which]).replace("${eco.common}", cube["eco"]["common"])
    return [str(word) for word in re.findall(r"(?:\$\([^)]*\)|\$\{[^}]*\}|\S)+", text)]


# mlcube.yaml and mlcube.cpu.yaml


def the_tasks_are_download_measure_report(cube: Cube) -> Iterator[str]:
    if list(cube["tasks"]) != TASKS:
        yield f"the tasks are {list(cube['tasks'])}"


def no_task_has_an_entrypoint(cube: Cube) -> Iterator[str]:
    """Of one with one word mlcube drops every argument, of one with more the task's name."""
    for name, task in cube["tasks"].items():
        if set(task) != {"parameters"}:
            yield f"{name} has more than parameters: {sorted(task)}"


def every_parameter_has_type_default_and_opts(cube: Cube) -> Iterator[str]:
    for task in cube["tasks"]:
        for side, wanted in (("inputs", "ro"), ("outputs", "rw")):
            for name, each in cube["tasks"][task]["parameters"][side].items():
                if set(each) != {"type", "default", "opts"} or each["opts"] != wanted:
                    yield f"{task} {name} is not whole, or not {wanted}: {each}"
                elif (each["type"] == "directory") != each["default"].endswith("/"):
                    yield f"{task} {name} has a default of another type: {each}"
                elif each["type"] not in ("directory", "file"):
                    yield f"{task} {name} is a {each['type']}"


def every_parameter_has_a_folder_of_its_own(cube: Cube) -> Iterator[str]:
    """Two in one folder are one mount, and ``ro`` of one makes the other read-only too."""
    for task in cube["tasks"]:
        folders = [_folder(each) for each in parameters(cube, task).values()]
        for folder, times in Counter(folders).items():
            if times > 1 or folder in ("", "."):
                yield f"{task} mounts {folder or 'the workspace'} for {times} parameters"


def _folder(parameter: Cube) -> str:
    path = PurePosixPath(parameter["default"])
    return str(path.parent if parameter["type"] == "file" else path)


def every_parameter_is_an_option_of_its_command(cube: Cube) -> Iterator[str]:
    for task in cube["tasks"]:
        known = {
            option
            for action in generate.commands()[task]._actions
            for option in action.option_strings
        }
        for name in parameters(cube, task):
            if f"--{name}" not in known:
                yield f"ecocompute {task} has no --{name}"


def mlcube_knows_every_docker_key(cube: Cube) -> Iterator[str]:
    if lost := set(cube["docker"]) - DOCKER_KEYS:
        yield f"mlcube does not know {sorted(lost)}"


def containers_end_with_their_run_and_belong_to_the_caller(cube: Cube) -> Iterator[str]:
    for which in ("cpu_args", "gpu_args"):
        words = arguments(cube, which)
        for word in SHARED:
            if words.count(word) != 1:
                yield f"{which} has {word} {words.count(word)} times"
        if len([word for word in words if word.startswith("--label=ecocompute=")]) != 1:
            yield f"{which} has no label to find its containers by"
    if cube["eco"]["user"] != "$(id -u):$(id -g)":
        yield f"containers run as {cube['eco']['user']}"


def boards_are_asked_for_once(cube: Cube) -> Iterator[str]:
    asked = [word for word in arguments(cube, "gpu_args") if word.startswith("--gpus")]
    if len(asked) != 1 or not asked[0].startswith("--gpus="):
        yield f"gpu_args asks for boards with {asked}"
    if any(word.startswith("--gpus") for word in arguments(cube, "cpu_args")):
        yield "cpu_args asks for boards"


def the_network_is_left_to_the_command_line(cube: Cube) -> Iterator[str]:
    """Docker refuses ``--network=none`` beside another ``--network``."""
    for which in ("cpu_args", "gpu_args"):
        if any(re.match("--net(work)?$|--net(work)?=", word) for word in arguments(cube, which)):
            yield f"{which} names a network"


def secrets_are_forwarded_by_name(cube: Cube) -> Iterator[str]:
    """Mlcube prints its whole line when a task fails."""
    text = cube["docker"]["env_args"]
    if not isinstance(text, str):
        yield "env_args is no string: mlcube would write values into the line"
        return
    words = text.split()
    names = words[1::2]
    if words[::2] != ["-e"] * len(names):
        yield f"env_args is not a row of -e NAME: {text}"
    if "HF_TOKEN" not in names:
        yield "env_args does not forward HF_TOKEN"
    for name in names:
        if "=" in name and _SECRET.search(name):
            yield f"env_args holds the value of {name.partition('=')[0]}"


def the_image_has_this_version(cube: Cube) -> Iterator[str]:
    if cube["docker"]["image"] != f"ecocompute-cube:{__version__}":
        yield f"the image is {cube['docker']['image']}"
    if cube["singularity"]["image"] != f"ecocompute-cube-{__version__}.sif":
        yield f"the image for Singularity is {cube['singularity']['image']}"


CUBE_RULES: Final[tuple[CubeRule, ...]] = (
    the_tasks_are_download_measure_report,
    no_task_has_an_entrypoint,
    every_parameter_has_type_default_and_opts,
    every_parameter_has_a_folder_of_its_own,
    every_parameter_is_an_option_of_its_command,
    mlcube_knows_every_docker_key,
    containers_end_with_their_run_and_belong_to_the_caller,
    boards_are_asked_for_once,
    the_network_is_left_to_the_command_line,
    secrets_are_forwarded_by_name,
    the_image_has_this_version,
)


# container_config.yaml


def medperf_takes_every_run_argument(config: Cube) -> Iterator[str]:
    known = {"command", "entrypoint", "environment", "gpus", "shm_size"}
    for name, task in config["tasks"].items():
        if lost := set(task["run_args"]) - known:
            yield f"MedPerf refuses {sorted(lost)} of {name}"


def only_measure_asks_medperf_for_boards(config: Cube) -> Iterator[str]:
    asking = {
        name: t["run_args"]["gpus"]
        for name, t in config["tasks"].items()
        if "gpus" in t["run_args"]
    }
    if asking != {"measure": "all"}:
        yield f"boards are asked for by {asking}"


def medperf_mounts_what_the_command_names(config: Cube) -> Iterator[str]:
    for name, task in config["tasks"].items():
        mounts = {**task["input_volumes"], **task["output_volumes"]}
        told = [f"--{each}={volume['mount_path']}" for each, volume in mounts.items()]
        if task["run_args"]["command"] != [name, *told]:
            yield f"{name} is told {task['run_args']['command']}"
        for each, volume in mounts.items():
            if set(volume) != {"mount_path", "type"} or volume["type"] not in ("file", "directory"):
                yield f"{name} {each} is no volume: {volume}"


def medperf_runs_the_same_image(config: Cube) -> Iterator[str]:
    if config["container_type"] != "DockerImage":
        yield f"the container is a {config['container_type']}"
    if config["image"] != f"ecocompute-cube:{__version__}":
        yield f"the image is {config['image']}"


MEDPERF_RULES: Final[tuple[CubeRule, ...]] = (
    the_tasks_are_download_measure_report,
    medperf_takes_every_run_argument,
    only_measure_asks_medperf_for_boards,
    medperf_mounts_what_the_command_names,
    medperf_runs_the_same_image,
)


# Dockerfile


def instructions(text: str) -> list[str]:
    """A Dockerfile's instructions, a line each, without comments."""
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    return [" ".join(line.split()) for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines()]


def the_entrypoint_is_in_exec_form(dockerfile: list[str]) -> Iterator[str]:
    """A shell between would swallow signals and arguments."""
    found = [line for line in dockerfile if line.startswith("ENTRYPOINT")]
    if found != ['ENTRYPOINT ["/opt/venv/bin/ecocompute"]']:
        yield f"the entrypoint is {found}"


def a_builder_without_buildkit_takes_it(dockerfile: list[str]) -> Iterator[str]:
    for line in dockerfile:
        if "<<" in line or re.match(r"RUN --|COPY --(?!from=)|ADD", line):
            yield f"a plain builder does not take: {line}"


def no_secret_goes_in(dockerfile: list[str]) -> Iterator[str]:
    for line in dockerfile:
        if re.match(r"ARG |ENV ", line) and _SECRET.search(line):
            yield f"the image would hold: {line}"


def the_driver_gives_nvml_and_cuda(dockerfile: list[str]) -> Iterator[str]:
    words = " ".join(line for line in dockerfile if line.startswith("ENV ")).split()
    if "NVIDIA_DRIVER_CAPABILITIES=compute,utility" not in words:
        yield "NVML is left out by a base image that is not NVIDIA's"


def whatever_is_installed_has_a_hash(dockerfile: list[str]) -> Iterator[str]:
    installing = [line for line in dockerfile if re.search(r"\bpip3? .*install\b", line)]
    if not installing:
        yield "nothing is installed"
    for line in installing:
        hashed = "--require-hashes" in line and "--no-deps" in line
        if not hashed and "--no-index" not in line:
            yield f"nobody checks what this brings: {line}"


def nothing_runs_as_root(dockerfile: list[str]) -> Iterator[str]:
    """Without ``--user``, that is; with it, any user will do, and HOME and USER must hold."""
    users = [line.split()[1] for line in dockerfile if line.startswith("USER ")]
    if not users or users[-1].partition(":")[0] in ("root", "0"):
        yield f"the last USER is {users[-1:]}"
    words = " ".join(line for line in dockerfile if line.startswith("ENV ")).split()
    if not {"HOME", "USER"} <= {word.partition("=")[0] for word in words}:
        yield "HOME and USER are not set: a user without a passwd entry has none"


def its_version_is_this_one(dockerfile: list[str]) -> Iterator[str]:
    if f"ARG VERSION={__version__}" not in dockerfile:
        yield f"there is no ARG VERSION={__version__}"


DOCKER_RULES: Final[tuple[DockerRule, ...]] = (
    the_entrypoint_is_in_exec_form,
    a_builder_without_buildkit_takes_it,
    no_secret_goes_in,
    the_driver_gives_nvml_and_cuda,
    whatever_is_installed_has_a_hash,
    nothing_runs_as_root,
    its_version_is_this_one,
)
