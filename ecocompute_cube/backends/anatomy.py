"""What one decode step of a loaded model has to read and to multiply, by its shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ecocompute_cube.backends.census import matrix_elements, stored_bytes
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.cost import StepCost, Work

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_FMA: Final = 2  # operations of a multiplication with its addition
#: How configurations count experts, of which a token meets a few.
_EXPERTS: Final = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_WHOLE: Final = "full_attention"  # as configurations name layers
_SLIDING: Final = "sliding_attention"


def step_cost(model: PreTrainedModel, context: int) -> StepCost:
    """By the modules and the configuration, of rows of ``context`` tokens at most.

    Absent where they do not tell.
    """
    config = model.config.get_text_config()
    mixed = any(getattr(config, name, None) for name in _EXPERTS)
    some = Absent(reason="a mixture of experts: each token meets some of the weights")
    return StepCost(
        layers=config.num_hidden_layers,
        weights=some if mixed else Work(bytes=_read_bytes(model), flop=_flop(model)),
        position=_position(config, model.dtype.itemsize, context),
    )


def _flop(model: PreTrainedModel) -> int:
    return _FMA * matrix_elements(model)


def _read_bytes(model: PreTrainedModel) -> int:
    """All of it but the table of input embeddings, of which a token reads one row."""
    table: Any = model.get_input_embeddings()
    head: Any = model.get_output_embeddings()
    tied = head is not None and head.weight is table.weight
    return stored_bytes(model) - (0 if tied else stored_bytes(table))


def _position(config: PretrainedConfig, itemsize: int, context: int) -> Work | Absent:
    """Keys and values are read once; each query is multiplied with the ones, weights the others."""
    if getattr(config, "kv_lora_rank", None):
        return Absent(reason="the model's keys and values are compressed (latent attention)")
    if not _attends_to_all(config, context):
        return Absent(reason="some of the layers do not attend to every token before")
    queries = config.num_attention_heads
    pairs = getattr(config, "num_key_value_heads", None) or queries
    size = getattr(config, "head_dim", None) or config.hidden_size // queries
    both = 2 * config.num_hidden_layers * size  # keys and values, of one head
    return Work(bytes=both * pairs * itemsize, flop=_FMA * both * queries)


def _attends_to_all(config: PretrainedConfig, context: int) -> bool:
    """Every layer, within so many tokens."""
    kinds = set(getattr(config, "layer_types", None) or ())
    window = getattr(config, "sliding_window", None) or 0
    if not kinds and window and getattr(config, "use_sliding_window", True):
        kinds = {_SLIDING}
    return kinds <= ({_WHOLE, _SLIDING} if window >= context else {_WHOLE})
