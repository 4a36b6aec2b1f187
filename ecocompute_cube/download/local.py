"""A checkpoint folder of the user's own: checked, then linked or copied file by file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from ecocompute_cube.download.checkpoint import CONFIG, describe, read_json, weight_files
from ecocompute_cube.download.checks import (
    MAY_NAME_CODE,
    licenses,
    refuse_code,
    refuse_config,
    refuse_only_pickles,
    require_tokenizer,
    wanted,
)
from ecocompute_cube.download.folder import MANIFEST, sha256_of
from ecocompute_cube.download.links import bytes_at, can_link, link_or_copy
from ecocompute_cube.download.progress import Progress, Say, size
from ecocompute_cube.download.source import Identity
from ecocompute_cube.errors import ModelError
from ecocompute_cube.model.base import Absent, MaybeStr
from ecocompute_cube.model.hub_reference import meant_by_path
from ecocompute_cube.model.manifest import Manifest, ModelFile, Weights
from ecocompute_cube.model.plan import public_reference

_OURS: Final = "ecocompute-manifest/"  # what the format of a manifest of ours begins with
_COPY_AGAIN: Final = (
    f"Copy the folder again, or remove its {MANIFEST} to have the weights taken as their maker's."
)
_COPIED: Final = "From a local folder, whose manifest says: "


@dataclass(frozen=True)
class LocalFolder:
    """A folder with config.json, safetensors weights and a tokenizer."""

    folder: Path
    reference: str
    replaceable: bool = False  # what was linked here may be the user's only copy
    link: Callable[[Path, Path], None] = os.link

    @classmethod
    def named(cls, model: str) -> LocalFolder:
        """The source for a plan's ``local:PATH`` or plain path."""
        return cls(Path(model.removeprefix("local:")), public_reference(model))

    def announce(self, say: Say) -> str:
        """How much is taken, and from where."""
        return f"taking {size(self._bytes())} from '{self.folder}'"

    def needs_bytes(self, models_dir: Path) -> int:
        """Nothing where files can be hard-linked, their size where they must be copied."""
        paths = [self.folder / name for name in wanted_files(self.folder)]
        return sum(bytes_at(path) for path in paths if not can_link(path, models_dir))

    def contradicts(self, manifest: Manifest, folder: Path, say: Say) -> str | None:
        """Two folders of one name must not be taken for each other, nor an old state for a new."""
        if not self.folder.is_dir():
            return None  # the models folder is complete in itself
        own = _own_manifest(self.folder)
        weights = own.weights if own else Weights.ORIGINAL
        if weights is not manifest.weights:
            return f"its weights are {manifest.weights} in one and {weights} in the other"
        known = {file.path for file in manifest.files}
        if differing := known.symmetric_difference(wanted_files(self.folder)):
            return f"{min(differing)} is only in one of the two"
        progress = Progress(f"comparing with '{self.folder}'", manifest.size_bytes, say)
        for file in manifest.files:
            if not _same(self.folder / file.path, folder / file.path, file, progress):
                return f"{file.path} differs"
        return None

    def build(self, folder: Path, say: Say) -> Identity:
        """Check the user's folder, then link or copy what is needed."""
        check_local(self.folder)
        own = _own_manifest(self.folder)
        if own is not None:
            _require_fit(self.folder, own, say)
        for name in wanted_files(self.folder):
            link_or_copy(self.folder / name, folder / name, say, self.link)
        if own is not None:
            return Identity(
                name=own.name,
                weights=own.weights,
                origin=f"{_COPIED}{own.origin.removeprefix(_COPIED)}",
                license=own.license,
                seed=own.seed,
                commit=own.commit,
            )
        return Identity(
            name=self.reference.removeprefix("local:"),
            weights=Weights.ORIGINAL,
            origin="Taken as its maker's, from a local folder; nobody checked it.",
            license=license_of(self.folder),
            seed=Absent(reason="The weights were not drawn."),
        )

    def _bytes(self) -> int:
        check_local(self.folder)
        return sum(bytes_at(self.folder / name) for name in wanted_files(self.folder))


