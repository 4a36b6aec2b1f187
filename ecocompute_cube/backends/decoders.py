"""How ids are decoded, greedily and to an exact length: one class for each way to drive the step.

    eager      generate(), its cache growing with every token      what most people run
    static     generate() with a static cache, compiled by it      what a user can type
    loop       our step over a static cache, launched by Python    the control of the next two
    graph      that step captured once as a CUDA graph and replayed
    compiled   that step through torch.compile first, then captured

Of one checkpoint all five do the same arithmetic: what differs is who launches the kernels, and
which kernels they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
from transformers import DynamicCache, GenerationConfig, StaticCache

from ecocompute_cube.backends.precision import RECIPES, devices_of
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.plan import CAPTURED, Runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedModel

    from ecocompute_cube.model.plan import Arm

_WARM_STEPS: Final = 3  # before a capture: libraries choose kernels and allocate in their first
CompileOptions = dict[str, str | int | bool | Callable[..., Any]]  #: as torch.compile takes them
#: torch.compile as it comes. Tuning by coordinate descent made a 7B on an H200 2 % faster and took
#: 28 % more energy a token (benchmarks.gpu.compiled, data/h200/figures/compiled-28.csv).
COMPILE_OPTIONS: Final[CompileOptions] = {}


class Decoder(Protocol):
    """Greedy decoding of a loaded model."""

    def prepare(self, prompt: torch.Tensor, output_tokens: int) -> None:
        """Make ready for prompts of this shape (batch, tokens) and up to so many new tokens."""

    def renew(self, prompt: torch.Tensor) -> None:
        """As fresh as after ``prepare``, whatever the board has done for others meanwhile."""

    def generate(self, prompt: torch.Tensor, output_tokens: int) -> torch.Tensor:
        """Ids of shape (batch, prompt + output), on the device; nothing waits for them."""

    def prime(self, prompt: torch.Tensor) -> None:
        """Take the prompt in, and keep what ``decode`` begins from."""

    def decode(self, output_tokens: int) -> torch.Tensor:
        """So many tokens after the primed prompt and its first token, as often as is asked.

        Ids of shape (batch, prompt + output), the prompt's last being that first token.
        """

    def facts(self) -> dict[str, str]:
        """How it decodes, for the certificate."""


def decoder_for(runtime: Runtime, model: PreTrainedModel, ends: Sequence[int]) -> Decoder:
    """The decoder of a runtime; ``ends`` are the model's end tokens, masked to the last."""
    if runtime is Runtime.EAGER:
        return Generate(model, ends)
    if runtime is Runtime.STATIC:
        return Generate(model, ends, cache="static")
    options = COMPILE_OPTIONS if runtime is Runtime.COMPILED else None
    return Steps(model, ends, captured=runtime in CAPTURED, options=options)


def check_runtime(arm: Arm, device: str) -> None:
    """Refuse a pair that cannot be, before anything loads. Raises ArmFailed: not_capturable.

    ``device`` names all devices of a model that is split.
    """
    if arm.runtime not in CAPTURED:
        return
    boards = len(devices_of(device))
    if boards > 1:
        raise ArmFailed(
            "not_capturable",
            f"The runtime {arm.runtime} captures what one board is given as a CUDA graph, and the "
            f"model is split over {boards}.",
            f"Take {arm.precision}/loop (the same step without the graph), or one board.",
        )
    if not RECIPES[arm.precision].capturable:
        raise ArmFailed(
            "not_capturable",
            f"{arm.precision} looks for outliers on the host in every product, so that its step "
            "cannot be captured as a graph.",
            f"Take INT8-T0/{arm.runtime} (no outliers), or {arm.precision}/loop.",
        )
    if not device.startswith("cuda"):
        raise ArmFailed(
            "not_capturable",
            f"The runtime {arm.runtime} is a CUDA graph, and {device} has none.",
            f"Take {arm.precision}/loop: the same step without the graph.",
        )


