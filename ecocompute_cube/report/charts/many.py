"""What a chart draws of more arms than it has room for: the mean over those that are alike."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

MOST_ARMS: Final = 50  #: beyond, a chart shows models
MOST_MEANS: Final = 200  #: beyond, it shows the first of them

T = TypeVar("T")


def first_of(arms: int) -> str:
    """What a chart says that has no room for all of them; nothing where it has."""
    if arms <= MOST_ARMS:
        return ""
    return f" Drawn are the first {MOST_ARMS} of {arms} arms; the table holds all."


def meant(arms: int, means: int, of: str) -> str:
    """What a chart says that draws means of so many arms; nothing where it draws the arms."""
    if arms <= MOST_ARMS:
        return ""
    cut = f" Of {means} means the first {MOST_MEANS} are drawn." if means > MOST_MEANS else ""
    told = f" Of {arms} arms it draws the mean over those of one {of}; the table holds all."
    return told + cut


def alike(each: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Those of one key together, in the order of the first of each."""
    found: dict[Hashable, list[T]] = defaultdict(list)
    for one in each:
        found[key(one)].append(one)
    return list(found.values())
