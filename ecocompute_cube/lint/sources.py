"""The files that are worth reading: found, named, read, and looked through for telling words."""

from __future__ import annotations

import io
import os
import re
import stat
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ecocompute_cube.errors import UsageError
from ecocompute_cube.lint.found import NotRead, Skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Kind = Literal["python", "notebook", "yaml", "json", "shell", "modelfile"]

LARGEST: Final = 1_000_000  # bytes; larger files are generated, or data
_ENDS: Final[dict[str, Kind]] = {
    ".py": "python",
    ".pyw": "python",
    ".ipynb": "notebook",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".sh": "shell",
    ".dockerfile": "shell",
}
_NAMES: Final[dict[str, Kind]] = {
    "dockerfile": "shell",
    "containerfile": "shell",
    "modelfile": "modelfile",
}
#: Folders of tools, environments and caches: other people's code, or none.
_PASSED: Final = frozenset(
    {".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", "site-packages"}
    | {".mypy_cache", ".ruff_cache", ".pytest_cache", ".tox", ".nox", ".eggs", ".hypothesis"}
)
_OURS: Final = b"ecocompute:"
_CONFIG: Final = (b"load_in_", b"bnb_4bit_", b"llm_int8_", b"use_cache", b"max_new_tokens")
_SERVING: Final = (b"vllm", b"text-generation-", b"sglang", b"llama-", b"LLAMA_", b"keep_alive")
_PYTHON: Final = tuple(
    b"from_pretrained BitsAndBytesConfig load_in_ bnb_4bit_ .generate( pipeline( LLM( EngineArgs( "
    b"SamplingParams( Llama( num_predict GenerationConfig( TorchAoConfig( "
    b"SentenceTransformer(".split()
)
#: A Python file that imports none of these tells nothing.
_IMPORTS: Final = re.compile(
    rb"^(?:\xef\xbb\xbf)?[ \t]*(?:from|import)[ \t]+"
    rb"(?:transformers|vllm|llama_cpp|ollama|peft|trl|optimum|unsloth|sentence_transformers)\b",
    re.MULTILINE,
)
_TORCH: Final = re.compile(rb"^(?:\xef\xbb\xbf)?[ \t]*(?:from|import)[ \t]+torch\b", re.MULTILINE)
#: A file without any of these holds nothing to find.
_TELLING: Final[dict[Kind, tuple[bytes, ...]]] = {
    "python": _PYTHON,
    "notebook": _PYTHON,
    "yaml": (*_CONFIG, *_SERVING, b"num_predict", b"enforce", b"max_num_seqs", b"max-num-seqs"),
    "json": (*_CONFIG, b"num_predict", b"enforce_eager", b"keep_alive"),
    "shell": _SERVING,
    "modelfile": (b"num_predict",),
}


class Source(NamedTuple):
    """One file to read."""

    path: Path
    name: str  #: as it is shown
    kind: Kind


class Text(NamedTuple):
    """What a file says; empty where a look at its bytes was enough."""

    text: str
    newline: str = "\n"
    encoding: str = "utf-8"


def kind_of(path: Path) -> Kind | None:
    """What a file is, by its name."""
    return kind_of_name(path.name)


def kind_of_name(name: str) -> Kind | None:
    """The same of a name alone."""
    lower = name.casefold()
    found = _ENDS.get(os.path.splitext(lower)[1]) or _NAMES.get(lower)  # a name
    if found is None and lower.startswith(("dockerfile.", "containerfile.")):
        found = "shell"
    if found is None and lower.startswith("modelfile."):
        found = "modelfile"
    return found


