"""What transformers is given to quantize with, by the table's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.backends.precision import RECIPES

if TYPE_CHECKING:
    from transformers.utils.quantization_config import QuantizationConfigMixin

    from ecocompute_cube.model.plan import Precision


def quantizer(precision: Precision) -> QuantizationConfigMixin | None:
    """The configuration of the precision's library; None where nothing is quantized here.

    Raises ImportError when the library is not there.
    """
    recipe = RECIPES[precision]
    if recipe.library == "bitsandbytes":
        import torch
        from transformers import BitsAndBytesConfig

        return BitsAndBytesConfig(bnb_4bit_compute_dtype=torch.float16, **recipe.asked)
    if recipe.library == "torchao":
        import torchao.quantization
        from transformers import TorchAoConfig

        keywords = dict(recipe.asked)
        kind = getattr(torchao.quantization, str(keywords.pop("config")))
        return TorchAoConfig(kind(**keywords))
    return None
