"""What a model of a given size is usually like: layers, cache and weights.

From the public config.json of models that were measured and of their families (Qwen2 and Qwen2.5;
TinyLlama at 1.1B, SmolLM2 at 0.135B, Llama 3.1 at 405B). A model of another maker differs: two
models of one size may have a cache of 57 or of 512 KiB a token.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Final, NamedTuple

GB: Final = 1e9  # what data sheets and the published tool call a gigabyte


class Shape(NamedTuple):
    """Of one size."""

    params_b: float
    layers: float
    cache_bytes: float  #: a token and row, FP16
    embeddings_b: float  #: parameters that no precision here quantizes, 10⁹


KNOWN: Final = (
    Shape(0.135, 30, 23_040, 0.028),
    Shape(0.5, 24, 12_288, 0.136),
    Shape(1.1, 22, 22_528, 0.131),
    Shape(1.5, 28, 28_672, 0.233),
    Shape(3.0, 36, 36_864, 0.311),
    Shape(7.0, 28, 57_344, 1.09),
    Shape(14.0, 48, 196_608, 1.56),
    Shape(32.0, 64, 262_144, 1.56),
    Shape(72.0, 80, 327_680, 2.49),
    Shape(405.0, 126, 516_096, 4.2),
)
_SIZES: Final = tuple(shape.params_b for shape in KNOWN)

#: Bits of a quantized linear weight, with its scales (bitsandbytes and torchao, as loaded).
BITS: Final = {
    "FP16": 16.0,
    "BF16": 16.0,
    "NF4": 4.5,  # a scale in FP32 for 64 weights
    "NF4-DQ": 4.13,  # scales in 8 bits, and those of 256 in FP32
    "INT8": 8.0,
    "INT8-T0": 8.0,
    "FP8-WO": 8.0,
    "FP8-DYN": 8.0,
    "INT8-WO": 8.0,
    "INT4-WO": 4.25,
}
#: Bits of the name alone, as the published tool counts them.
PLAIN_BITS: Final = {name: 4.0 if "4" in name else bits for name, bits in BITS.items()}


def shape(params_b: float) -> Shape:
    """Between known sizes by log size; beyond them by the nearest, grown with its size."""
    n = bisect_left(_SIZES, params_b)
    if n == 0 or n == len(KNOWN):
        near = KNOWN[min(n, len(KNOWN) - 1)]
        grown = params_b / near.params_b
        layers = max(1.0, near.layers * grown ** (1 / 3))  # width and depth grow together
        return Shape(params_b, layers, near.cache_bytes * grown**0.5, near.embeddings_b * grown)
    low, high = KNOWN[n - 1], KNOWN[n]
    part = math.log(params_b / low.params_b) / math.log(high.params_b / low.params_b)
    return Shape(
        params_b,
        low.layers + part * (high.layers - low.layers),
        low.cache_bytes + part * (high.cache_bytes - low.cache_bytes),
        low.embeddings_b + part * (high.embeddings_b - low.embeddings_b),
    )


def weight_bytes(known: Shape, precision: str) -> float:
    """As loaded: embeddings and output stay in 16 bits."""
    linear = known.params_b - known.embeddings_b
    return GB * (known.embeddings_b * 2 + linear * BITS[precision] / 8)
