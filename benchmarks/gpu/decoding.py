"""A random model to measure with, and the product's own decoders on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ecocompute_cube.model.plan import Runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from transformers import PreTrainedModel

PROMPT: Final = tuple(range(10, 20))

#: Qwen2-0.5B's shape (its config.json); weights are drawn, nothing is downloaded.
HALF_BILLION: Final = {
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151_936,
    "tie_word_embeddings": True,
}

#: Qwen2-7B's, from the same place.
SEVEN_BILLION: Final = {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152_064,
    "tie_word_embeddings": False,
}


def random_model(device: str, shape: dict[str, Any] = HALF_BILLION) -> PreTrainedModel:
    """A Qwen2 model of this shape with weights from a seed; FP16 on a GPU, FP32 elsewhere."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(1)
    torch.set_default_dtype(torch.float16 if device.startswith("cuda") else torch.float32)
    try:
        with torch.device(device):
            return Qwen2ForCausalLM(Qwen2Config(**shape)).eval()
    finally:
        torch.set_default_dtype(torch.float32)


def decoding(model: PreTrainedModel, runtime: Runtime, tokens: int) -> Callable[[], torch.Tensor]:
    """So many tokens after a prompt of ten, by one runtime, made ready."""
    import torch

    from ecocompute_cube.backends.decoders import decoder_for

    prompt = torch.tensor([PROMPT], device=model.device)
    decoder = decoder_for(runtime, model, ())
    decoder.prepare(prompt, tokens)
    return lambda: decoder.generate(prompt, tokens)
