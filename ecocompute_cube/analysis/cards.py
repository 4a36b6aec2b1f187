"""Boards and architectures by the names that people give them, with their makers' figures.

Bandwidth, memory, power limit and FP16 rate are data-sheet figures: what a maker promises, never a
measurement. An unknown name is refused with the nearest ones.
"""

from __future__ import annotations

import difflib
import re
from types import MappingProxyType
from typing import Final, NamedTuple

from ecocompute_cube.errors import UsageError

_MOST_SHOWN: Final = 60  # characters of a wrong name that a message repeats


class Card(NamedTuple):
    """One kind of board."""

    name: str  #: as NVML gives it
    arch: str
    memory_gb: float
    bandwidth_gb_s: float
    power_limit_w: float
    fp16_tflops: float  #: of tensor cores, dense
    source: str
    also: tuple[str, ...]  #: what people call it


class Arch(NamedTuple):
    """One generation of boards."""

    label: str
    card: Card  #: the one that is meant where only the generation is named


def _card(
    name: str,
    arch: str,
    figures: tuple[float, float, float, float],
    *also: str,
    source: str = "NVIDIA, data sheet",
) -> Card:
    """Figures: GB, GB/s, W, TFLOPS."""
    return Card(name, arch, *figures, source, also)


_RTX: Final = "NVIDIA, architecture white paper"

CARDS: Final = (
    _card("Tesla T4", "turing", (16, 320, 70, 65), "t4"),
    _card("Tesla V100-SXM2-32GB", "volta", (32, 900, 300, 125), "v100"),
    _card("NVIDIA A100-SXM4-80GB", "ampere", (80, 2039, 400, 312), "a100", "a100 80gb", "a100 sxm"),
    _card("NVIDIA A100-SXM4-40GB", "ampere", (40, 1555, 400, 312), "a100 40gb"),
    _card("NVIDIA A100 80GB PCIe", "ampere", (80, 1935, 300, 312), "a100 pcie"),
    _card("NVIDIA A800-SXM4-80GB", "ampere", (80, 2039, 400, 312), "a800"),
    _card("NVIDIA A10", "ampere", (24, 600, 150, 125), "a10"),
    _card("NVIDIA A40", "ampere", (48, 696, 300, 150), "a40"),
    _card("NVIDIA RTX A6000", "ampere", (48, 768, 300, 155), "a6000"),
    _card(
        "NVIDIA GeForce RTX 3090", "ampere", (24, 936, 350, 142), "rtx 3090", "3090", source=_RTX
    ),
    _card(
        "NVIDIA GeForce RTX 3050 Ti Laptop GPU",
        "ampere",
        (4, 192, 80, 40),
        "rtx 3050 ti",
        "3050 ti",
        source="NVIDIA, product page; the limit is the most a laptop's maker may set",
    ),
    _card("NVIDIA L4", "ada", (24, 300, 72, 121), "l4"),
    _card("NVIDIA L40S", "ada", (48, 864, 350, 362), "l40s"),
    _card("NVIDIA RTX 6000 Ada Generation", "ada", (48, 960, 300, 364), "rtx 6000 ada", "6000 ada"),
    _card("NVIDIA GeForce RTX 4090", "ada", (24, 1008, 450, 330), "rtx 4090", "4090", source=_RTX),
    _card(
        "NVIDIA GeForce RTX 4090 D",
        "ada",
        (24, 1008, 425, 294),
        "rtx 4090 d",
        "rtx 4090d",
        "4090d",
        source=_RTX,
    ),
    _card("NVIDIA GeForce RTX 4080", "ada", (16, 717, 320, 195), "rtx 4080", "4080", source=_RTX),
    _card(
        "NVIDIA GeForce RTX 5090",
        "blackwell",
        (32, 1792, 575, 419),
        "rtx 5090",
        "5090",
        source=_RTX,
    ),
    _card(
        "NVIDIA GeForce RTX 5080", "blackwell", (16, 960, 360, 225), "rtx 5080", "5080", source=_RTX
    ),
    _card("NVIDIA B200", "blackwell", (180, 8000, 1000, 2250), "b200"),
    _card("NVIDIA H100 80GB HBM3", "hopper", (80, 3350, 700, 989), "h100", "h100 sxm"),
    _card("NVIDIA H100 PCIe", "hopper", (80, 2000, 350, 756), "h100 pcie"),
    _card("NVIDIA H200", "hopper", (141, 4800, 700, 989), "h200"),
)


def _key(text: str) -> str:
    """Without case, spaces, dashes and the maker's words."""
    return re.sub(r"nvidia|geforce|tesla|[\W_]+", "", text.casefold())


BY_NAME: Final = MappingProxyType(
    {_key(name): card for card in CARDS for name in (card.name, *card.also)}
)

_AS_WRITTEN: Final = MappingProxyType(
    {name: card for card in CARDS for name in (card.name, *card.also)}
)

#: The board that was measured stands for its generation.
ARCHES: Final = MappingProxyType(
    {
        "turing": Arch("Turing (T4)", BY_NAME["t4"]),
        "volta": Arch("Volta (V100)", BY_NAME["v100"]),
        "ampere": Arch("Ampere (A100, A800)", BY_NAME["a800"]),
        "ada": Arch("Ada (RTX 4090)", BY_NAME["rtx4090"]),
        "hopper": Arch("Hopper (H100, H200)", BY_NAME["h200"]),
        "blackwell": Arch("Blackwell (RTX 5090)", BY_NAME["rtx5090"]),
    }
)

#: Alike but for what one board decoding alone does not use: an A800 is an A100 with slower NVLink.
TWINS: Final = MappingProxyType({"NVIDIA A100-SXM4-80GB": "NVIDIA A800-SXM4-80GB"})


def card(name: str) -> Card:
    """The board of this name. Raises UsageError with the nearest names."""
    found = _AS_WRITTEN.get(name) or BY_NAME.get(_key(name))
    if found is not None:
        return found
    raise UsageError(f"gpu: no board '{name[:_MOST_SHOWN]}' is known here.", _instead(name))


def arch(name: str) -> Arch:
    """The generation of this name. Raises UsageError with the nearest names."""
    found = ARCHES.get(name.casefold().strip())
    if found is not None:
        return found
    close = difflib.get_close_matches(name.casefold(), ARCHES, n=2, cutoff=0.5)
    meant = f"Did you mean {' or '.join(close)}?" if close else f"Known: {', '.join(ARCHES)}."
    if _key(name) in BY_NAME:
        meant = f"It is a board: give it as gpu. Architectures: {', '.join(ARCHES)}."
    raise UsageError(f"arch: no architecture '{name[:_MOST_SHOWN]}' is known here.", meant)


def _instead(name: str) -> str:
    close = difflib.get_close_matches(_key(name), BY_NAME, n=6, cutoff=0.5)
    boards = list(dict.fromkeys(BY_NAME[key].name for key in close))[:3]
    if boards:
        return f"Nearest: {', '.join(boards)}. Or name its generation as arch."
    return f"Name its generation as arch: {', '.join(ARCHES)}."
