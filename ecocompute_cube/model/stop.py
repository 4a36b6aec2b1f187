"""When a session has enough blocks: at a number, or at a width. Stored before the first window."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from ecocompute_cube.model.base import Count, MaybeFloat, Record

LEAST_BLOCKS: Final = 8  # with fewer, how narrow an interval looks is mostly luck (docs/method.md)

EndedBy = Literal["narrow enough", "maximum", "nothing to wait for"]


class FixedStop(Record):
    """The plan's ``blocks``, whatever they show."""

    rule: Literal["fixed"] = "fixed"


class AdaptiveStop(Record):
    """Until every contrast's interval is narrow enough, between a least and a greatest number."""

    rule: Literal["adaptive"] = "adaptive"
    #: half of the interval of every contrast's ratio, in percent of the ratio
    half_width_pct: float = Field(default=2.0, gt=0, lt=100)
    min_blocks: int = Field(default=LEAST_BLOCKS, ge=LEAST_BLOCKS, le=1000)
    max_blocks: int = Field(default=40, ge=LEAST_BLOCKS, le=1000)

    @model_validator(mode="after")
    def _ordered(self) -> AdaptiveStop:
        if self.max_blocks < self.min_blocks:
            raise ValueError("max_blocks must be at least min_blocks")
        return self


Stop = Annotated[FixedStop | AdaptiveStop, Field(discriminator="rule")]


class Stopped(Record):
    """The adaptive rule ended a session's blocks of one group; anyone can work it out again."""

    kind: Literal["stopped"] = "stopped"
    session: Count
    group: Count
    blocks: Count  #: complete ones, of this session and group
    reason: EndedBy
    widest_pct: MaybeFloat  #: half-width of the widest interval, in percent of its ratio


class Stopping(Record):
    """What ended a session's blocks of one group of arms."""

    session: Count
    group: Count
    rule: Literal["fixed", "adaptive"]
    blocks: Count  #: complete ones
    ended: bool  #: by the rule, looked at again from the evidence
    reason: str  #: one sentence
