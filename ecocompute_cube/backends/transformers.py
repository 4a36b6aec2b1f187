"""Hugging Face transformers: loading in any precision, and a session around a decoder."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import math
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from ecocompute_cube.backends.anatomy import step_cost
from ecocompute_cube.backends.base import Kernels, Ledger, Profile, Scores, Session
from ecocompute_cube.backends.census import certificate_of
from ecocompute_cube.backends.decoders import check_runtime, decoder_for
from ecocompute_cube.backends.kernels import kernels
from ecocompute_cube.backends.precision import RECIPES, check_board, devices_of
from ecocompute_cube.backends.profiler import profiled
from ecocompute_cube.backends.prompts import byte_ids, cut_prompts, ids_sha256
from ecocompute_cube.backends.quantizers import quantizer
from ecocompute_cube.backends.split import split_over
from ecocompute_cube.errors import ArmFailed
from ecocompute_cube.model.base import Absent, MaybeFloat, MaybeInt, sha256_hex
from ecocompute_cube.model.journal import Certificate, LedgerRow
from ecocompute_cube.model.plan import Phase, Precision, Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from transformers import PreTrainedModel

    from ecocompute_cube.model.cost import StepCost
    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm

#: How a CUDA library and torch's CPU allocator say it, both in a plain RuntimeError.
_OUT_OF_MEMORY: Final = ("out of memory", "can't allocate memory")
_PROFILED: Final = 32  # tokens: some ten thousand launches, which a profiler holds in memory
_SCORE_CHUNK: Final = 256  # positions whose logits are turned to FP32 at once: bounds memory


class TransformersBackend:
    """Loads a model folder with transformers onto one device, or split over several."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._devices = devices_of(device)

    def load(self, arm: Arm, manifest: Manifest, folder: Path) -> Session:
        """Load ``folder`` in the arm's precision.

        Raises ArmFailed: ``not_capturable``, ``precision_not_native``, ``already_quantized``,
        ``not_quantized``, ``library_missing``, ``out_of_memory``, ``board_unused``.
        """
        check_runtime(arm, self._device)
        _check_shipped(arm.precision, folder)
        with _arm_errors("load"):
            check_board(arm.precision, _capability(self._devices[0]))
            model = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=_dtype(arm.precision),
                device_map=self._places(folder),
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                **_quantized(arm.precision),
            )
            tokenizer = (
                AutoTokenizer.from_pretrained(folder, local_files_only=True)
                if manifest.tokenizer
                else None
            )
            return TransformersSession(
                model.eval(), tokenizer, arm, self._device, manifest.max_context
            )

    def kernels(self) -> Kernels | Absent:
        """A copy and a product, on a GPU."""
        with _arm_errors("calibrate"):
            return kernels(self._device)

    def _places(self, folder: Path) -> dict[str, str] | dict[str, int]:
        if len(self._devices) == 1:
            return {"": self._device}
        return split_over(folder, len(self._devices))


def _quantized(precision: Precision) -> dict[str, object]:
    """No such keyword at all where nothing is quantized: None would undo what was shipped."""
    config = quantizer(precision)
    return {} if config is None else {"quantization_config": config}


def _capability(device: str) -> tuple[int, int] | None:
    return torch.cuda.get_device_capability(device) if device.startswith("cuda") else None


def _dtype(precision: Precision) -> torch.dtype | str:
    """Never left to the library: its default has changed between releases."""
    name = RECIPES[precision].dtype
    return "auto" if name is None else getattr(torch, name)