class Generate:
    """transformers' own generate()."""

    def __init__(
        self, model: PreTrainedModel, ends: Sequence[int], cache: str | None = None
    ) -> None:
        self._model = model
        self._ends = list(ends)
        self._cache = cache
        self._mask = torch.empty(0)
        self._primed = torch.empty(0)
        self._configs: dict[tuple[int, str | None], GenerationConfig] = {}

    def prepare(self, prompt: torch.Tensor, output_tokens: int) -> None:
        """Settings and mask, so that no window has to."""
        self._mask = torch.ones_like(prompt)
        self._room = prompt.shape[1] + 1 + output_tokens
        self._settings(output_tokens, self._cache)
        if self._cache is not None:
            self.generate(prompt, output_tokens)  # makes the cache, and compiles for its length

    def renew(self, prompt: torch.Tensor) -> None:
        """Nothing of it ages."""

    @torch.inference_mode()
    def generate(self, prompt: torch.Tensor, output_tokens: int) -> torch.Tensor:
        """As a user would."""
        ids: torch.Tensor = self._model.generate(
            inputs=prompt,
            attention_mask=self._mask,
            generation_config=self._settings(output_tokens, self._cache),
        )
        return ids

    @torch.inference_mode()
    def prime(self, prompt: torch.Tensor) -> None:
        """Into a cache of our own, which generate() goes on with."""
        config = self._model.config
        static = self._cache is not None
        self._past: StaticCache | DynamicCache = (
            StaticCache(config=config, max_cache_len=self._room)
            if static
            else DynamicCache(config=config)
        )
        logits = self._model(
            input_ids=prompt, past_key_values=self._past, use_cache=True, logits_to_keep=1
        ).logits
        first = _likeliest(logits, torch.tensor(self._ends, dtype=torch.long, device=prompt.device))
        self._primed = torch.cat([prompt, first], dim=1)
        self._all = torch.ones_like(self._primed)

    @torch.inference_mode()
    def decode(self, output_tokens: int) -> torch.Tensor:
        """The cache is cut back to the prompt, and filled again."""
        _rewind(self._past, self._primed.shape[1] - 1)
        ids: torch.Tensor = self._model.generate(
            inputs=self._primed,
            attention_mask=self._all,
            past_key_values=self._past,
            generation_config=self._settings(output_tokens, None),
        )
        return ids[:, 1:]

    def facts(self) -> dict[str, str]:
        """Which cache."""
        done = {"decoding": "generate()", "cache": self._cache or "dynamic"}
        return done | {"compile": self._compiles()} if self._cache is not None else done

    def _compiles(self) -> str:
        """What generate() does of itself with a static cache (transformers 5.17)."""
        quantizer = getattr(self._model, "hf_quantizer", None)
        if self._model.device.type != "cuda":
            return "no: not on a GPU"
        if quantizer is not None and not quantizer.is_compileable:
            return "no: transformers does not compile what this library quantized"
        return "by generate(), with its own settings"

    def _settings(self, output_tokens: int, cache: str | None) -> GenerationConfig:
        key = output_tokens, cache
        if key not in self._configs:
            self._configs[key] = self._config(*key)
        return self._configs[key]

    def _config(self, output_tokens: int, cache: str | None) -> GenerationConfig:
        # Equal lengths for every arm: the end token is masked until the budget is used up.
        return GenerationConfig(
            do_sample=False,
            num_beams=1,
            use_cache=True,
            cache_implementation=cache,
            min_new_tokens=output_tokens,
            max_new_tokens=output_tokens,
            eos_token_id=self._ends or None,
            pad_token_id=self._ends[0] if self._ends else None,
        )