def check_local(folder: Path) -> None:
    """Whether a folder is a whole, safe, unquantized checkpoint of a text model.

    Raises ModelError, saying what is wrong and what to do.
    """
    if not folder.is_dir():
        raise ModelError(
            f"There is no folder '{folder}'.",
            _meant(folder),
        )
    names = _names(folder)
    refuse_config(folder.name, read_json(folder / CONFIG))
    refuse_only_pickles(folder.name, names)
    for name in MAY_NAME_CODE:
        if name in names:
            refuse_code(folder.name, name, read_json(folder / name))
    describe(folder)
    own = _own_manifest(folder)
    if own is None or own.tokenizer:
        require_tokenizer(folder.name, names, "Put the model's tokenizer files into that folder.")


def _meant(folder: Path) -> str:
    """What may have been meant by a folder that is not there: ``OWNER/NAME`` beside a plan?"""
    owner = folder.parent
    beside = owner.parent.is_dir() and not owner.is_dir()
    hub = meant_by_path("/".join(folder.parts[-2:])) if beside else None
    if hub is not None:
        return f"Did you mean {hub}, the model of the Hugging Face hub?"
    return (
        "Give the path of a checkpoint folder (in a container: beside the plan, all it can see), "
        "'embedded', 'random:<architecture>', or hub:OWNER/NAME for a model of the Hugging Face "
        "hub."
    )


def wanted_files(folder: Path) -> list[str]:
    """Names of the files of a checkpoint folder that loading and its licence need."""
    return sorted({*wanted(_names(folder)), *weight_files(folder)})


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_file()]


def _own_manifest(folder: Path) -> Manifest | None:
    """What ``download`` wrote into a folder that was copied from a models folder; None elsewhere.

    Raises ModelError for one of ours that cannot be understood: it may say that weights are random.
    """
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
        data = json.loads(text)
    except (OSError, ValueError):
        return None
    if not isinstance(data, dict) or not str(data.get("format")).startswith(_OURS):
        return None
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        reason = str(error).splitlines()[0]
        raise ModelError(
            f"The {MANIFEST} in '{folder.name}' cannot be understood ({reason}).", _COPY_AGAIN
        ) from None


def _require_fit(folder: Path, own: Manifest, say: Say) -> None:
    """What a manifest says of the weights holds for the files that it names, and no others."""
    known = {file.path: file for file in own.files}
    progress = Progress(f"checking '{folder}'", own.size_bytes, say)
    for name in sorted(known.keys() | set(wanted_files(folder))):
        path = folder / name
        if name not in known or not path.is_file() or not _equals(path, known[name], progress):
            raise ModelError(
                f"'{folder.name}' was changed: {name} is not what its {MANIFEST} says.", _COPY_AGAIN
            )


def _equals(path: Path, file: ModelFile, progress: Progress) -> bool:
    return path.stat().st_size == file.bytes and sha256_of(path, progress) == file.sha256


def _same(path: Path, checked: Path, file: ModelFile, progress: Progress) -> bool:
    if path.samefile(checked):
        return True  # hard-linked, and its hash has just been compared
    return _equals(path, file, progress)


def license_of(folder: Path) -> MaybeStr:
    """What a checkpoint folder's model card says of the licence, or which file does."""
    named = _front_matter(folder / "README.md").get("license")
    if isinstance(named, str) and named:
        return named
    for name in licenses(_names(folder)):
        return f"see {name}"
    return Absent(reason="The folder has no licence file, and no README.md that names one.")


def _front_matter(readme: Path) -> Mapping[str, object]:
    """The YAML between the two ``---`` that a model card begins with."""
    import yaml

    try:
        parts = readme.read_text(encoding="utf-8").split("---\n", 2)
        data = yaml.safe_load(parts[1]) if len(parts) > 2 and not parts[0] else None  # noqa: PLR2004 (before, between, after)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return data if isinstance(data, dict) else {}
