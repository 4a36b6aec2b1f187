"""What set-up makes of pip's answers; nothing is installed, and the index is a folder."""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from setup_state import Request

SCRIPTS = Path(__file__).parents[2] / "scripts"
NAME = "ecocompute_stand_in"  # for torch, which may be installed here already
NO_HASH = f"--hash=sha256:{'0' * 64}"


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ecocompute_setup", SCRIPTS / "setup.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(SCRIPTS))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPTS))
    return module


@pytest.fixture
def asked(setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    """A checkout that wants the CPU build, and an index that has the default one alone."""
    requirements = tmp_path / "requirements"
    requirements.mkdir()
    (requirements / "torch-cpu.txt").write_text(f"{NAME}==1.0+cpu {NO_HASH}\n")
    folder = tmp_path / "index" / NAME.replace("_", "-")
    folder.mkdir(parents=True)
    wheel = f"{NAME}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(folder / wheel, "w") as file:
        file.writestr(f"{NAME}-1.0.dist-info/METADATA", f"Name: {NAME}\nVersion: 1.0\n")
    (folder / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    made: Request = setup.Request(
        root=tmp_path,
        venv=Path(sys.prefix),
        target="run",
        python=Path(sys.executable),
        insists_on_python=False,
        torch=None,
    )
    return made


@pytest.fixture
def constrain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def write(text: str) -> None:
        (tmp_path / "constraints.txt").write_text(text)
        monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "constraints.txt"))

    return write


def test_an_index_without_the_cpu_build_is_an_answer(setup: ModuleType, asked: Request) -> None:
    assert setup.finds_cpu_torch(asked) is False


@pytest.mark.parametrize("constraint", ["1.0", "0.9"])
def test_a_constraint_that_rules_the_cpu_build_out_is_an_answer(
    setup: ModuleType,
    asked: Request,
    constrain: Callable[[str], None],
    constraint: str,
) -> None:
    constrain(f"{NAME}=={constraint}\n")
    assert setup.finds_cpu_torch(asked) is False


@pytest.mark.parametrize(
    "words",
    [
        "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool: Read timed out.",
        "ERROR: Could not install packages due to an OSError: Max retries exceeded with url: /a",
        "ERROR: HTTP error 503 while getting a wheel",
    ],
)
def test_a_network_that_fails_is_told(
    setup: ModuleType,
    asked: Request,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
) -> None:
    answer(setup, monkeypatch, words)
    with pytest.raises(setup.SetUpError, match="pip did not install PyTorch"):
        setup.finds_cpu_torch(asked)
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "WARNING: Retrying after connection broken by 'ReadTimeoutError'\nERROR: conflict",
        "WARNING: Retrying after connection broken by 'NewConnectionError'\n"
        "ERROR: No matching distribution found for torch==2.13.0+cpu",
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
    ],
)
def test_whatever_else_pip_says_is_an_answer(
    setup: ModuleType,
    asked: Request,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
) -> None:
    answer(setup, monkeypatch, words)
    assert setup.finds_cpu_torch(asked) is False


def test_a_failed_installation_shows_all_that_pip_said(
    setup: ModuleType,
    asked: Request,
    constrain: Callable[[str], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    constrain(f"{NAME}==0.9\n")
    with pytest.raises(setup.SetUpError, match="did not install it"):
        setup.pip_install(asked, ["--dry-run", f"{NAME}==1.0"], what="it")
    assert "The user requested (constraint)" in capfd.readouterr().err


def answer(setup: ModuleType, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """Stand in for a pip that fails with these words."""
    ended = setup.subprocess.CompletedProcess([], 1, words)
    monkeypatch.setattr(setup, "run_quietly", lambda *_, **__: ended)
