"""Decoding to measure with: ``generate()``, and one decode step captured as a CUDA graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from transformers import PreTrainedModel

_PROMPT: Final = tuple(range(10, 20))
_WARM_STEPS: Final = 3  # before a capture: libraries allocate in their first calls

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


def eager(model: PreTrainedModel, tokens: int) -> Callable[[], None]:
    """Greedy ``generate()`` of so many tokens."""
    import torch
    from transformers import GenerationConfig

    prompt = torch.tensor([_PROMPT], device=model.device)
    greedy = GenerationConfig(do_sample=False, min_new_tokens=tokens, max_new_tokens=tokens)

    def decode() -> None:
        with torch.inference_mode():
            model.generate(inputs=prompt, generation_config=greedy)

    return decode


class Loop:
    """One decode step over a static cache, captured where there is CUDA and replayed per token."""

    def __init__(self, model: PreTrainedModel, tokens: int) -> None:
        import torch
        from transformers import StaticCache

        self._model = model
        self._tokens = tokens
        self._cache = StaticCache(config=model.config, max_cache_len=tokens + _WARM_STEPS + 1)
        self._token = torch.full((1, 1), _PROMPT[0], dtype=torch.long, device=model.device)
        self._position = torch.zeros((1, 1), dtype=torch.long, device=model.device)
        self._replay: Callable[[], None] = self._step
        if model.device.type == "cuda":
            self._replay = self._captured().replay

    def _step(self) -> None:
        logits = self._model(
            input_ids=self._token,
            position_ids=self._position,
            past_key_values=self._cache,
            use_cache=True,
        ).logits
        self._token.copy_(logits[:, -1:].argmax(-1))
        self._position.add_(1)

    def _captured(self) -> torch.cuda.CUDAGraph:
        import torch

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(_WARM_STEPS):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            self._step()
        return graph

    def decode(self) -> list[int]:
        """So many tokens from one; what came last, for those who want to compare."""
        import torch

        # A replayed step moves the cache's length along: it must begin at zero each time.
        with torch.no_grad():
            self._cache.reset()
            self._position.zero_()
            self._token.fill_(_PROMPT[0])
            for _ in range(self._tokens):
                self._replay()
        return [int(self._position), int(self._token)]
