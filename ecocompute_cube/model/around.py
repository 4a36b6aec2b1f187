"""What a plan may say of the steps around a window."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from ecocompute_cube.model.base import Count, MaybeFloat, NonNegative, Record


class Warmup(Record):
    """Unmeasured generations before a window, until speed and temperature have settled.

    The first pass after a load is of full length: every new length of the cache makes the memory
    allocator grow, and that must not happen inside a window. The others are short.
    """

    full_first: bool = True  #: whether the first pass after a load is of full length
    min_passes: int = Field(default=3, ge=1)
    max_passes: int = Field(default=6, ge=1)
    output_tokens: int = Field(default=64, ge=2)  #: of a short pass
    settled_pct: float = Field(default=5.0, gt=0)  #: spread of the last two passes' durations
    settled_c: float = Field(default=2.0, gt=0)  #: spread of the last three temperatures

    @model_validator(mode="after")
    def _ordered(self) -> Warmup:
        if self.max_passes < self.min_passes:
            raise ValueError("max_passes must be at least min_passes")
        return self


class Cooldown(Record):
    """A pause before each visit until the board is cool, after the fixed ``cooldown_s``."""

    until_c: float | None = None  #: as cool as this; null: by ``within_c``
    within_c: float | None = Field(default=None, ge=0)  #: above the session's first temperature
    max_s: float = Field(default=300.0, gt=0, le=3600)  #: the ceiling of each pause

    @model_validator(mode="after")
    def _one_criterion(self) -> Cooldown:
        if (self.until_c is None) == (self.within_c is None):
            raise ValueError("give one of until_c and within_c")
        return self


class Cooled(Record):
    """The board was left alone before a visit, until it was cool or the ceiling was reached."""

    kind: Literal["cooled"] = "cooled"
    arm: str
    session: Count
    group: Count
    block: Count
    first_c: MaybeFloat  #: the session's first temperature
    target_c: MaybeFloat
    temperature_c: MaybeFloat  #: at the end of the pause
    waited_s: NonNegative
    reached: bool


class Quality(Record):
    """Perplexity of the loaded model on a text, after its energy window."""

    enabled: bool = True
    text: str = "builtin"  #: ``builtin`` or a path beside the plan
    window_tokens: int = Field(default=1024, ge=2)
    max_windows: int | None = Field(default=None, ge=1)
