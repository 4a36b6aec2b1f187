"""What a checkpoint folder says about itself, read from its JSON and its safetensors headers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from ecocompute_cube.errors import ModelError
from ecocompute_cube.model.base import printable

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"  #: what transformers loads first
INDEX: Final = "model.safetensors.index.json"  #: what it loads otherwise

SAFETENSORS: Final = ".safetensors"  #: what the names of all files with weights end with
CONVERT: Final = (
    "Take the safetensors version, or convert it where you trust it: load it with transformers "
    "and save_pretrained it into a new folder."
)

_TAKE_AGAIN: Final = "Take the checkpoint again from where it was published."
_MAX_HEADER: Final = 100_000_000  # bytes; the safetensors format's own limit
_LFS: Final = b"version https://git-lfs"  # what a pointer file of Git LFS begins with
#: Stored by old checkpoints beside the parameters, but not parameters: causal masks of GPT-2 and
#: GPT-NeoX, and rotary frequencies.
_NOT_PARAMETERS: Final = re.compile(
    r"(^|\.)((attn|attention)\.(masked_)?bias|rotary_emb\.inv_freq)$"
)
#: Names of what a quantized checkpoint holds besides scales, zero points and orders; ``qweight`` is
#: GPTQ's and AWQ's, packed into 32 bits.
_HELD: Final = (".weight", ".bias", ".qweight")
_OUTPUT_HEADS: Final = ("lm_head.weight", "embed_out.weight")  # transformers' names for them
#: Names of the same fact in transformers' configuration classes (GPT-2 has its own).
_LAYERS: Final = ("num_hidden_layers", "n_layer")
_HIDDEN: Final = ("hidden_size", "n_embd")
_VOCABULARY: Final = ("vocab_size",)
_CONTEXT: Final = ("max_position_embeddings", "n_positions")


class Tensor(NamedTuple):
    """One entry of a safetensors header."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Facts:
    """What a manifest says about the shape of a model."""

    architecture: str
    parameters: int
    layers: int
    hidden_size: int
    vocab_size: int
    max_context: int  #: tokens


def describe(folder: Path) -> Facts:
    """The facts of a checkpoint folder, without loading a tensor.

    Raises ModelError for a folder that is not a whole checkpoint of a text model.
    """
    config = read_json(folder / CONFIG)
    return Facts(
        architecture=str(config.get("model_type", "unknown")),
        parameters=count_parameters(folder, config),
        **shape_of(config),
    )


def shape_of(config: Mapping[str, object]) -> dict[str, int]:
    """The facts that a config alone tells.

    Raises ModelError when it leaves one out.
    """
    return {
        "layers": _whole(config, _LAYERS),
        "hidden_size": _whole(config, _HIDDEN),
        "vocab_size": _whole(config, _VOCABULARY),
        "max_context": _whole(config, _CONTEXT),
    }


def read_json(path: Path, model: str | None = None) -> Mapping[str, object]:
    """The JSON object in a file of a model, which is its folder's name where no other is given.

    Raises ModelError when there is none.
    """
    model = model or path.parent.name
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"'{model}' holds no {path.name}.", _TAKE_AGAIN) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{path.name} of '{model}' cannot be read ({error}).", _TAKE_AGAIN
        ) from None
    if not isinstance(data, dict):
        raise ModelError(f"{path.name} of '{model}' is no JSON object.", _TAKE_AGAIN)
    return data


def weight_files(folder: Path) -> tuple[str, ...]:
    """The safetensors files that transformers loads from a folder, and their index if any.

    Raises ModelError, naming the file, when one of them is not there.
    """
    if (folder / WEIGHTS).is_file():
        return (WEIGHTS,)
    if not (folder / INDEX).is_file():
        raise ModelError(
            f"'{folder.name}' holds neither {WEIGHTS} nor {INDEX}.",
            "Save the model in that form with transformers' save_pretrained.",
        )
    shards = shards_in(folder.name, read_json(folder / INDEX))
    for shard in shards:
        _require_shard(folder, shard)
    return (*shards, INDEX)


