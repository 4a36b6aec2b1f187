"""What a plan may say of the steps around a window."""

from __future__ import annotations

from pydantic import Field, model_validator

from ecocompute_cube.model.base import Record


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


class Quality(Record):
    """Perplexity of the loaded model on a text, after its energy window."""

    enabled: bool = True
    text: str = "builtin"  #: ``builtin`` or a path beside the plan
    window_tokens: int = Field(default=1024, ge=2)
    max_windows: int | None = Field(default=None, ge=1)
