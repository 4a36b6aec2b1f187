"""What a checkpoint must be to be measured, by the names of its files and the words of its JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from ecocompute_cube.download.checkpoint import CONFIG, CONVERT, SAFETENSORS
from ecocompute_cube.errors import ModelError

#: What transformers reads besides the weights, and what tells the licence.
_WANTED: Final = (
    CONFIG,
    "generation_config.json",
    "tokenizer*.json",
    "tokenizer*.model",
    "spiece.model",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
    "LICENSE*",
    "LICENCE*",
    "COPYING*",
    "NOTICE*",
)
_LICENSES: Final = ("LICENSE*", "LICENCE*", "COPYING*")
#: Any one of these sets is a whole tokenizer.
_TOKENIZERS: Final = (
    ("tokenizer.json",),
    ("tokenizer.model",),
    ("spiece.model",),
    ("vocab.json", "merges.txt"),
)
_PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
_NEVER: Final = (*_PICKLES, "*.py")  # whatever else the name says
_DECODERS: Final = ("CausalLM", "LMHead")  # in the class names of transformers' text generators

#: The two files in which a model may ask for code of its own.
MAY_NAME_CODE: Final = (CONFIG, "tokenizer_config.json")


def wanted(names: Iterable[str]) -> list[str]:
    """Which of these files loading and the licence need besides the weights."""
    return sorted(name for name in names if _any(_WANTED, name) and not _any(_NEVER, name))


def licenses(names: Iterable[str]) -> list[str]:
    """Which of these files hold a licence."""
    return [name for name in wanted(names) if _any(_LICENSES, name)]


def refuse_config(model: str, config: Mapping[str, object]) -> None:
    """Refuse what generates no text. Raises ModelError."""
    classes = config.get("architectures")
    if isinstance(classes, list) and not _any_decoder(classes):
        raise ModelError(
            f"'{model}' is a {', '.join(map(str, classes))}, which does not generate text.",
            "Give a decoder-only text model, such as a LlamaForCausalLM.",
        )


def refuse_only_pickles(model: str, names: Iterable[str]) -> None:
    """Refuse weights that only a pickle holds. Raises ModelError."""
    listed = sorted(names)
    pickles = [name for name in listed if _any(_PICKLES, name)]
    if pickles and not any(name.endswith(SAFETENSORS) for name in listed):
        raise ModelError(
            f"'{model}' holds its weights only as a pickle ({pickles[0]}), "
            "and opening a pickle runs whatever code is in it.",
            CONVERT,
        )


def refuse_code(model: str, file: str, data: Mapping[str, object]) -> None:
    """Refuse a model that brings the Python code it loads with. Raises ModelError."""
    if "auto_map" in data:
        raise ModelError(
            f"'{model}' needs Python code of its own to load (auto_map in {file}), "
            "and code that comes with a model is never run here.",
            "Use a version of the model that transformers knows by itself.",
        )


def require_tokenizer(model: str, names: Collection[str], remedy: str) -> None:
    """Refuse a model without a whole tokenizer. Raises ModelError."""
    if not any(all(name in names for name in whole) for whole in _TOKENIZERS):
        raise ModelError(
            f"'{model}' has no tokenizer (tokenizer.json, tokenizer.model, or vocab.json "
            "with merges.txt). Energy could be measured without one, but prompts come from real "
            "text.",
            remedy,
        )


def _any(globs: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _any_decoder(classes: list[object]) -> bool:
    return any(word in str(name) for name in classes for word in _DECODERS)
