"""Which boards CUDA_VISIBLE_DEVICES leaves for this run, read as CUDA reads it.

The first entries decide, as many as the run wants boards. The list ends at the first entry that
names nothing ("-1", an empty one, any other word), and a repeated entry hides every board (so does
torch's own reading of it).
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from ecocompute_cube.device.binding import NOT_SUPPORTED
from ecocompute_cube.device.refusals import integrated
from ecocompute_cube.errors import MigSlice, NoDevice, NoGpu
from ecocompute_cube.model.base import MaybeStr, present

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Candidate(NamedTuple):
    """A board that this run may measure, and what must be said about the choice."""

    ordinal: int  #: in PCI order, as CUDA_VISIBLE_DEVICES counts
    uuid: str
    name: str
    remark: str | None


class Seen(NamedTuple):
    """One installed board, or why it does not answer."""

    uuid: MaybeStr
    name: MaybeStr


def candidates(
    boards: Sequence[Seen], environment: Mapping[str, str], count: int = 1
) -> tuple[Candidate, ...]:
    """The visible ones of these boards, which stand in PCI order and are at least one.

    At most ``count`` where CUDA_VISIBLE_DEVICES names any: its first. Otherwise every board that
    answers. Raises NoGpu when none is visible, MigSlice, IntegratedBoard, and NoDevice where no
    board answers.
    """
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return _all(boards, count)
    return _named(visible, boards, environment, count)


def _all(boards: Sequence[Seen], count: int) -> tuple[Candidate, ...]:
    answering = [index for index, seen in enumerate(boards) if present(seen.uuid)]
    if not answering:
        _answering(boards[0])
    several = len(boards) > count
    return tuple(
        _candidate(index, boards, _choice_remark(index, boards) if several else None)
        for index in answering
    )


def _choice_remark(index: int, boards: Sequence[Seen]) -> str:
    return (
        f"{len(boards)} boards and none named: this is board {index}, the first that is free "
        "(CUDA_VISIBLE_DEVICES=INDEX chooses another)"
    )


def _candidate(index: int, boards: Sequence[Seen], remark: str | None) -> Candidate:
    name = boards[index].name
    uuid = _answering(boards[index])
    return Candidate(index, uuid, name if present(name) else "no name", remark)


def _named(
    visible: str, boards: Sequence[Seen], environment: Mapping[str, str], count: int
) -> tuple[Candidate, ...]:
    entries = [entry.strip() for entry in visible.split(",")]
    if entries[0].startswith("MIG-"):
        raise MigSlice(
            "CUDA_VISIBLE_DEVICES names a MIG slice, and a slice has no power reading of its own.",
            "Choose a whole board: CUDA_VISIBLE_DEVICES=0.",
        )
    keys = list(takewhile(lambda key: key is not None, map(_key, entries)))
    if len(set(keys)) < len(keys):
        raise _twice(visible)
    places: list[tuple[int, str | None]] = []
    for key in keys[:count]:
        if isinstance(key, int) and key < len(boards):
            places.append((key, _order_remark(boards, environment)))
        elif isinstance(key, str) and not (places and _is_lost(key, boards)):
            places.append((_by_beginning(key, boards), None))
        else:
            break  # the list ends here
    if not places:
        raise _not_there(visible, boards)
    if len({index for index, _ in places}) < len(places):
        raise _twice(visible)
    return tuple(_candidate(index, boards, remark) for index, remark in places)


def _answering(seen: Seen) -> str:
    if present(seen.uuid):
        return seen.uuid
    if seen.uuid.reason == NOT_SUPPORTED:  # so answer boards of Jetson
        raise integrated("The board tells of no UUID")
    raise NoDevice(
        f"The board does not answer ({seen.uuid.reason}).",
        "Check nvidia-smi; a board that is lost needs a reboot.",
    )


def _key(entry: str) -> int | str | None:
    if entry.startswith("GPU-"):
        return entry
    # CUDA reads with strtoul: "1x" is 1, and what does not fit 64 bits is no board's index.
    ordinal = re.match(r"\+?[0-9]{1,18}(?![0-9])", entry)
    return int(ordinal.group()) if ordinal else None


def _is_lost(beginning: str, boards: Sequence[Seen]) -> bool:
    """Whether no board's UUID begins so."""
    return not any(present(seen.uuid) and seen.uuid.startswith(beginning) for seen in boards)


def _by_beginning(beginning: str, boards: Sequence[Seen]) -> int:
    found = [
        index
        for index, seen in enumerate(boards)
        if present(seen.uuid) and seen.uuid.startswith(beginning)
    ]
    if len(found) > 1:
        raise NoGpu(
            f"CUDA_VISIBLE_DEVICES={beginning} is how {len(found)} boards' UUIDs begin.",
            "Write more of the UUID (nvidia-smi -L).",
        )
    if not found:
        raise _not_there(beginning, boards)
    return found[0]


def _twice(visible: str) -> NoGpu:
    return NoGpu(
        f"CUDA_VISIBLE_DEVICES={visible} names a board twice; CUDA then shows none at all.",
        "Name each board once.",
    )


def _not_there(visible: str, boards: Sequence[Seen]) -> NoGpu:
    return NoGpu(
        f"CUDA_VISIBLE_DEVICES={visible or '(empty)'} shows no board ({len(boards)} installed).",
        "Unset it, or name an installed board by index or UUID (nvidia-smi -L).",
    )


def _order_remark(boards: Sequence[Seen], environment: Mapping[str, str]) -> str | None:
    """CUDA counts the fastest board first unless told otherwise; NVML and we count by PCI bus."""
    alike = len({seen.name if present(seen.name) else None for seen in boards}) == 1
    if alike or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return None
    return "boards of several kinds: the index is taken in PCI order, as nvidia-smi counts"
