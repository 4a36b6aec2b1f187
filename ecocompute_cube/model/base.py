"""What every document of ours is made of: strict frozen records, and values that may be absent."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeIs


class Record(BaseModel):
    """A frozen, closed, finite record; read it with ``model_validate_json``."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, ser_json_inf_nan="null"
    )


class Absent(Record):
    """A value that is not there, and why. Never zero, never null without a word."""

    reason: str = Field(min_length=1)


MaybeFloat: TypeAlias = float | Absent
MaybeInt: TypeAlias = int | Absent
MaybeStr: TypeAlias = str | Absent

T = TypeVar("T")

_PATH = re.compile(r"(?<![\w./])/(?:[^\s/'\":,;()]+/)+([^\s/'\":,;()]*)")

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
UtcTime = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]
NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]


def present(value: T | Absent) -> TypeIs[T]:
    """Whether a value is there."""
    return not isinstance(value, Absent)


def without_paths(text: str) -> str:
    """``text`` with absolute paths cut to their last part: no document names a folder of a host."""
    return _PATH.sub(r"…/\1", text)


def printable(text: str) -> str:
    """``text`` with the characters spelt out that a terminal or a drawing program would obey."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def canonical_json(value: Any) -> str:  # noqa: ANN401 (any JSON value)
    """One text for one value: sorted keys, no spaces, no NaN, UTF-8 kept.

    Raises ValueError for NaN or infinity.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def sha256_hex(data: bytes) -> str:
    """SHA-256 of bytes as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