class Steps:
    """One step over a static cache, again and again; every tensor of it stays where it is."""

    def __init__(
        self,
        model: PreTrainedModel,
        ends: Sequence[int],
        *,
        captured: bool = False,
        options: CompileOptions | None = None,
    ) -> None:
        """``options`` are those it is compiled with; without, it is not compiled."""
        self._model = model
        self._ends = torch.tensor(list(ends), dtype=torch.long, device=model.device)
        self._captured, self._options = captured, options
        self._launch: Callable[[], object] = self._step
        self._advance: Callable[[], object] = self._launch

    def prepare(self, prompt: torch.Tensor, output_tokens: int) -> None:
        """Allocate cache and buffers; compile and capture the step where that is asked for."""
        batch, length = prompt.shape
        room = length + 1 + max(output_tokens, _WARM_STEPS + 1)
        self._cache = StaticCache(config=self._model.config, max_cache_len=room)
        self._ids = torch.zeros((batch, room), dtype=torch.long, device=prompt.device)
        self._token = torch.zeros((batch, 1), dtype=torch.long, device=prompt.device)
        self._place = torch.zeros(1, dtype=torch.long, device=prompt.device)  # of ``_token``
        if self._captured:
            _check_capturable(self._model, self._cache, room)
        if self._options is not None:
            self._launch = torch.compile(self._step, dynamic=False, options=self._options)
        self.renew(prompt)

    def renew(self, prompt: torch.Tensor) -> None:
        """Capture the step (anew).

        A graph that was captured before another process computed on the board has been seen to
        replay 17 % faster ever after (benchmarks.gpu.replays): what a process that has the board
        for itself never gets, and what no two visits would share.
        """
        self._advance = self._launch  # frees the graph before
        if self._captured:
            self._advance = self._capture(prompt)

    @torch.no_grad()
    def generate(self, prompt: torch.Tensor, output_tokens: int) -> torch.Tensor:
        """Prompt in one pass, then a step a token."""
        length = prompt.shape[1]
        self._begin(prompt)
        for _ in range(output_tokens - 1):
            self._advance()
        return self._ids[:, : length + output_tokens].clone()

    @torch.no_grad()
    def prime(self, prompt: torch.Tensor) -> None:
        """The prompt's pass; its first token is kept apart, since steps write over it."""
        self._begin(prompt)
        self._first, self._length = self._token.clone(), prompt.shape[1]

    @torch.no_grad()
    def decode(self, output_tokens: int) -> torch.Tensor:
        """Steps alone."""
        _rewind(self._cache, self._length)
        self._token.copy_(self._first)
        self._place.fill_(self._length)
        self._ids.index_copy_(1, self._place, self._token)
        for _ in range(output_tokens):
            self._advance()
        return self._ids[:, 1 : self._length + 1 + output_tokens].clone()

    def facts(self) -> dict[str, str]:
        """What is done to the step."""
        done = {"decoding": "a step a token", "cache": "static"}
        if self._options is not None:
            options = [f"{name}={value}" for name, value in self._options.items()]
            told = ", ".join(options) or "no option set"
            done["compile"] = f"torch.compile, inductor, {told}"
        if self._captured:
            done["captured"] = "one CUDA graph a visit, replayed for each token but the first"
        return done

    def _begin(self, prompt: torch.Tensor) -> None:
        length = prompt.shape[1]
        self._cache.reset()  # a step moves the cache's length along
        self._ids[:, :length] = prompt
        places = torch.arange(length, device=prompt.device)[None]
        self._token.copy_(self._chosen(prompt, places))
        self._place.fill_(length)
        self._ids.index_copy_(1, self._place, self._token)

    def _step(self) -> None:
        self._token.copy_(self._chosen(self._token, self._place[None]))
        self._place.add_(1)
        self._ids.index_copy_(1, self._place, self._token)

    def _chosen(self, ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """The likeliest next token of each row, never an end token."""
        logits = self._model(
            input_ids=ids,
            position_ids=places.expand(ids.shape[0], -1),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits
        return _likeliest(logits, self._ends)

    @torch.no_grad()
    def _capture(self, prompt: torch.Tensor) -> Callable[[], object]:
        stream = torch.cuda.Stream(prompt.device)
        stream.wait_stream(torch.cuda.current_stream(prompt.device))
        with torch.cuda.stream(stream):
            self._begin(prompt)
            for _ in range(_WARM_STEPS):
                self._advance()
        torch.cuda.current_stream(prompt.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._advance()
        return graph.replay


def _check_capturable(model: PreTrainedModel, cache: StaticCache, room: int) -> None:
    """Refuse a step that does not do the same every time. Raises ArmFailed: not_capturable."""
    for layer in cache.layers:
        if layer.is_sliding and layer.max_cache_len < room:
            raise ArmFailed(
                "not_capturable",
                f"The model's attention slides over {layer.max_cache_len} tokens; what its cache "
                f"does changes when they are full, within these {room}.",
                "Take fewer tokens than the window holds, or the runtime loop.",
            )
    for module in model.modules():
        threshold = getattr(getattr(module, "state", None), "threshold", 0.0)
        if isinstance(threshold, float) and threshold > 0:
            raise ArmFailed(
                "not_capturable",
                f"The checkpoint's INT8 layers look for outliers (threshold {threshold:g}) on the "
                "host in every product.",
                "Take the runtime loop.",
            )


def _likeliest(logits: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    chosen: torch.Tensor = logits.index_fill(-1, ends, float("-inf")).argmax(-1)
    return chosen


def _rewind(cache: StaticCache | DynamicCache, length: int) -> None:
    """As if no token after the first ``length`` had been seen."""
    if isinstance(cache, DynamicCache):
        cache.crop(length)
        return
    for layer in cache.layers:
        layer.cumulative_length.fill_(length)  # what lies behind is masked
