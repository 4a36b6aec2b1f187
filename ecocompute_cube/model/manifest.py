"""What a model folder holds: every file with its size and hash, and where the weights come from."""

from __future__ import annotations

import enum
from typing import Final, Literal

from pydantic import Field

from ecocompute_cube.model.base import (
    Absent,
    Count,
    MaybeInt,
    MaybeStr,
    Record,
    Sha256,
    sha256_hex,
)

FORMAT: Final = "ecocompute-manifest/1"
#: What manifests say that were written before there was a hub to fetch from, and still do.
NO_COMMIT: Final = Absent(reason="It is not from the hub.")


class Weights(enum.StrEnum):
    """Where the numbers in the weights come from."""

    ORIGINAL = "original"  #: as their maker published them
    DEQUANTIZED = "dequantized"  #: expanded once from a quantized file
    RANDOM = "random"  #: drawn from a seed: energy only, no quality figure


class ModelFile(Record):
    """One file of a model folder."""

    path: str = Field(min_length=1)  #: relative to the folder, with forward slashes
    bytes: Count
    sha256: Sha256


class Manifest(Record):
    """The identity of one model folder. Written last by ``download``; checked by ``measure``."""

    format: Literal["ecocompute-manifest/1"]
    reference: str  #: as the plan names it, local paths reduced to the folder's name
    name: str  #: what reports print
    weights: Weights
    origin: str  #: one sentence: what was fetched or built, from what
    commit: MaybeStr = NO_COMMIT  #: of the hub's repository, 40 hexadecimal digits
    license: MaybeStr
    seed: MaybeInt
    architecture: str  #: transformers model_type
    parameters: int = Field(ge=1)
    layers: int = Field(ge=1)
    hidden_size: int = Field(ge=1)
    vocab_size: int = Field(ge=1)
    max_context: int = Field(ge=1)  #: tokens
    tokenizer: bool  #: False: prompts are the bytes of the text
    files: tuple[ModelFile, ...]

    @property
    def digest(self) -> str:
        """One SHA-256 over all names and hashes: the identity of these weights."""
        lines = (f"{file.sha256}  {file.path}\n" for file in sorted(self.files, key=_path))
        return sha256_hex("".join(lines).encode())

    @property
    def size_bytes(self) -> int:
        """Bytes of all files together."""
        return sum(file.bytes for file in self.files)


def _path(file: ModelFile) -> str:
    return file.path