def shards_in(model: str, index: Mapping[str, object]) -> list[str]:
    """The files that an index names, in order.

    Raises ModelError for an index without them, with one that does not lie in its folder, or with
    one that is not in the form of safetensors.
    """
    table = index.get("weight_map")
    if not isinstance(table, dict) or not table:
        raise ModelError(f"{INDEX} of '{model}' has no weight_map.", _TAKE_AGAIN)
    shards = sorted({str(name) for name in table.values()})
    for shard in shards:
        _refuse_shard(model, shard)
    return shards


def _refuse_shard(model: str, shard: str) -> None:
    named = f"{INDEX} of '{model}' names '{printable(shard)}'"
    if "/" in shard or shard == "..":
        raise ModelError(f"{named}, which does not lie in the folder itself.", _TAKE_AGAIN)
    if not shard.endswith(SAFETENSORS):
        raise ModelError(
            f"{named}, whose name does not end in {SAFETENSORS}: other forms of weights may be "
            "pickles, and opening a pickle runs whatever code is in it.",
            CONVERT,
        )


def _require_shard(folder: Path, shard: str) -> None:
    if not (folder / shard).is_file():
        raise ModelError(
            f"{INDEX} of '{folder.name}' names {printable(shard)}, which is not there.",
            "Fetch that file too: the weights are not whole without it.",
        )


def count_parameters(folder: Path, config: Mapping[str, object]) -> int:
    """Number of parameters by the headers' shapes; an output head tied to the embedding once.

    Of a quantized checkpoint the elements that are packed, without scales.

    Raises ModelError for a file that is no whole safetensors file, and where there are none.
    """
    tied = config.get("tie_word_embeddings") is True
    tensors: dict[str, Tensor] = {}
    for name in weight_files(folder):
        if name != INDEX:
            tensors.update(read_header(folder / name))
    count = sum(
        math.prod(tensor.shape) * _packed(name, tensor, config)
        for name, tensor in tensors.items()
        if not (tied and name in _OUTPUT_HEADS) and not _NOT_PARAMETERS.search(name)
    )
    if count < 1:
        raise ModelError(f"'{folder.name}' holds no parameters.", _TAKE_AGAIN)
    return count


def _packed(name: str, tensor: Tensor, config: Mapping[str, object]) -> int:
    """How many elements one stored number stands for; none where it is a scale of others."""
    shipped = config.get("quantization_config")
    if not isinstance(shipped, dict):
        return 1
    if not name.endswith(_HELD):
        return 0
    if tensor.dtype == "U8" and shipped.get("load_in_4bit") is True:
        return 2  # bitsandbytes: two to a byte
    if tensor.dtype == "I32":
        bits = shipped.get("bits", 4)
        return 32 // bits if isinstance(bits, int) and bits > 0 else 1
    return 1


def read_header(path: Path) -> dict[str, Tensor]:
    """Names, types and shapes in a safetensors file whose size is what its header says.

    Raises ModelError for anything else.
    """
    start = b""
    try:
        with path.open("rb") as file:
            start = file.read(len(_LFS))
            file.seek(0)
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, _MAX_HEADER)))
        expected = 8 + length + _data_bytes(header)
        tensors = _tensors(header)
    except OSError as error:
        raise ModelError(f"{path.name} cannot be read ({error.strerror}).", _TAKE_AGAIN) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _not_safetensors(path, start) from None
    if path.stat().st_size != expected:
        raise ModelError(
            f"{path.name} is cut short: it has {path.stat().st_size} of {expected} bytes.",
            "Fetch that file again.",
        )
    return tensors


def _data_bytes(header: dict[str, dict[str, list[int]]]) -> int:
    ends = (entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    return max(ends, default=0)


def _tensors(header: dict[str, dict[str, list[int]]]) -> dict[str, Tensor]:
    return {
        name: Tensor(str(entry["dtype"]), tuple(entry["shape"]))
        for name, entry in header.items()
        if name != "__metadata__"
    }


def _not_safetensors(path: Path, start: bytes) -> ModelError:
    if start == _LFS:
        return ModelError(
            f"{path.name} is only a Git LFS pointer, not the weights.",
            "Run `git lfs pull` in the folder it came from.",
        )
    return ModelError(f"{path.name} is not a safetensors file.", "Fetch that file again.")


def _whole(config: Mapping[str, object], names: tuple[str, ...]) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and value >= 1:
            return value
    raise ModelError(
        f"{CONFIG} does not say {' or '.join(names)}.",
        "Only decoder-only text models with a complete config.json can be measured.",
    )
