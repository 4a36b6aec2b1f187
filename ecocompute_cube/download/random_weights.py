"""FP16 weights drawn from a seed: for energy where no weights can be had.

They come without a tokenizer, but with the end token of the model whose shape they have. Arms run
to their full length all the same: the end token is masked until then, as it is in a real model, and
masking it is part of every step that ``generate()`` takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube.download.checkpoint import CONFIG
from ecocompute_cube.download.progress import Say, size
from ecocompute_cube.download.source import Identity, require_libraries
from ecocompute_cube.download.writing import (
    SHARD_BYTES,
    quiet_transformers,
    write_config,
    write_weights,
)
from ecocompute_cube.errors import ModelError
from ecocompute_cube.model.architectures import ARCHITECTURES, Architecture
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.manifest import Manifest, Weights
from ecocompute_cube.model.plan import RANDOM_PREFIX

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PretrainedConfig, PreTrainedModel

SEED: Final = 0  # the same for every plan: one architecture, one set of weights
_BYTES_PER_FP16: Final = 2
_TOKENS: Final = ("bos_token_id", "eos_token_id", "pad_token_id")


@dataclass(frozen=True)
class RandomWeights:
    """One architecture, its weights drawn by transformers' own initialisation."""

    name: str
    architecture: Architecture
    shard_bytes: int = SHARD_BYTES
    replaceable: bool = True

    @classmethod
    def named(cls, model: str, known: Mapping[str, Architecture] = ARCHITECTURES) -> RandomWeights:
        """The source for a plan's ``random:NAME``."""
        name = model.removeprefix(RANDOM_PREFIX)
        return cls(name, known[name])

    @property
    def reference(self) -> str:
        """As the plan names it."""
        return RANDOM_PREFIX + self.name

    def announce(self, say: Say) -> str:
        """How much is drawn, and in which shape."""
        return (
            f"drawing {size(self._bytes())} of FP16 weights in the shape of "
            f"{self.architecture.like} from seed {SEED}; nothing is fetched"
        )

    def needs_bytes(self, models_dir: Path) -> int:
        """Size of the weights."""
        return self._bytes()

    def contradicts(self, manifest: Manifest, folder: Path, say: Say) -> str | None:
        """Whether the folder is of another shape or seed, or has other tokens."""
        if (manifest.parameters, manifest.seed) != (self.architecture.parameters, SEED):
            return "it is of another shape or seed"
        told = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        if any(told.get(key) != value for key, value in self._tokens().items()):
            return "it has other first and end tokens"
        return None

    def build(self, folder: Path, say: Say) -> Identity:
        """Draw and save one shard after the other, so that one shard is all that memory holds.

        Files are the same whenever and wherever built with one release of torch and transformers
        on one kind of CPU.
        """
        require_libraries(("torch", "transformers", "safetensors"), "draw weights")
        import torch
        import transformers

        with quiet_transformers(), torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(SEED)
            model = self._empty()
            counts = {name: value.numel() for name, value in model.named_parameters()}
            self._check(sum(counts.values()))
            write_weights(folder, counts, _drawn(model, frozenset(counts)), say, self.shard_bytes)
            write_config(folder, model.config)
        return Identity(
            name=f"{self.name} (random weights)",
            weights=Weights.RANDOM,
            origin=f"Drawn from seed {SEED} by the initialisation of transformers "
            f"{transformers.__version__} with torch {torch.__version__}, in the shape of "
            f"{self.architecture.like}.",
            license=Absent(reason="The weights are random numbers."),
            seed=SEED,
        )

    def _bytes(self) -> int:
        return self.architecture.parameters * _BYTES_PER_FP16

    def _empty(self) -> PreTrainedModel:
        import torch
        from transformers import AutoModelForCausalLM

        with torch.device("meta"):
            model: PreTrainedModel = AutoModelForCausalLM.from_config(
                self._config(), dtype=torch.float16
            )
        model.config.architectures = [type(model).__name__]
        return model

    def _config(self) -> PretrainedConfig:
        from transformers import AutoConfig

        shape = {**self.architecture.shape, **self._tokens()}
        config: PretrainedConfig = AutoConfig.for_model(self.architecture.model_type, **shape)
        return config

    def _tokens(self) -> dict[str, int | float | bool | None]:
        """What the architecture names, and nothing else: classes have defaults of their own."""
        return {key: self.architecture.shape.get(key) for key in _TOKENS}

    def _check(self, found: int) -> None:
        if found != self.architecture.parameters:
            raise ModelError(
                f"transformers builds {self.name} with {found} parameters instead of "
                f"{self.architecture.parameters}.",
                "Install the release of transformers that this package asks for.",
            )


def _drawn(model: PreTrainedModel, wanted: frozenset[str]) -> Iterator[tuple[str, Tensor]]:
    """Each parameter once, drawn just before it is asked for, and then let go."""
    for path, module in model.named_modules():
        names = {key: f"{path}.{key}" for key in module._parameters}
        mine = {key: name for key, name in names.items() if name in wanted}
        if not mine:
            continue  # no weights of its own, or only some that are tied to another module's
        module.to_empty(device="cpu", recurse=False)
        model._init_weights(module)
        ready = [(name, module.get_parameter(key).detach()) for key, name in mine.items()]
        module.to_empty(device="meta", recurse=False)
        yield from ready
