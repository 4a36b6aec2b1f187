"""Writing a checkpoint whose files depend on the weights alone, and keeping transformers quiet."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.download.checkpoint import CONFIG, INDEX, WEIGHTS
from ecocompute_cube.download.progress import Progress, Say

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PretrainedConfig

SHARD_BYTES: Final = 4_000_000_000  # one shard is all that must fit in memory; 4 GB as the hub does
_BYTES_PER_FP16: Final = 2
#: Left out of config.json: what names a release, or the file that weights were expanded from.
_UNWANTED: Final = frozenset({"transformers_version", "quantization_config", "unk_token_id"})


def shards(sizes: Mapping[str, int], limit: int) -> dict[str, list[str]]:
    """File names, and which parameters go into each: in order, at most ``limit`` bytes a file."""
    groups: list[list[str]] = []
    room = 0
    for name, count in sizes.items():
        if not groups or count > room:
            groups.append([])
            room = limit
        groups[-1].append(name)
        room -= count
    if len(groups) == 1:
        return {WEIGHTS: groups[0]}
    return {
        f"model-{i:05d}-of-{len(groups):05d}.safetensors": group
        for i, group in enumerate(groups, start=1)
    }


def write_weights(
    folder: Path,
    counts: Mapping[str, int],
    tensors: Iterable[tuple[str, Tensor]],
    say: Say,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Save FP16 tensors, which come in the order of ``counts`` (elements each), shard by shard."""
    from safetensors.torch import save_file

    sizes = {name: count * _BYTES_PER_FP16 for name, count in counts.items()}
    plan = shards(sizes, shard_bytes)
    progress = Progress("making weights", sum(sizes.values()), say)
    source = _counted(tensors, sizes, progress)
    for file, names in plan.items():
        save_file(dict(islice(source, len(names))), folder / file, metadata={"format": "pt"})
        (folder / file).chmod(0o644)  # safetensors makes it 0600; measure may be another user
    if len(plan) > 1:
        _write_index(folder, plan, progress.total)


def _counted(
    tensors: Iterable[tuple[str, Tensor]], sizes: Mapping[str, int], progress: Progress
) -> Iterator[tuple[str, Tensor]]:
    for name, value in tensors:
        progress.advance(sizes[name])
        yield name, value


def write_config(folder: Path, config: PretrainedConfig) -> None:
    """Save config.json and generation_config.json, without what depends on the library's version.

    A model whose config has no eos never stops early: its generation_config has none either.
    """
    told = json.loads(config.to_json_string(use_diff=True))
    data = {key: told[key] for key in told if key not in _UNWANTED and not key.startswith("_")}
    data |= {"architectures": config.architectures, "dtype": "float16"}
    tokens = {key: data.get(key) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    write_json(folder / CONFIG, data | tokens)
    write_json(folder / "generation_config.json", tokens)


def write_json(path: Path, data: Mapping[str, object]) -> None:
    """Save a JSON object: one text for one value."""
    text = json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Neither progress bars nor warnings about what is known and dealt with here."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _write_index(folder: Path, plan: Mapping[str, list[str]], total: int) -> None:
    table = {name: file for file, names in plan.items() for name in names}
    write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": table})
