"""The workflow for a runner with a board: what may start it, and what its steps do when run."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
PATH: Final = ROOT / ".github" / "workflows" / "gpu.yml"

Step = dict[str, Any]


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    data: dict[Any, Any] = yaml.safe_load(PATH.read_text(encoding="utf-8"))
    return data


@pytest.fixture(scope="module")
def job(workflow: dict[Any, Any]) -> dict[str, Any]:
    (only,) = workflow["jobs"].values()
    assert isinstance(only, dict)
    return only


@pytest.fixture(scope="module")
def steps(job: dict[str, Any]) -> list[Step]:
    found: list[Step] = job["steps"]
    return found


def named(steps: list[Step], name: str) -> Step:
    (found,) = [step for step in steps if step.get("name") == name]
    return found


def place(steps: list[Step], words: str) -> int:
    """Which step's script holds these words."""
    (found,) = [number for number, step in enumerate(steps) if words in step.get("run", "")]
    return found


# What it is allowed


def test_no_pull_request_starts_it(workflow: dict[Any, Any]) -> None:
    triggers = workflow[True]  # YAML 1.1 reads `on` so
    assert set(triggers) <= {"workflow_dispatch", "schedule"}


def test_it_may_read_the_sources_and_nothing_else(workflow: dict[Any, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}


def test_one_run_at_a_time_has_the_runner_and_not_for_ever(job: dict[str, Any]) -> None:
    label = job["runs-on"][-1]
    assert job["concurrency"]["group"] == f"gpu-{label}"
    assert job["concurrency"]["cancel-in-progress"] is False
    assert 0 < job["timeout-minutes"] <= 360


def test_every_action_has_a_whole_version(steps: list[Step]) -> None:
    used = [step["uses"] for step in steps if "uses" in step]
    assert used and all(re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", each) for each in used)
    assert steps[0]["with"] == {"persist-credentials": False}


def test_nothing_that_was_typed_becomes_part_of_a_script(steps: list[Step]) -> None:
    assert [step["name"] for step in steps if "${{" in step.get("run", "")] == []


def test_the_token_is_seen_by_the_download_alone(workflow: dict[Any, Any]) -> None:
    text = PATH.read_text(encoding="utf-8")
    (only,) = workflow["jobs"].values()
    assert text.count("secrets.") == 1
    assert "HF_TOKEN" in named(only["steps"], "Download")["env"]


# In what order


def test_the_board_is_looked_at_right_before_it_is_measured(steps: list[Step]) -> None:
    assert place(steps, "gpu_idle.sh") + 1 == place(steps, "--task=measure")


def test_tasks_run_in_their_order_and_the_last_two_without_a_network(steps: list[Step]) -> None:
    places = [place(steps, f"--task={task}") for task in ("download", "measure", "report")]
    assert places == sorted(places)
    assert ["--network=none" in steps[each]["run"] for each in places] == [False, True, True]


def test_options_of_mlcube_stand_before_the_dashes_and_values_after(steps: list[Step]) -> None:
    for step in steps:
        if "mlcube run" in step.get("run", ""):
            head, _, values = step["run"].partition(" -- ")
            assert "=$" not in head and "--" not in values and "-P" not in step["run"]


def test_cleaning_up_and_keeping_happen_whatever_went_wrong(steps: list[Step]) -> None:
    after = steps[place(steps, "docker rm") :]
    assert all(step["if"] == "always()" for step in after)
    assert any(step.get("uses", "").startswith("actions/upload-artifact@") for step in after)


# What its steps do, run here as the runner runs them


def play(step: Step, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a step's script in a folder, with the programs of its bin folder first."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    plan = tmp_path / "workspace" / "config" / "protocol.yaml"
    plan.parent.mkdir(parents=True)
    plan.touch()
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(folder: Path, name: str, script: str) -> None:
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_scripts_run_in_bash_with_pipefail(job: dict[str, Any]) -> None:
    assert job["defaults"]["run"]["shell"] == "bash"  # which the runner starts as `play` does


ASKED: Final = {"PLAN": "config/protocol.yaml", "ECO_GPUS": "all", "MODELS": "models"}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"ECO_GPUS": "device=1", "MODELS": "/data/eco-models"}, 0),
        ({"PLAN": "config/absent.yaml"}, 2),
        ({"PLAN": "config/protocol.yaml; curl evil"}, 2),
        ({"ECO_GPUS": "$(id)"}, 2),
        ({"MODELS": "a b"}, 2),
    ],
)
def test_what_mlcube_would_hand_to_a_shell_is_checked(
    steps: list[Step], checkout: Path, changes: dict[str, str], status: int
) -> None:
    step = named(steps, "Check what was asked for")
    assert play(step, checkout, **ASKED | changes).returncode == status