def _check_shipped(precision: Precision, folder: Path) -> None:
    """A checkpoint is quantized once. Raises ArmFailed."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    shipped = config.get("quantization_config")
    if shipped is not None and not isinstance(shipped, dict):
        raise ArmFailed(
            "config_not_understood",
            f"quantization_config in the checkpoint is {shipped!r}, and no JSON object.",
            "Take the checkpoint again from where it came from.",
        )
    if shipped and precision is not Precision.AS_SHIPPED:
        raise ArmFailed(
            "already_quantized",
            f"The checkpoint is quantized already ({shipped.get('quant_method', 'unknown')}); "
            f"{precision} cannot be made from it.",
            f"Take {Precision.AS_SHIPPED}, or the model's original checkpoint.",
        )
    if not shipped and precision is Precision.AS_SHIPPED:
        raise ArmFailed(
            "not_quantized",
            "The checkpoint is not quantized: as it was shipped it is a 16-bit arm.",
            "Take FP16 or BF16.",
        )


class TransformersSession:
    """A loaded model with a decoder, greedy and of exact lengths."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: object | None,
        arm: Arm,
        device: str,
        max_context: int,
    ) -> None:
        self._ends = _end_tokens(model)
        # generate() fills in whatever a configuration leaves open from the checkpoint's own habits:
        # a repetition penalty, say, which is neither greedy nor the same work in every model.
        model.generation_config = GenerationConfig()
        self._model = model
        self._tokenizer = tokenizer
        self._arm = arm
        self._devices = tuple(map(torch.device, devices_of(device)))
        self._device = self._devices[0]  # which takes the ids in, and gives the logits back
        self._prompts: tuple[torch.Tensor, ...] = ()
        self._max_context = max_context
        self._decodes = arm.workload.phase is Phase.DECODE
        self._decoder = decoder_for(arm.runtime, model, self._ends)

    def certificate(self) -> Certificate:
        """Count what is really loaded."""
        return certificate_of(
            self._model,
            self._arm.precision,
            _allocated(self._devices),
            _library(self._arm.precision, self._model),
            self._decoder.facts(),
        )

    def step(self) -> StepCost:
        """By the shapes of what is loaded."""
        return step_cost(self._model, self._arm.workload.context_tokens)

    def prepare(self, text: str, iterations: int) -> str:
        """Cut prompts and put them on the device, so that no window has to."""
        prompts = cut_prompts(self._encode(text), self._arm.workload, iterations)
        self._prompts = tuple(torch.tensor(p, device=self._device) for p in prompts)
        with _arm_errors("prepare the decode step"):
            self._decoder.prepare(self._prompts[0], self._arm.workload.generated_tokens)
            self._prime()
        if not self._ends:
            sys.stderr.write("The model names no end token, so none is masked while it decodes.\n")
        return ids_sha256(prompts)

    def renew(self) -> None:
        """Capture the step anew, and take the prompt in again."""
        with _arm_errors("prepare the decode step"):
            self._decoder.renew(self._prompts[0])
            self._prime()

    def _prime(self) -> None:
        if self._decodes:
            self._decoder.prime(self._prompts[0])

    def _encode(self, text: str) -> list[int]:
        if self._tokenizer is None:
            return byte_ids(text)
        ids: list[int] = self._tokenizer(  # type: ignore[operator]  # transformers' tokenizer
            text, add_special_tokens=False, verbose=False
        )["input_ids"]
        return ids

    def generate(self, iteration: int, output_tokens: int) -> object:
        """Greedy ids of shape (batch, prompt + output), still on the device."""
        prompt = self._prompts[iteration % len(self._prompts)]
        with _arm_errors("generate"):
            if self._decodes:
                return self._decoder.decode(output_tokens)
            return self._decoder.generate(prompt, output_tokens)

    def sync(self) -> None:
        """Wait for the board, or for every one."""
        for device in self._devices:
            if device.type == "cuda":
                torch.cuda.synchronize(device)

    def ledger(self, outputs: list[object]) -> Ledger:
        """Count output ids row by row; a row ends after its first end token."""
        counts: Counter[tuple[int, int, str]] = Counter()
        digest: list[str] = []
        first: tuple[int, ...] = ()
        for output in outputs:
            for row in output.tolist():  # type: ignore[attr-defined]  # a tensor of ids
                ids = row[self._arm.workload.prompt_tokens :]
                counts[len(row) - len(ids), *self._stop(ids)] += 1
                digest.append(" ".join(map(str, ids)))
                first = first or tuple(ids)
        return Ledger(_rows(counts), sha256_hex("\n".join(digest).encode()), first)

    def _stop(self, ids: list[int]) -> tuple[int, str]:
        ends = [place for place, token in enumerate(ids) if token in self._ends]
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

    def profile(self) -> Profile:
        """A short generation; a full one where another length would be compiled anew."""
        full = self._arm.workload.generated_tokens
        tokens = full if self._arm.runtime is Runtime.STATIC else min(full, _PROFILED)
        seen = Profile(tokens, *self._profiled(tokens))
        if tokens == full or self._decodes:
            return seen
        launches, busy_s = self._profiled(1)
        return seen._replace(prompt_launches=launches, prompt_busy_s=busy_s)

    def _profiled(self, tokens: int) -> tuple[MaybeInt, MaybeFloat]:
        def work() -> None:
            self.generate(0, tokens)
            self.sync()

        return profiled(work, self._device)

    def close(self) -> None:
        """Free the model's memory."""
        self._prompts = ()
        del self._decoder
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


def _allocated(devices: tuple[torch.device, ...]) -> MaybeInt:
    if devices[0].type != "cuda":
        return Absent(reason="not on a board")
    return sum(map(torch.cuda.memory_allocated, devices))


def _library(precision: Precision, model: PreTrainedModel) -> str:
    """That multiplies: of a checkpoint as it was shipped, the one that its own settings name."""
    shipped = getattr(model.config, "quantization_config", None)
    if precision is not Precision.AS_SHIPPED or shipped is None:
        name: str = RECIPES[precision].library
    else:
        name = str(shipped.quant_method.value)
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:  # a method of transformers' own
        return f"{name}, by transformers {importlib.metadata.version('transformers')}"


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
