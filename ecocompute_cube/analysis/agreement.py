"""Do two arms say the same? Greedy output, token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.claims import Agreement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.analysis.evidence import Evidence


def agreement(ids: Sequence[int], others: Sequence[int]) -> Agreement:
    """Two outputs of one length, of one token at least. Raises ValueError for others."""
    alike = [a == b for a, b in zip(ids, others, strict=True)]
    return Agreement(
        tokens=len(alike),
        before_first_difference=alike.index(False) if False in alike else len(alike),
        alike=sum(alike),
    )


def output_of(known: Evidence, arm: str, against: str) -> Agreement | Absent:
    """Of the first prompt's first row, where both arms had the same prompts and lengths."""
    prompts = [_prompts(known, each) for each in (arm, against)]
    if None in prompts or prompts[0] != prompts[1]:
        return Absent(reason="the arms had different prompts, or one was never loaded")
    ids, others = (known.first_ids.get(each, ()) for each in (arm, against))
    if not ids or not others:
        return Absent(reason="no window tells its output")
    if len(ids) != len(others):
        return Absent(reason="the outputs are not of one length")
    return agreement(ids, others)


def _prompts(known: Evidence, arm: str) -> str | None:
    ready = known.ready.get(arm, ())
    return ready[0].prompt_sha256 if ready else None
