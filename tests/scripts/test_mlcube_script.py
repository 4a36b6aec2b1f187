"""`make mlcube`: what it refuses, before it makes anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def checkout(folder: Path) -> Path:
    """As much of a checkout as the script needs."""
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "mlcube.sh", folder / "scripts")
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    return folder


def make_mlcube(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "MLCUBE_VENV"}
    return subprocess.run(
        ["sh", folder / "scripts" / "mlcube.sh"],
        env=kept | {"PYTHON": "/bin/false"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.parametrize("name", ["a b", "a:b", "a\tb", "it's", "a&b", "a$b", "a(b)"])
def test_a_path_that_mlcube_breaks_on_is_refused_first(tmp_path: Path, name: str) -> None:
    folder = checkout(tmp_path / name)
    before = files(folder)
    ended = make_mlcube(folder)
    assert ended.returncode == 2 and ended.stdout == ""
    assert f"mlcube cannot run from '{folder}'" in ended.stderr
    assert "Move this checkout, or clone it" in ended.stderr
    assert "plain docker works from here too" in ended.stderr
    assert files(folder) == before


def test_a_path_is_judged_by_its_real_name_as_mlcube_does(tmp_path: Path) -> None:
    checkout(tmp_path / "a b")
    (tmp_path / "link").symlink_to("a b")
    assert "mlcube cannot run from" in make_mlcube(tmp_path / "link").stderr


@pytest.mark.parametrize("name", ["plain-1.0_x", "größe", "a,b=c@d+e~f"])
def test_other_paths_are_not(tmp_path: Path, name: str) -> None:
    assert "mlcube cannot run from" not in make_mlcube(checkout(tmp_path / name)).stderr


def test_a_python_that_will_not_do_is_refused_with_one_that_would(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "here")
    before = files(folder)
    ended = make_mlcube(folder)
    assert ended.returncode == 2
    assert "need Python 3.11 to 3.13" in ended.stderr and "PYTHON=python3.12" in ended.stderr
    assert files(folder) == before


def test_a_folder_that_is_no_environment_is_never_emptied(tmp_path: Path) -> None:
    folder, home = checkout(tmp_path / "here"), tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear all")
    ended = make_mlcube(folder, MLCUBE_VENV=str(home), PYTHON=sys.executable)
    assert ended.returncode == 2
    assert "is left alone" in ended.stderr and "MLCUBE_VENV=" in ended.stderr
    assert (home / "letter.txt").read_text() == "dear all"


def test_an_environment_that_is_ready_is_left_alone(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "here")
    wanted = subprocess.run(
        ["sh", "-c", "cat requirements/mlcube-build.txt requirements/mlcube.txt | cksum"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    (folder / ".venv-mlcube").mkdir()
    (folder / ".venv-mlcube" / "ecocompute-mlcube").write_text(wanted.stdout)
    before = files(folder)
    ended = make_mlcube(folder)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ".venv-mlcube/bin/mlcube run" in ended.stdout
    assert files(folder) == before
