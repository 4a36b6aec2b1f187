"""An arm's process has a home to write to, also where its user has none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ecocompute_cube.engine.home import with_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    return place


def test_a_home_that_can_be_written_stays_as_it_is(home: Path) -> None:
    with with_home({"HOME": str(home), "USER": "u"}) as environment:
        assert environment == {"HOME": str(home), "USER": "u"}
    assert home.exists()


@pytest.mark.parametrize("given", [{}, {"HOME": ""}, {"HOME": "/proc/none"}])
def test_without_one_there_is_a_temporary_home_for_the_run(
    home: Path, given: dict[str, str]
) -> None:
    with with_home({**given, "A": "1"}, lambda: str(home)) as environment:
        assert (environment["HOME"], environment["A"]) == (str(home), "1")
        for name in ("XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
            assert Path(environment[name]).is_relative_to(home)
    assert not home.exists()


def test_a_cache_that_the_user_has_named_is_kept(home: Path) -> None:
    with with_home({"TRITON_CACHE_DIR": "/mine"}, lambda: str(home)) as environment:
        assert environment["TRITON_CACHE_DIR"] == "/mine"


def test_without_room_for_a_home_there_is_none(home: Path) -> None:
    def full() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    with with_home({"HOME": "/proc/none"}, full) as environment:
        assert environment["HOME"] == "/proc/none"
        assert "TRITON_CACHE_DIR" not in environment


NAMELESS = """
import getpass, os, sys
from pathlib import Path
from ecocompute_cube.engine.home import with_home
with with_home({}) as environment:
    os.environ.update(environment)
    Path(Path.home(), ".cache").mkdir()
    print(os.getuid(), getpass.getuser())
"""


def test_a_user_id_without_a_name_has_one_for_who_asks() -> None:
    unshare = ["unshare", "--user", "--map-user=54321", "--map-group=54321"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine makes no user namespaces")
    ended = subprocess.run(
        [*unshare, sys.executable, "-c", NAMELESS],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout == "54321 nobody\n", ended.stderr
