"""What a source of models offers: build a folder, and say who it is."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ecocompute_cube.download.progress import Say
from ecocompute_cube.errors import ModelError
from ecocompute_cube.model.base import MaybeInt, MaybeStr
from ecocompute_cube.model.manifest import NO_COMMIT, Manifest, Weights


@dataclass(frozen=True)
class Identity:
    """Whose weights these are: the part of a manifest that files cannot tell."""

    name: str
    weights: Weights
    origin: str
    license: MaybeStr
    seed: MaybeInt
    commit: MaybeStr = NO_COMMIT


class Source(Protocol):
    """One model as a plan names it, and how it comes into being."""

    @property
    def reference(self) -> str:
        """The public reference: what the manifest will say."""

    @property
    def replaceable(self) -> bool:
        """Whether building again gives the same files, so that a damaged folder may go."""

    def announce(self, say: Say) -> str:
        """What is about to be fetched or built, and how big it is."""

    def needs_bytes(self, models_dir: Path) -> int:
        """Disk space that building takes below ``models_dir``, in bytes."""

    def contradicts(self, manifest: Manifest, folder: Path, say: Say) -> str | None:
        """How a verified folder differs from what this source would build, or None."""

    def build(self, folder: Path, say: Say) -> Identity:
        """Fill an empty folder with a checkpoint.

        Raises ModelError when it cannot, OSError when the disk refuses.
        """


def require_libraries(names: Iterable[str], doing: str) -> None:
    """Make sure that libraries can be imported, without importing them.

    Raises ModelError, naming the missing ones and how to install them.
    """
    lost = [name for name in names if importlib.util.find_spec(name) is None]
    if lost:
        raise ModelError(
            f"Python cannot find {' and '.join(lost)}, needed to {doing}.",
            f"Run `make setup`, or `python -m pip install {' '.join(lost)}`.",
        )
