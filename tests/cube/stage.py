"""Real ``mlcube`` on a copy of the cube, with a stand-in for docker that notes what it is told."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .engine import ROOT

#: Says nothing, notes its arguments (a line each, an empty line at the end) and its environment.
_DOCKER: Final = """\
#!/bin/sh
here='{here}'
for word in "$@"; do printf '%s\\n' "$word"; done >>"$here/calls"
echo >>"$here/calls"
env >"$here/environment"
case $1 in
run) exit "$(cat "$here/status")" ;;
esac
"""

#: What a developer's own shell must not lend to a test.
_FORWARDED: Final = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "ECO_GPUS",
    "ECO_RUN",
    "ECO_USER",
    "HF_ENDPOINT",
    "HF_HUB_OFFLINE",
    "HF_TOKEN",
)


@dataclass(frozen=True)
class Played:
    """One call of mlcube that has ended."""

    status: int
    out: str  #: both streams
    calls: list[list[str]]  #: what docker was told, call by call
    environment: str  #: what docker saw around it at the last call

    @property
    def runs(self) -> list[list[str]]:
        """The calls that would have started a container."""
        return [call for call in self.calls if call[0] == "run"]


class Stage:
    """A folder with the cube's descriptors and plans, and with the stand-in."""

    def __init__(self, mlcube: Path, folder: Path) -> None:
        self.mlcube = mlcube
        self.folder = folder
        self.cube = folder / "cube"
        self.workspace = self.cube / "workspace"
        shutil.copytree(ROOT / "workspace" / "config", self.workspace / "config")
        for name in ("mlcube.yaml", "mlcube.cpu.yaml", "Dockerfile"):
            shutil.copy(ROOT / name, self.cube)
        self._notes = folder / "notes"
        self._notes.mkdir()
        self.docker = folder / "docker"
        self.docker.write_text(_DOCKER.format(here=self._notes))
        self.docker.chmod(0o755)

    def run(
        self,
        task: str,
        *options: str,
        after: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        status: int = 0,
    ) -> Played:
        """``mlcube run --task=TASK OPTIONS -- AFTER``; containers end with this status."""
        docker = f"-Prunner.docker={self.docker}"
        arguments = ["run", f"--task={task}", *options, "--", docker, *after]
        return self.call(arguments, environment, status)

    def call(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        status: int = 0,
        cwd: Path | None = None,
    ) -> Played:
        """Call mlcube in the cube's folder, or in another one."""
        (self._notes / "status").write_text(str(status))
        done = subprocess.run(
            [self.mlcube, *arguments],
            cwd=cwd or self.cube,
            env={**self._surroundings(), **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        return Played(done.returncode, done.stdout, self._calls(), self._noted("environment"))

    def _surroundings(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in _FORWARDED}
        return kept | {"MLCUBE_SYSTEM_SETTINGS": str(self.folder / "settings.yaml")}

    def _calls(self) -> list[list[str]]:
        return [call.splitlines() for call in self._noted("calls").split("\n\n") if call]

    def _noted(self, name: str) -> str:
        path = self._notes / name
        return path.read_text(encoding="utf-8") if path.exists() else ""