WRITTEN: Final = (
    "results/20261130T120000Z-protocol/journal.jsonl",
    "results/20261130T120000Z-protocol/arms/embedded_b1-p10-o256_FP16_eager/energy.json",
    "report/report.html",
    "report/results.csv",
)


@pytest.mark.parametrize("missing", [None, *WRITTEN])
def test_a_run_that_left_no_files_is_red(
    steps: list[Step], checkout: Path, missing: str | None
) -> None:
    for name in set(WRITTEN) - {missing}:
        path = checkout / "workspace" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    ended = play(named(steps, "Look for the files"), checkout)
    assert ended.returncode == (missing is not None)
    assert ("There is no workspace/" in ended.stdout) == (missing is not None)


def test_only_this_runs_containers_are_removed(steps: list[Step], checkout: Path) -> None:
    program(checkout, "docker", 'echo "$*" >>calls; [ "$1" != ps ] || echo "c1\nc2"')
    step = named(steps, "Remove this run's containers")
    assert play(step, checkout, ECO_RUN="42").returncode == 0
    assert (checkout / "calls").read_text().splitlines() == [
        "ps -q --filter label=ecocompute=42",
        "stop -t 10 c1 c2",
        "ps -aq --filter label=ecocompute=42",
        "rm -f c1 c2",
    ]


def test_where_no_container_is_left_nothing_is_removed(steps: list[Step], checkout: Path) -> None:
    program(checkout, "docker", 'echo "$1" >>calls')
    step = named(steps, "Remove this run's containers")
    assert play(step, checkout, ECO_RUN="42").returncode == 0
    assert (checkout / "calls").read_text().splitlines() == ["ps", "ps"]


def test_a_container_that_ends_while_it_is_stopped_is_no_fault(
    steps: list[Step], checkout: Path
) -> None:
    program(checkout, "docker", 'case "$*" in "ps -q"*) echo c1 ;; stop*) exit 1 ;; esac')
    step = named(steps, "Remove this run's containers")
    assert play(step, checkout, ECO_RUN="42").returncode == 0


def test_a_task_that_fails_is_red_although_its_output_is_piped(
    steps: list[Step], checkout: Path
) -> None:
    mlcube = checkout / ".venv-mlcube" / "bin" / "mlcube"
    mlcube.parent.mkdir(parents=True)
    mlcube.write_text("#!/bin/sh\necho half a table\nexit 7\n")
    mlcube.chmod(0o755)
    assert play(named(steps, "Report"), checkout).returncode == 7
    assert (checkout / "report.txt").read_text() == "half a table\n"


@pytest.mark.parametrize(("report", "shown"), [("FP16 2705\n", "FP16 2705"), (None, "No report.")])
def test_the_job_page_shows_the_table_or_says_that_there_is_none(
    steps: list[Step], checkout: Path, report: str | None, shown: str
) -> None:
    if report is not None:
        (checkout / "report.txt").write_text(report)
    page = checkout / "summary"
    step = named(steps, "Show the table")
    assert play(step, checkout, PLAN="a.yaml", GITHUB_STEP_SUMMARY=str(page)).returncode == 0
    assert page.read_text().splitlines() == ["### a.yaml", "```text", shown, "```"]
