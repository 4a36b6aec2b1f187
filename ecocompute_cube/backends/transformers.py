"""The eager runtime: Hugging Face transformers' generate(), quantized by bitsandbytes."""

from __future__ import annotations

import gc
import importlib.metadata
import math
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, GenerationConfig

from ecocompute_cube.backends.base import Ledger, Scores, Session
from ecocompute_cube.backends.census import certificate_of
from ecocompute_cube.backends.precision import RECIPES
from ecocompute_cube.backends.prompts import byte_ids, cut_prompts, ids_sha256
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import Absent, MaybeInt, sha256_hex
from ecocompute_cube.model.journal import Certificate, LedgerRow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from transformers import PreTrainedModel

    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm

#: How a CUDA library and torch's CPU allocator say it, both in a plain RuntimeError.
_OUT_OF_MEMORY: Final = ("out of memory", "can't allocate memory")
_SCORE_CHUNK: Final = 256  # positions whose logits are turned to FP32 at once: bounds memory


class TransformersBackend:
    """Loads a model folder with transformers onto one device."""

    def __init__(self, device: str) -> None:
        self._device = device

    def load(self, arm: Arm, manifest: Manifest, folder: Path) -> Session:
        """Load ``folder`` in the arm's precision.

        Raises ArmFailed: ``library_missing``, ``out_of_memory``.
        """
        with _arm_errors("load"):
            model = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=torch.float16,
                device_map={"": self._device},
                quantization_config=_quantizer(arm),
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
            )
            tokenizer = (
                AutoTokenizer.from_pretrained(folder, local_files_only=True)
                if manifest.tokenizer
                else None
            )
            return TransformersSession(
                model.eval(), tokenizer, arm, self._device, manifest.max_context
            )


def _quantizer(arm: Arm) -> BitsAndBytesConfig | None:
    keywords = RECIPES[arm.precision].quantizer
    if keywords is None:
        return None
    return BitsAndBytesConfig(bnb_4bit_compute_dtype=torch.float16, **keywords)


