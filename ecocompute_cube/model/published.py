"""Published measurements, packaged: one comparison with FP16 a row, and where it was published.

They stand beside ours and are never pooled with them. ``published/SOURCES.md`` names the files, and
``scripts/published.py`` makes the table from those.
"""

from __future__ import annotations

import csv
import functools
import io
import math
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import Field

from ecocompute_cube.model.base import Absent, MaybeFloat, MaybeInt, MaybeStr, Record

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLE: Final = Path(str(files("ecocompute_cube") / "published" / "measured.csv"))
NOT_PUBLISHED: Final = Absent(reason="not published")


class Published(Record):
    """One arm of one published session, beside FP16 of the same session."""

    id: str  #: file and number of the row among those taken from it
    file: str  #: repository and name of the file
    doi: MaybeStr  #: of the archive that holds it
    license: str
    session: str  #: rows of one session share it
    utc: MaybeStr
    card: MaybeStr  #: which of several cards of one kind
    gpu: str
    gpu_arch: str
    model: str
    params_b: float = Field(gt=0)
    precision: str  #: ours where it is the same, else the publisher's
    runtime: str
    batch_size: int = Field(ge=1)
    prompt_tokens: MaybeInt
    output_tokens: MaybeInt
    energy_per_token_mj: float = Field(gt=0)
    fp16_energy_per_token_mj: float = Field(gt=0)
    vs_fp16_energy_pct: float  #: of these two
    trials: int = Field(ge=1)  #: that the row is the mean of
    mean_power_w: MaybeFloat
    tokens_per_s: MaybeFloat
    fp16_tokens_per_s: MaybeFloat
    perplexity: MaybeFloat
    fp16_perplexity: MaybeFloat
    driver: MaybeStr
    torch: MaybeStr
    transformers: MaybeStr
    bitsandbytes: MaybeStr
    accelerate: MaybeStr
    torchao: MaybeStr
    remarks: tuple[str, ...]  #: codes, explained in published/SOURCES.md

    @property
    def log_ratio(self) -> float:
        """Logarithm of the arm's energy over that of FP16."""
        return math.log(self.energy_per_token_mj / self.fp16_energy_per_token_mj)


COLUMNS: Final = tuple(Published.model_fields)
_NUMBERS: Final = {
    "params_b": float,
    "batch_size": int,
    "prompt_tokens": int,
    "output_tokens": int,
    "energy_per_token_mj": float,
    "fp16_energy_per_token_mj": float,
    "vs_fp16_energy_pct": float,
    "trials": int,
    "mean_power_w": float,
    "tokens_per_s": float,
    "fp16_tokens_per_s": float,
    "perplexity": float,
    "fp16_perplexity": float,
}


@functools.cache
def published() -> tuple[Published, ...]:
    """Every row of the packaged table, in its order."""
    lines = csv.DictReader(io.StringIO(TABLE.read_text(encoding="utf-8")))
    return tuple(Published.model_validate(_values(line)) for line in lines)


def _values(line: Mapping[str, str]) -> dict[str, object]:
    return {name: _value(name, cell) for name, cell in line.items()}


def _value(name: str, cell: str) -> object:
    if name == "remarks":
        return tuple(cell.split())
    if not cell:
        return NOT_PUBLISHED
    return _NUMBERS[name](cell) if name in _NUMBERS else cell
