"""The action's scripts, with stand-ins for GitHub, and the files that others read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from ecocompute_cube import cli

from .rig import EIGHT, put

ROOT: Final = Path(__file__).parents[2]
_GH: Final = """\
#!/bin/sh
echo "$*" >>"$GH_LOG"
case "$*" in
*--paginate*) cat "$GH_KNOWN" ;;
*) [ "$GH_MAY" = yes ] || exit 1 ;;
esac
"""


def git(folder: Path, *words: str) -> str:
    name = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *name, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Job:
    """One run of the scripts in a clone with a pull request's change."""

    def __init__(self, folder: Path) -> None:
        self.clone, self.desk = folder / "clone", folder / "desk"
        for each in (self.clone, self.desk, self.desk / "bin"):
            each.mkdir()
        put(self.clone, old__py=EIGHT)
        git(self.clone, "init", "-b", "main")
        git(self.clone, "add", ".")
        git(self.clone, "commit", "-m", "one")
        self.base = git(self.clone, "rev-parse", "HEAD")
        (self.desk / "bin" / "gh").write_text(_GH)
        (self.desk / "bin" / "gh").chmod(0o755)
        (self.desk / "known").write_text("")

    def run(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        given = {
            "PATH": f"{self.desk / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RUNNER_TEMP": str(self.desk),
            "GITHUB_OUTPUT": str(self.desk / "output"),
            "GITHUB_STEP_SUMMARY": str(self.desk / "summary"),
            "GITHUB_REPOSITORY": "owner/name",
            "GH_LOG": str(self.desk / "log"),
            "GH_KNOWN": str(self.desk / "known"),
            "GH_MAY": "yes",
            "ECO_ACTION": str(ROOT),
            "ECO_COMMAND": f"{sys.executable} -m ecocompute_cube.cli",
            "ECO_PATHS": ".",
            "ECO_EVENT_BASE": self.base,
            "ECO_PULL": "7",
            "ECO_MARKDOWN": str(self.desk / "ecocompute-lint" / "lint.md"),
            **more,
        }
        command = ["sh", str(ROOT / "scripts" / script)]
        return subprocess.run(
            command, cwd=self.clone, env=given, check=False, capture_output=True, text=True
        )

    def outputs(self) -> dict[str, str]:
        lines = (self.desk / "output").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def calls(self) -> list[str]:
        return (self.desk / "log").read_text().splitlines()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_what_a_pull_request_adds_is_annotated_summed_up_and_kept(job: Job) -> None:
    put(job.clone, new__py=EIGHT)
    done = job.run("lint_action.sh", ECO_GPU="RTX 4090")
    annotations = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert done.returncode == 0 and len(annotations) == 1 and "file=new.py" in annotations[0]
    assert job.outputs()["status"] == "1"
    assert Path(job.outputs()["sarif"]).exists()
    assert "ECO101" in (job.desk / "summary").read_text()


def test_every_line_is_looked_at_when_asked(job: Job) -> None:
    done = job.run("lint_action.sh", ECO_BASE="all")
    assert "file=old.py" in done.stdout and job.outputs()["status"] == "1"


def test_a_mistake_is_handed_on(job: Job) -> None:
    done = job.run("lint_action.sh", ECO_GPU="RTX 4095")
    assert done.returncode == 0 and job.outputs() == {"status": "2"}
    assert "no board" in done.stderr


def test_the_comment_is_made_once_and_then_written_over(job: Job) -> None:
    put(job.clone, new__py=EIGHT)
    job.run("lint_action.sh")
    assert job.run("lint_comment.sh").returncode == 0
    assert "--method POST repos/owner/name/issues/7/comments" in job.calls()[-1]
    (job.desk / "known").write_text("42\n43\n")
    assert job.run("lint_comment.sh").returncode == 0
    assert "--method PATCH repos/owner/name/issues/comments/42" in job.calls()[-1]


def test_nothing_found_makes_no_comment_but_corrects_one(job: Job) -> None:
    job.run("lint_action.sh")
    job.run("lint_comment.sh")
    assert not any("--method" in call for call in job.calls())
    (job.desk / "known").write_text("42\n")
    job.run("lint_comment.sh")
    assert "--method PATCH" in job.calls()[-1]


def test_a_token_that_may_not_write_costs_the_comment_alone(job: Job) -> None:
    put(job.clone, new__py=EIGHT)
    job.run("lint_action.sh")
    done = job.run("lint_comment.sh", GH_MAY="no")
    assert done.returncode == 0 and "::notice::" in done.stdout


def action() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    return document


def test_the_action_pastes_nothing_into_a_shell_and_uses_no_other() -> None:
    for step in action()["runs"]["steps"]:
        assert "uses" not in step and "${{" not in step["run"]


def test_every_wish_reaches_a_step() -> None:
    text = (ROOT / "action.yml").read_text()
    for name in action()["inputs"]:
        assert f"inputs.{name} " in text
    scripts = "".join(
        (ROOT / "scripts" / f"lint_{n}.sh").read_text() for n in ("action", "comment")
    )
    told = set(re.findall(r"^ +(ECO_\w+): ", text, re.MULTILINE)) - {"ECO_STATUS", "ECO_ACTION"}
    assert told and {name for name in told if name not in scripts} == set()


def test_the_hook_starts_a_command_that_there_is() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    words = hook["entry"].split()
    assert words[0] == "ecocompute"
    assert cli._parser().parse_args(words[1:]).command is not None
