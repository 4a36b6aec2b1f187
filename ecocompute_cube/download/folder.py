"""A model folder: where it lies, what its manifest says, and whether it still holds true."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import ValidationError

from ecocompute_cube.download.progress import Progress, Say, silent
from ecocompute_cube.errors import ModelCorrupt, ModelMissing
from ecocompute_cube.model.files import write_whole
from ecocompute_cube.model.manifest import Manifest, ModelFile
from ecocompute_cube.model.plan import model_slug, public_reference

MANIFEST: Final = "manifest.json"
FETCHING: Final = ".fetching-"  #: no slug begins with a dot, so no model has such a name

_CHUNK: Final = 8 * 2**20  # bytes; large enough that SHA-256, not the call, takes the time
#: What transformers, or a tokenizer, may pick up by itself when it lies in a model folder.
_LOADABLE: Final = frozenset(
    {".safetensors", ".bin", ".json", ".pt", ".pth", ".py", ".model", ".jinja", ".gguf"}
)
_LOADABLE_NAMES: Final = frozenset({"merges.txt", "vocab.txt"})


def model_folder(reference: str, models_dir: Path) -> Path:
    """The folder below ``models_dir`` that holds the model a plan names ``reference``."""
    return models_dir / model_slug(public_reference(reference))


def fetching_folder(reference: str, models_dir: Path) -> Path:
    """Where the files of a model gather until they are whole; it outlives a download that stops."""
    folder = model_folder(reference, models_dir)
    return folder.with_name(f"{FETCHING}{folder.name}")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a model folder.

    Raises ModelMissing when there is none, ModelCorrupt when it cannot be understood.
    """
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
        manifest = Manifest.model_validate_json(text)
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(folder) from None
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise _corrupt(folder, f"{MANIFEST} cannot be understood ({reason})") from None
    for file in manifest.files:
        if not _inside(file.path):
            raise _corrupt(folder, f"{MANIFEST} names a file outside the folder ({file.path})")
    return manifest


def verify(reference: str, models_dir: Path, say: Say = silent) -> Manifest:
    """The manifest of a downloaded model, after every file's SHA-256 was compared with it.

    Raises ModelMissing for a model that was never downloaded, and ModelCorrupt, naming the file,
    for one that is missing, truncated, altered, or extra and likely to be loaded.
    """
    folder = model_folder(reference, models_dir)
    manifest = read_manifest(folder)
    if manifest.reference != public_reference(reference):
        raise _corrupt(folder, f"it holds '{manifest.reference}', not '{reference}'")
    _refuse_extras(folder, manifest)
    for file in manifest.files:
        _check_size(folder, file)
    progress = Progress(f"checking {manifest.name}", manifest.size_bytes, say)
    for file in manifest.files:
        _check_hash(folder, file, progress)
    return manifest


def hashed(folder: Path, progress: Progress) -> tuple[ModelFile, ...]:
    """Every file below a folder with its size and SHA-256, by path; each is forced to disk.

    Raises OSError.
    """
    return tuple(_hashed_file(folder, path, progress) for path in _files(folder))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put the manifest into its folder, whole or not at all.

    Raises OutputError.
    """
    write_whole(folder / MANIFEST, (manifest.model_dump_json(indent=2) + "\n").encode())


def sha256_of(path: Path, progress: Progress) -> str:
    """SHA-256 of a file as 64 hexadecimal digits, read in chunks.

    Raises OSError.
    """
    digest = hashlib.sha256()
    chunk = memoryview(bytearray(_CHUNK))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(chunk):
            digest.update(chunk[:count])
            progress.advance(count)
    return digest.hexdigest()


def _files(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if path != folder / MANIFEST)


def _hashed_file(folder: Path, path: Path, progress: Progress) -> ModelFile:
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return ModelFile(
        path=path.relative_to(folder).as_posix(),
        bytes=path.stat().st_size,
        sha256=sha256_of(path, progress),
    )


def _inside(path: str) -> bool:
    pure = PurePosixPath(path)
    return not pure.is_absolute() and ".." not in pure.parts


def _refuse_extras(folder: Path, manifest: Manifest) -> None:
    known = {file.path for file in manifest.files}
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        loadable = path.suffix.lower() in _LOADABLE or path.name in _LOADABLE_NAMES
        if loadable and name not in known:
            raise _corrupt(folder, f"{name} is extra: not in the manifest, but might be loaded")


def _check_size(folder: Path, file: ModelFile) -> None:
    try:
        found = (folder / file.path).stat().st_size
    except OSError:
        raise _corrupt(folder, f"{file.path} is missing") from None
    if found < file.bytes:
        raise _corrupt(folder, f"{file.path} is truncated: {found} of {file.bytes} bytes")
    if found > file.bytes:
        raise _corrupt(folder, f"{file.path} is altered: {found} bytes instead of {file.bytes}")


def _check_hash(folder: Path, file: ModelFile, progress: Progress) -> None:
    try:
        found = sha256_of(folder / file.path, progress)
    except OSError as error:
        raise _corrupt(folder, f"{file.path} cannot be read ({error.strerror})") from None
    if found != file.sha256:
        raise _corrupt(folder, f"{file.path} is altered: its SHA-256 is not the manifest's")


def download_command(models_dir: Path) -> str:
    """What to type to have a plan's models."""
    return f"`ecocompute download --parameters_file FILE --models_dir {models_dir}`"


def _missing(folder: Path) -> ModelMissing:
    models_dir = folder.parent
    if not models_dir.is_dir():
        cause = f"There is no models folder '{models_dir}'."
    elif not any(models_dir.iterdir()):
        cause = f"The models folder '{models_dir}' is empty."
    else:
        cause = f"The models folder '{models_dir}' holds no finished model '{folder.name}'."
    return ModelMissing(cause, f"Run {download_command(models_dir)}.")


def _corrupt(folder: Path, what: str) -> ModelCorrupt:
    return ModelCorrupt(
        f"The model folder '{folder.name}' is damaged: {what}.",
        f"Remove '{folder}' and run {download_command(folder.parent)}.",
    )
