"""A scripted libnvidia-ml.so.1, which the real nvidia-ml-py loads in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .machine import make_machine

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SONAME = "libnvidia-ml.so.1"
ONE = "GPU-11111111-2222-3333-4444-555555555555"


class Stub:
    """Folders with the library, and processes that load it."""

    def __init__(self, folder: Path, work: Path) -> None:
        self._folder, self.work = folder, work
        self.root = make_machine(work / "root")  #: the machine that the processes look at

    def environment(self, library: str = "new", **script: str) -> dict[str, str]:
        """This process's, with the stub; keywords become STUB_… unless they are in capitals."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CUDA_", "STUB_"))}
        given = {(k if k.isupper() else f"STUB_{k.upper()}"): v for k, v in script.items()}
        library_path = {"LD_LIBRARY_PATH": str(self._folder / library)}
        return {**kept, **library_path, "STUB_ROOT": str(self.root), **given}

    def ask_all(self, *steps: str, **script: str) -> list[Any]:
        """What the board answered to each step, plain from JSON."""
        process = subprocess.run(
            [sys.executable, str(HERE / "probe.py"), *steps],
            env=self.environment(**script),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        answers: list[Any] = json.loads(process.stdout)
        return answers

    def ask(self, step: str, **script: str) -> Any:  # noqa: ANN401 (any JSON value)
        """What the board answered to one step."""
        return self.ask_all(step, **script)[0]

    def folder_with(self, name: str, text: str) -> str:
        """A new folder with one file in it."""
        folder = self.work / f"with-{name}"
        folder.mkdir()
        (folder / name).write_text(text)
        return str(folder)


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``new`` and ``old``, each with the stub under the driver library's name."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("NO C COMPILER: the tests of NVML against a stub library did not run")
    folder = tmp_path_factory.mktemp("libraries")
    for name, flags in {"new": [], "old": ["-DOLD"]}.items():
        (folder / name).mkdir()
        output = ["-o", str(folder / name / SONAME), f"-Wl,-soname,{SONAME}"]
        command = [compiler, "-shared", "-fPIC", *flags, *output, str(HERE / "stub" / "nvml.c")]
        subprocess.run(command, check=True, timeout=60)
    return folder


@pytest.fixture
def stub(libraries: Path, tmp_path: Path) -> Stub:
    return Stub(libraries, tmp_path)
