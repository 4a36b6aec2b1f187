"""Does a loaded layer compute what its own weights say?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import torch

from ecocompute_cube.model.base import Absent, MaybeFloat

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn

_ROWS: Final = 8
_SEED: Final = 0
_PLAIN: Final = frozenset({torch.float16, torch.bfloat16, torch.float32})
_NONSENSE: Final = 1e6  # stands for a product that is no number


@torch.no_grad()
def probe_error(layers: Iterable[nn.Module]) -> MaybeFloat:
    """‖y − y*‖ / ‖y*‖ of a random product by the first layer; y* by its weights, in FP32.

    A library that falls back to wrong kernels gives wrong products without a word.
    """
    layer: Any = next(iter(layers), None)
    if layer is None:
        return Absent(reason="the model has no linear layer to try")
    try:
        return _error(layer)
    except torch.OutOfMemoryError:
        return Absent(reason="no memory is left to try a product")


def _error(layer: Any) -> MaybeFloat:  # noqa: ANN401 (any library's linear layer)
    weight = _weight(layer)
    if weight is None:
        return Absent(reason=f"the weights of {type(layer).__name__} cannot be read back")
    dice = torch.Generator().manual_seed(_SEED)
    dtype = layer.weight.dtype if layer.weight.dtype in _PLAIN else torch.float16
    rows = torch.randn(_ROWS, layer.in_features, generator=dice).to(weight.device, dtype)
    exact = rows.float() @ weight.float().T
    if layer.bias is not None:
        exact += layer.bias.float()
    error = float((layer(rows).float() - exact).norm() / exact.norm())
    return error if math.isfinite(error) else _NONSENSE


def _weight(layer: Any) -> torch.Tensor | None:  # noqa: ANN401 (any library's linear layer)
    """The matrix (out, in) that a layer stands for."""
    weight = layer.weight
    if type(layer).__name__ == "Linear4bit":
        from bitsandbytes.functional import dequantize_4bit

        blocks: torch.Tensor = dequantize_4bit(weight.data, weight.quant_state)
        return blocks
    if type(layer).__name__ == "Linear8bitLt":
        # Rows are scaled to ±127 (bitsandbytes 0.50); a first product moves both into the state.
        scales = weight.SCB if weight.SCB is not None else layer.state.SCB
        values = weight.CB if weight.CB is not None else layer.state.CB
        rows: torch.Tensor = values.float() * scales.float()[:, None] / 127
        return rows
    if hasattr(weight, "tensor_data_names"):
        stood_for: torch.Tensor | None = getattr(weight, "dequantize", lambda: None)()
        return stood_for
    plain: torch.Tensor = weight
    return plain if plain.dtype in _PLAIN else None  # others have scales that only they know
