"""Which board holds which layers of a split model: a device map, as accelerate takes it.

Like numbers of layers one after the other, the embedding before the first of them and the head
after the last. Neither the precision nor what is free at the moment has a part in it, so that arms
of one model are split alike; the library's own ``device_map="auto"`` goes by both, and leaves a
board empty where the embedding is large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ecocompute_cube.errors import ArmFailed

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn


def split_over(folder: Path, boards: int) -> dict[str, int]:
    """The board of each module of the checkpoint in ``folder``, whose weights are not looked at.

    Raises ArmFailed: ``board_unused`` where there are fewer layers than boards, or none that can
    be told.
    """
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    with torch.device("meta"):
        model: nn.Module = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    return places(model, boards)


def places(model: nn.Module, boards: int) -> dict[str, int]:
    """The board of each module that holds tensors; layers stay whole. Raises ArmFailed."""
    stack, layers = _layers(model)
    if layers < boards:
        raise ArmFailed(
            "board_unused",
            f"The model has {layers} layers that can be told apart, too few for {boards} boards.",
            "Lower boards in the plan.",
        )
    found: dict[str, int] = {}
    place = 0
    for name, module in model.named_modules():
        if name == stack:
            found |= {f"{name}.{n}": n * boards // layers for n in range(layers)}
            place = boards - 1
        elif not name.startswith(f"{stack}.") and _holds(module):
            found[name] = place if any(True for _ in module.parameters()) else 0
    return found | _tied(model)


def _layers(model: nn.Module) -> tuple[str, int]:
    """Name and length of the decoder's list of layers; experts may make lists too, within it."""
    settings: Any = model.config
    length = settings.get_text_config().num_hidden_layers
    stacks = [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) == length
    ]
    outermost = min(stacks, key=lambda name: name.count("."), default=None)
    return ("", 0) if outermost is None else (outermost, length)


def _holds(module: nn.Module) -> bool:
    """Whether a module has tensors of its own, besides those of its children."""
    own = (*module.parameters(recurse=False), *module.buffers(recurse=False))
    return len(own) > 0


def _tied(model: nn.Module) -> dict[str, int]:
    """A head that is the embedding stays with it."""
    transformer: Any = model
    if not transformer.config.get_text_config().tie_word_embeddings:
        return {}
    head = transformer.get_output_embeddings()
    return {name: 0 for name, module in model.named_modules() if module is head}
