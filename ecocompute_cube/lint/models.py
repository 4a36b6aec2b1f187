"""What the name of a model tells: its size, and whether its weights are published in 16 bits."""

from __future__ import annotations

import re
from typing import Final

#: "3B" or "500M" between other parts of a name; not "8x7B", whose experts share their attention,
#: and not "A3B", which counts the parameters of one step.
_SIZE: Final = re.compile(
    r"(?<![\w.])(\d{1,4}(?:\.\d{1,3})?)([bBmM])(?![A-Za-z0-9])|(?<=[-_])(\d{1,4})p(\d)([bB])(?![\w])"
)
_EXPERTS: Final = re.compile(r"\d+x\d+|(?<![a-z])a\d+(?:\.\d+)?b(?![a-z])|moe", re.IGNORECASE)
_MILLIONS: Final = 1000
_BITS: Final = re.compile(r"awq|gptq|ggu?f|ggml|int[48]|[48]bit|fp[48]|bnb|w[48]a", re.IGNORECASE)

#: Publishers' own checkpoints whose config.json says bfloat16 or float16.
_SIXTEEN: Final = re.compile(
    r"""(?:
    meta-llama/(?:Meta-)?Llama-(?:2|3)
    | mistralai/(?:Mistral|Mixtral|Ministral)-
    | Qwen/Qwen(?:1\.5|2|2\.5|3)-
    | google/gemma-
    | microsoft/(?:Phi-3|Phi-3\.5|phi-4|Phi-4)
    | HuggingFaceTB/SmolLM2-
    | TinyLlama/TinyLlama-1\.1B-Chat-v1\.0
    | 01-ai/Yi-
    | tiiuae/falcon-
    | deepseek-ai/DeepSeek-
    )""",
    re.VERBOSE,
)


def billions(name: str | None) -> float | None:
    """Billions of parameters by a model's name; None where it does not say."""
    if not name or _EXPERTS.search(name):
        return None
    sizes = {_value(match) for match in _SIZE.finditer(name.rpartition("/")[2])}
    return sizes.pop() if len(sizes) == 1 else None


def _value(match: re.Match[str]) -> float:
    if match[1] is None:
        return float(f"{match[3]}.{match[4]}")
    return float(match[1]) / (_MILLIONS if match[2] in "mM" else 1)


def sixteen_bit(name: str | None) -> bool:
    """Whether these weights are known to be published in 16 bits."""
    return name is not None and _SIXTEEN.match(name) is not None and not quantized(name)


def quantized(name: str | None) -> bool:
    """Whether a name says that its weights are quantized already."""
    return name is not None and _BITS.search(name) is not None