class TransformersSession:
    """A loaded model that decodes greedily with transformers' generate()."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: object | None,
        arm: Arm,
        device: str,
        max_context: int,
    ) -> None:
        self._eos = _end_tokens(model)
        # generate() fills in whatever a configuration leaves open from the checkpoint's own habits:
        # a repetition penalty, say, which is neither greedy nor the same work in every model.
        model.generation_config = GenerationConfig()
        self._model = model
        self._tokenizer = tokenizer
        self._arm = arm
        self._device = torch.device(device)
        self._prompts: tuple[torch.Tensor, ...] = ()
        self._mask = torch.empty(0)
        self._max_context = max_context
        self._configs: dict[int, GenerationConfig] = {}

    def certificate(self) -> Certificate:
        """Count what is really loaded."""
        return certificate_of(
            self._model, self._arm.precision, _allocated(self._device), _library(self._arm)
        )

    def prepare(self, text: str, iterations: int) -> str:
        """Cut prompts and put them on the device, so that no window has to."""
        prompts = cut_prompts(self._encode(text), self._arm.workload, iterations)
        self._prompts = tuple(torch.tensor(p, device=self._device) for p in prompts)
        self._mask = torch.ones_like(self._prompts[0])
        self._greedy(self._arm.workload.output_tokens)
        if not self._eos:
            sys.stderr.write("The model names no end token, so none is masked while it decodes.\n")
        return ids_sha256(prompts)

    def _encode(self, text: str) -> list[int]:
        if self._tokenizer is None:
            return byte_ids(text)
        ids: list[int] = self._tokenizer(  # type: ignore[operator]  # transformers' tokenizer
            text, add_special_tokens=False, verbose=False
        )["input_ids"]
        return ids

    @torch.inference_mode()
    def generate(self, iteration: int, output_tokens: int) -> object:
        """Greedy ids of shape (batch, prompt + output), still on the device."""
        with _arm_errors("generate"):
            return self._model.generate(
                inputs=self._prompts[iteration % len(self._prompts)],
                attention_mask=self._mask,
                generation_config=self._greedy(output_tokens),
            )

    def _greedy(self, output_tokens: int) -> GenerationConfig:
        if output_tokens not in self._configs:
            self._configs[output_tokens] = self._generation(output_tokens)
        return self._configs[output_tokens]

    def _generation(self, output_tokens: int) -> GenerationConfig:
        # Equal lengths for every arm: the end token is masked until the budget is used up.
        return GenerationConfig(
            do_sample=False,
            num_beams=1,
            use_cache=True,
            min_new_tokens=output_tokens,
            max_new_tokens=output_tokens,
            eos_token_id=self._eos or None,
            pad_token_id=self._eos[0] if self._eos else None,
        )

    def sync(self) -> None:
        """Wait for the board."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def ledger(self, outputs: list[object]) -> Ledger:
        """Count output ids row by row; a row ends after its first end token."""
        counts: Counter[tuple[int, int, str]] = Counter()
        digest: list[str] = []
        for output in outputs:
            for row in output.tolist():  # type: ignore[attr-defined]  # a tensor of ids
                ids = row[self._arm.workload.prompt_tokens :]
                counts[len(row) - len(ids), *self._stop(ids)] += 1
                digest.append(" ".join(map(str, ids)))
        return Ledger(_rows(counts), sha256_hex("\n".join(digest).encode()))

    def _stop(self, ids: list[int]) -> tuple[int, str]:
        ends = [place for place, token in enumerate(ids) if token in self._eos]
        if ends and ends[0] + 1 < len(ids):
            return ends[0] + 1, "eos"
        return len(ids), "length"

    @torch.inference_mode()
    def score(self, text: str, window_tokens: int, max_windows: int | None) -> Scores:
        """Sum of −log p over each window's tokens but its first."""
        ids = self._encode(text)
        size = min(window_tokens, self._max_context)
        starts = [at for at in range(0, len(ids), size) if len(ids) - at > 1][:max_windows]
        with _arm_errors("score"):
            windows = [self._window_nll(ids[at : at + size]) for at in starts]
        return Scores(tuple(nll for nll, _ in windows), tuple(count for _, count in windows), size)

    def _window_nll(self, ids: list[int]) -> tuple[float, int]:
        tokens = torch.tensor([ids], device=self._device)
        logits = self._model(tokens, use_cache=False).logits[0, :-1]
        targets = tokens[0, 1:]
        total = 0.0
        for at in range(0, len(targets), _SCORE_CHUNK):
            part = slice(at, at + _SCORE_CHUNK)
            loss = torch.nn.functional.cross_entropy(
                logits[part].float(), targets[part], reduction="sum"
            )
            total += loss.item()
        if not math.isfinite(total):
            raise ArmFailed(
                "perplexity_not_finite",
                "The model's loss on the text is not a finite number.",
                "The weights overflow in this precision; drop the quality probe or the arm.",
            )
        return total, len(targets)

    def close(self) -> None:
        """Free the model's memory."""
        self._prompts = ()
        del self._model
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()


def _end_tokens(model: PreTrainedModel) -> list[int]:
    """The ids that generate() would stop at: of the generation settings, else of the model."""
    habits = model.generation_config
    value: int | list[int] | None = habits.eos_token_id if habits is not None else None
    if value is None:
        value = model.config.eos_token_id
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _rows(counts: Counter[tuple[int, int, str]]) -> tuple[LedgerRow, ...]:
    return tuple(
        LedgerRow.model_validate(
            {
                "rows": rows,
                "prompt_tokens": prompt,
                "padding_tokens": 0,  # every row has the same number of prompt tokens
                "output_tokens": output,
                "stop": stop,
            }
        )
        for (prompt, output, stop), rows in sorted(counts.items())
    )


def _allocated(device: torch.device) -> MaybeInt:
    if device.type != "cuda":
        return Absent(reason="not on a board")
    return torch.cuda.memory_allocated(device)


def _library(arm: Arm) -> str:
    name = "torch" if RECIPES[arm.precision].quantizer is None else "bitsandbytes"
    return f"{name} {importlib.metadata.version(name)}"


@contextmanager
def _arm_errors(doing: str) -> Iterator[None]:
    """Turn what the libraries raise into ArmFailed with a code."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
        if not _out_of_memory(error):
            raise
        raise ArmFailed(
            "out_of_memory",
            f"Memory ran out while trying to {doing} ({_first_line(error).rstrip('.')}).",
            "Use a smaller batch, context or model, or free the board.",
        ) from None
    except ImportError as error:
        raise ArmFailed(
            "library_missing",
            f"A library for this precision is missing ({_first_line(error).rstrip('.')}).",
            "Run make setup, or install the package's 'measure' extra.",
        ) from None


def _out_of_memory(error: Exception) -> bool:
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(
        words in str(error) for words in _OUT_OF_MEMORY
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