def sources(
    paths: Sequence[Path], excluded: Callable[[str], bool], skipped: list[Skipped]
) -> Iterator[Source]:
    """Every file below these paths that may tell something, by name. Raises UsageError."""
    seen: set[tuple[int, int]] = set()
    for path in paths:
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except OSError as error:
            raise UsageError(
                f"'{path}' cannot be read ({error.strerror or 'no such file'}).",
                "Name files and folders that exist.",
            ) from None
        walked = _walk(path, excluded, skipped) if is_folder else iter([path])
        for each in walked:
            kind = kind_of(each)
            if kind is None and not is_folder:
                skipped.append(Skipped(shown(each), "not a kind of file that is read here"))
            if kind is None or excluded(shown(each)) or not _regular(each, seen, skipped):
                continue
            yield Source(each, shown(each), kind)


def shown(path: Path) -> str:
    """A path as messages and documents name it: below the folder one is in, with /."""
    try:
        told = Path(os.path.relpath(path)) if path.is_absolute() else path
        if told.parts[:1] == ("..",):
            told = path
    except ValueError:
        told = path
    text = os.path.normpath(told).replace(os.sep, "/")
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _walk(folder: Path, excluded: Callable[[str], bool], skipped: list[Skipped]) -> Iterator[Path]:
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda each: each.name)
        except OSError as error:
            skipped.append(Skipped(shown(here), f"cannot be read ({error.strerror})"))
            continue
        folders = []
        for entry in entries:
            link = entry.is_symlink()
            if not link and entry.is_file() and kind_of_name(entry.name) is None:
                continue
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _PASSED and not excluded(shown(path) + "/"):
                    folders.append(path)
            elif link and _is_folder(path):
                skipped.append(Skipped(shown(path), "a link to a folder"))
            else:
                yield path
        waiting += reversed(folders)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # links in a circle


def _regular(path: Path, seen: set[tuple[int, int]], skipped: list[Skipped]) -> bool:
    """Whether this is a file, and not one that was read already under another name."""
    try:
        found = path.stat()
    except OSError as error:
        skipped.append(Skipped(shown(path), f"cannot be read ({error.strerror})"))
        return False
    if not stat.S_ISREG(found.st_mode):
        skipped.append(Skipped(shown(path), "no regular file"))
        return False
    known = (found.st_dev, found.st_ino)
    if known in seen:
        return False
    seen.add(known)
    return True


def read(source: Source, largest: int | None = LARGEST) -> Text | None:
    """A file's text; None where it holds nothing to find. Raises NotRead."""
    try:
        data = _bytes(source.path, largest)
    except OSError as error:
        raise NotRead(f"cannot be read ({error.strerror})") from None
    if largest is not None and len(data) > largest:
        raise NotRead(f"larger than {largest / 1e6:g} MB: --large reads it")
    if b"\0" in data[:4096]:
        raise NotRead("binary, or in UTF-16")
    return decoded(data, source.kind) if telling(data, source.kind) else None


def _bytes(path: Path, largest: int | None) -> bytes:
    """A file's bytes, and one more than are read of a large one. Raises OSError."""
    with open(path, "rb", buffering=0) as file:  # half the time of Path.open
        if largest is None:
            return file.readall()
        data = file.read(largest + 1)
        while len(data) <= largest and (more := file.read(largest + 1 - len(data))):
            data += more
        return data


def telling(data: bytes, kind: Kind) -> bool:
    """Whether a file may hold something to find."""
    if _OURS in data:
        return True
    if not any(word in data for word in _TELLING[kind]):
        return False
    if kind != "python" or _IMPORTS.search(data) is not None:
        return True
    return b".generate(" in data and _TORCH.search(data) is not None  # a model that is handed in


def decoded(data: bytes, kind: Kind) -> Text:
    """In the encoding that a file states, else UTF-8. Raises NotRead."""
    if b"\0" in data:
        raise NotRead("binary, or in UTF-16")
    encoding = "utf-8-sig"
    if kind == "python":
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        except SyntaxError:
            raise NotRead("in an encoding that is not known, or not in the one it states") from None
    try:
        text = data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        raise NotRead(f"not in {encoding.removesuffix('-sig').upper()}") from None
    newline = "\r\n" if "\r\n" in text else "\n"
    return Text(text.replace("\r\n", "\n").replace("\r", "\n"), newline, encoding)
