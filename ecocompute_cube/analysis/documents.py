"""Reading energy.json as a stranger's file: strictly, within bounds, and against its schema."""

from __future__ import annotations

import functools
import importlib.resources
import itertools
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias, cast

from ecocompute_cube.errors import DocumentInvalid, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

Document: TypeAlias = dict[str, object]

MAX_BYTES: Final = 64 * 2**20  # a real document has some 10 KiB; beyond this nobody meant it
MAX_DEPTH: Final = 64  # a real document nests 5 deep; deeper ones exhaust the stack of validators
MAX_SHOWN: Final = 20  # schema errors that a person reads before giving up
_MAX_COLLECTED: Final = 1000  # one wrong array of millions must not fill the memory with errors
_MAX_QUOTED: Final = 100  # characters of an untrusted value within one sentence


class Format(NamedTuple):
    """A family of schema versions and the schema that decides about it."""

    versions: str  #: as sentences name it
    pattern: re.Pattern[str]
    schema: str  #: file name under ``ecocompute_cube/schemas``


FORMATS: Final = (
    Format(
        "ecocompute-energy/1.0 to 1.4",
        re.compile(r"ecocompute-energy/1\.[0-4](-draft)?"),
        "energy-1.x.schema.json",
    ),
    Format("ecocompute-energy/2.x", re.compile(r"ecocompute-energy/2\..*"), "energy.schema.json"),
)


# What a document says, for whoever does not know yet whether it is well formed


def at(document: Document, place: str) -> object:
    """What stands at a dotted place, or None."""
    value: object = document
    for key in place.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def number_at(document: Document, place: str) -> float | None:
    """The finite number at a dotted place, or None; true and false are no numbers."""
    value = at(document, place)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def text_at(document: Document, place: str) -> str | None:
    """The text at a dotted place, or None when there is none or only blanks."""
    value = at(document, place)
    return value if isinstance(value, str) and value.strip() else None


def shown(value: object, limit: int = _MAX_QUOTED) -> str:
    """Untrusted text or JSON, short and on one line, with unprintable characters escaped."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


# Reading


def read_document(path: Path) -> Document:
    """The object in a JSON file.

    Raises UsageError for a file that cannot be read, DocumentInvalid for what is not plain JSON.
    """
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"'{shown(path.name)}' is not a regular file.", "Give a JSON file.")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(
            f"There is no file '{shown(path.name)}' at the place given.",
            "Name an energy.json or a folder that holds some.",
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"'{shown(path.name)}' cannot be read ({shown(str(error))}).",
            "Give a file that this user may read.",
        ) from None
    return parse_document(data, path.name)


def parse_document(data: bytes, name: str) -> Document:
    """The object that these bytes spell; ``name`` is for messages only.

    Raises DocumentInvalid for anything but one UTF-8 JSON object of finite numbers and unique keys.
    """
    called = shown(name)
    if len(data) > MAX_BYTES:
        raise DocumentInvalid(
            f"{called} is larger than {MAX_BYTES // 2**20} MiB.",
            "Keep traces in files beside the document.",
        )
    if not data.strip():
        raise DocumentInvalid(f"{called} is empty.", "Write the document again.")
    document = _decoded(data, called)
    if not isinstance(document, dict):
        raise DocumentInvalid(
            f"{called} holds {_kind(document)}, not an object.",
            "An energy.json is one JSON object.",
        )
    if _deeper_than(document, MAX_DEPTH):
        raise _too_deep(called)
    return document


def _decoded(data: bytes, called: str) -> object:
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except UnicodeDecodeError as error:
        raise DocumentInvalid(
            f"{called} is not UTF-8 (byte {error.start}).", "Save it as UTF-8 text."
        ) from None
    except RecursionError:
        raise _too_deep(called) from None
    except ValueError as error:
        raise DocumentInvalid(
            f"{called} is not valid JSON: {shown(str(error))}.", "Correct it, or write it again."
        ) from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"the key '{counts.most_common(1)[0][0]}' stands twice in one object")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is beyond the range of numbers")
    return value


def _too_deep(called: str) -> DocumentInvalid:
    return DocumentInvalid(
        f"{called} nests deeper than {MAX_DEPTH} levels.", "No energy.json does; correct it."
    )


def _deeper_than(value: object, limit: int) -> bool:
    """Whether values nest deeper than this, found level by level: no recursion."""
    level = [value]
    for _ in range(limit):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list) else "a number"


# Schemas


def format_of(document: Document) -> Format | None:
    """The known format that a document says it has."""
    version = at(document, "schema_version")
    if not isinstance(version, str):
        return None
    return next((known for known in FORMATS if known.pattern.fullmatch(version)), None)


def schema_errors(document: Document) -> tuple[str, ...]:
    """One readable line for each way a document fails its schema, the telling ones first."""
    known = format_of(document)
    if known is None:
        return (_unknown_format(document),)
    validator = _validator(known.schema)
    if validator is None:
        return (f"schema_version: this installation has no schema for {known.versions}",)
    return error_lines(validator.iter_errors(cast("dict[str, Any]", document)))


def _unknown_format(document: Document) -> str:
    known = " and ".join(each.versions for each in FORMATS)
    version = at(document, "schema_version")
    if version is None:
        return f"schema_version: missing; known are {known}"
    return f"schema_version: {shown(version)} is not known; known are {known}"


@functools.cache
def _validator(name: str) -> Validator | None:
    from jsonschema import Draft202012Validator

    file = importlib.resources.files("ecocompute_cube").joinpath("schemas", name)
    if not file.is_file():
        return None
    return Draft202012Validator(json.loads(file.read_text(encoding="utf-8")))


def error_lines(errors: Iterable[ValidationError]) -> tuple[str, ...]:
    """Validation errors as ``place: what is wrong``, at most MAX_SHOWN and a count of the rest."""
    leaves = (leaf for error in errors for leaf in _leaves(error))
    found = list(itertools.islice(leaves, _MAX_COLLECTED))
    found.sort(key=lambda error: len(error.absolute_path))  # shallow ones say that more is wrong
    lines = tuple(dict.fromkeys(_line(error) for error in found))
    rest = len(lines) - MAX_SHOWN
    if rest <= 0:
        return lines
    least = "at least " if len(found) == _MAX_COLLECTED else ""
    return (*lines[:MAX_SHOWN], f"and {least}{rest} more")


def _leaves(error: ValidationError) -> Iterator[ValidationError]:
    """What is wrong with the one alternative that was meant; else what best_match picks."""
    from jsonschema.exceptions import best_match

    branches: dict[object, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    meant = [branch for branch in branches.values() if not any(map(_is_another, branch))]
    if len(meant) == 1:
        for inner in meant[0]:
            yield from _leaves(inner)
    else:
        yield best_match(iter([error])) or error


def _is_another(inner: ValidationError) -> bool:
    """Whether an error only says that another alternative was meant: other tag, other type."""
    if inner.validator == "type":
        return not inner.relative_path
    return inner.validator in ("const", "enum") and len(inner.relative_path) == 1


def _line(error: ValidationError) -> str:
    message = error.message
    if len(message) > _MAX_QUOTED:  # keep what is wrong, cut what it is wrong about
        message = message.replace(repr(error.instance), shown(repr(error.instance), 40))
    return f"{_place(error)}: {shown(message, 300)}"


def _place(error: ValidationError) -> str:
    place = ""
    for part in error.absolute_path:
        place += f"[{part}]" if isinstance(part, int) else f".{shown(part, 60)}"
    return place.removeprefix(".") or "the document"
