"""What is asked of the estimator, checked: every mistake names its parameter and a remedy."""

from __future__ import annotations

import difflib
import math
import re
from types import MappingProxyType
from typing import Final, NamedTuple

from ecocompute_cube.analysis.cards import ARCHES, Card, arch, card
from ecocompute_cube.analysis.mechanism import MEASURED_CONTEXT
from ecocompute_cube.analysis.shapes import BITS
from ecocompute_cube.errors import UsageError

LEAST_B: Final = 0.01  # smaller ones are no language models
MOST_B: Final = 2000.0  # above the largest open model
MOST_BATCH: Final = 4096
MOST_CONTEXT: Final = 2_097_152
RUNTIMES: Final = ("eager", "loop", "static", "graph", "compiled")
BASELINE: Final = "FP16"
_SHOWN: Final = 40  # characters of a wrong value that a message repeats


class Query(NamedTuple):
    """One question, in order."""

    params_b: float
    card: Card
    arch: str | None  #: where a generation was named in place of a board
    precision: str
    runtime: str
    batch: int
    context: int


def query(
    params_b: float,
    *,
    gpu: str | None = None,
    arch: str | None = None,
    precision: str = "NF4",
    runtime: str = "eager",
    batch: int = 1,
    context: int = MEASURED_CONTEXT,
) -> Query:
    """Check and name everything. Raises UsageError."""
    on, generation = _board(gpu, arch)
    return Query(
        size(params_b),
        on,
        generation,
        precision_named(precision),
        runtime_named(runtime),
        whole("batch", batch, MOST_BATCH),
        whole("context", context, MOST_CONTEXT),
    )


def _board(gpu: str | None, generation: str | None) -> tuple[Card, str | None]:
    if isinstance(gpu, str) and generation is None and gpu.casefold().strip() in ARCHES:
        gpu, generation = None, gpu  # a generation, named as a board
    if gpu is not None:
        found = card(_text("gpu", gpu))
        if generation is not None and arch(_text("arch", generation)).card.arch != found.arch:
            raise UsageError(
                f"arch: {found.name} is of {found.arch}, not of {generation[:_SHOWN]}.",
                "Give gpu or arch, not both.",
            )
        return found, None
    if generation is None:
        raise UsageError(
            "arch: nothing says which board is meant.",
            f"Give a board as gpu, or one of these as arch: {', '.join(ARCHES)}.",
        )
    found = arch(_text("arch", generation)).card
    return found, found.arch


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise UsageError(f"{name}: {shown(value)} is no name.", "Give it as text.")


def size(value: object) -> float:
    """Billions of parameters. Raises UsageError."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if LEAST_B <= value <= MOST_B:
            return float(value)
        if not isinstance(value, float) or math.isfinite(value):
            raise UsageError(
                f"params_b: {shown(value)} billion parameters is beyond what is sensible.",
                f"Give billions of parameters from {LEAST_B:g} to {MOST_B:g}: 7 for a 7B.",
            )
    raise UsageError(
        f"params_b: {shown(value)} is no number of parameters.",
        "Give billions of parameters: 7 for a 7B.",
    )


def whole(name: str, value: object, most: int) -> int:
    """A whole number from 1. Raises UsageError."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # in JSON 32.0 is a whole number too
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return value
    raise UsageError(
        f"{name}: {shown(value)} is not a whole number from 1 to {most}.",
        f"Give {name} as a whole number, or leave it out.",
    )


def positive(name: str, value: object) -> float:
    """A finite number above zero. Raises UsageError."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
        return float(value)
    raise UsageError(
        f"{name}: {shown(value)} is not a number above zero.",
        f"Give {name} as a number, or leave it out.",
    )


def shown(value: object) -> str:
    """A wrong value, short enough for a sentence."""
    try:
        text = f"'{value}'" if isinstance(value, str) else str(value)
    except ValueError:  # an integer of more digits than Python writes
        text = "such a number"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# Names


def _key(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


PRECISION_KEYS: Final = MappingProxyType(
    {_key(name): name for name in BITS}
    | {
        "4bit": "NF4",
        "q4": "NF4",
        "8bit": "INT8",
        "q8": "INT8",
        "half": "FP16",
        "16bit": "FP16",
        "float16": "FP16",
        "bfloat16": "BF16",
        "int4": "INT4-WO",
    }
)


def precision_named(name: object) -> str:
    """As this package writes it. Raises UsageError."""
    found = BITS.get(name) if isinstance(name, str) else None
    if found is not None:
        return str(name)
    key = _key(_text("precision", name))
    if key in PRECISION_KEYS:
        return PRECISION_KEYS[key]
    if key == "fp8":
        raise UsageError(
            "precision: FP8 is two things.",
            "Give FP8-WO (weights alone) or FP8-DYN (weights and activations).",
        )
    raise UsageError(
        f"precision: {shown(name)} is not known here.",
        _meant(key, PRECISION_KEYS, tuple(BITS)),
    )


def runtime_named(name: object) -> str:
    """As this package writes it. Raises UsageError."""
    if name in RUNTIMES:
        return str(name)
    key = _text("runtime", name).casefold().strip()
    if key in RUNTIMES:
        return key
    known = {each: each for each in RUNTIMES}
    raise UsageError(f"runtime: {shown(name)} is not known here.", _meant(key, known, RUNTIMES))


def _meant(
    key: str, known: MappingProxyType[str, str] | dict[str, str], all_: tuple[str, ...]
) -> str:
    close = difflib.get_close_matches(key[:_SHOWN], known, n=1)
    return f"Did you mean {known[close[0]]}?" if close else f"Known: {', '.join(all_)}."
