"""Which board CUDA_VISIBLE_DEVICES leaves for this run, read as CUDA reads it.

The first entry decides. The list ends at the first entry that names nothing ("-1", an empty one,
any other word), and a repeated entry hides every board (so does torch's own reading of it).
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from ecocompute_cube.errors import NoDevice, NoGpu
from ecocompute_cube.model.base import MaybeStr, present

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class BoardId(NamedTuple):
    """A board chosen for this run, and what must be said about the choice."""

    uuid: str
    remark: str | None


class Seen(NamedTuple):
    """One installed board, or why it does not answer."""

    uuid: MaybeStr
    name: MaybeStr


def pick(boards: Sequence[Seen], environment: Mapping[str, str]) -> BoardId:
    """The first visible one of these boards, which stand in PCI order and are at least one.

    Raises NoGpu when none is visible, NoDevice for a MIG slice and a board that does not answer.
    """
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return _first(boards)
    entries = [entry.strip() for entry in visible.split(",")]
    if entries[0].startswith("MIG-"):
        raise NoDevice(
            "CUDA_VISIBLE_DEVICES names a MIG slice, and a slice has no power reading of its own.",
            "Choose a whole board: CUDA_VISIBLE_DEVICES=0.",
        )
    keys = list(takewhile(lambda key: key is not None, map(_key, entries)))
    if len(set(keys)) < len(keys):
        raise NoGpu(
            f"CUDA_VISIBLE_DEVICES={visible} names a board twice; CUDA then shows none at all.",
            "Name each board once.",
        )
    match keys[:1]:
        case [int(index)] if index < len(boards):
            return BoardId(_answering(boards[index]), _order_remark(boards, environment))
        case [str(beginning)]:
            return BoardId(_by_beginning(beginning, boards), None)
    raise _not_there(visible, boards)


def _first(boards: Sequence[Seen]) -> BoardId:
    for seen in boards:
        if present(seen.uuid):
            remark = f"{len(boards)} boards; measuring the first" if len(boards) > 1 else None
            return BoardId(seen.uuid, remark)
    return BoardId(_answering(boards[0]), None)


def _answering(seen: Seen) -> str:
    if present(seen.uuid):
        return seen.uuid
    raise NoDevice(
        f"The board does not answer ({seen.uuid.reason}).",
        "Check nvidia-smi; a board that is lost needs a reboot.",
    )


def _key(entry: str) -> int | str | None:
    if entry.startswith("GPU-"):
        return entry
    ordinal = re.match(r"\+?[0-9]+", entry)  # CUDA reads with strtoul: "1x" is 1
    return int(ordinal.group()) if ordinal else None


def _by_beginning(beginning: str, boards: Sequence[Seen]) -> str:
    uuids = [seen.uuid for seen in boards if present(seen.uuid)]
    found = [uuid for uuid in uuids if uuid.startswith(beginning)]
    if len(found) > 1:
        raise NoGpu(
            f"CUDA_VISIBLE_DEVICES={beginning} is how {len(found)} boards' UUIDs begin.",
            "Write more of the UUID (nvidia-smi -L).",
        )
    if not found:
        raise _not_there(beginning, boards)
    return found[0]


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
