"""The table of rules. A code is for ever: one that goes is not given again."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.lint import checks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ecocompute_cube.lint.checks import Around, Hit
    from ecocompute_cube.lint.facts import Fact
    from ecocompute_cube.lint.found import Severity

#: An ignore without a reason, or of a code that does not exist.
UNREASONED: Final = "ECO001"


class Rule(NamedTuple):
    """One kind of waste."""

    code: str
    name: str
    severity: Severity
    what: str  #: it looks for, in half a sentence
    fix: str
    measured: str  #: what of it was measured
    check: Callable[[Fact, Around], Iterator[Hit]] | None
    safe: bool = False  #: --fix does it


_NONE: Final = "nothing yet: it is arithmetic"
_CAPTURE: Final = "FP16 as a CUDA graph against eager, on one board"

RULES: Final = (
    Rule(
        UNREASONED,
        "ignore-without-reason",
        "warning",
        "an `ecocompute: ignore` that gives no reason, or a code that does not exist",
        "Write why after the bracket: `# ecocompute: ignore[ECO101] memory is what we lack`.",
        "–",
        None,
    ),
    Rule(
        "ECO101",
        "int8-default-threshold",
        "warning",
        "8-bit loading (bitsandbytes) with the default outlier threshold",
        "Load in 16 bits where it fits, or in 4 bits for a large model; or set llm_int8_threshold "
        "after measuring what it costs your model in quality.",
        "INT8/eager; quality of INT8 and INT8-T0",
        checks.int8_threshold,
    ),
    Rule(
        "ECO102",
        "4bit-below-crossover",
        "warning",
        "4-bit loading of a model below the size from which it saves energy on the card",
        "Load it in 16 bits: a model of this size fits. Keep 4 bits where memory is what you lack.",
        "NF4 at the model's size, eager or as `runtime` says",
        checks.nf4_crossover,
    ),
    Rule(
        "ECO103",
        "4bit-and-8bit",
        "error",
        "`load_in_4bit` and `load_in_8bit` at once",
        "Choose one.",
        "nothing: it does not load",
        checks.both_bits,
    ),
    Rule(
        "ECO104",
        "4bit-float32-compute",
        "warning",
        "4-bit weights with `bnb_4bit_compute_dtype` float32, or not set, which is float32",
        "Set bnb_4bit_compute_dtype=torch.bfloat16, or float16 on boards before Ampere.",
        "nothing with float32; every 4-bit measurement here computes in 16 bits",
        checks.float32_compute,
    ),
    Rule(
        "ECO105",
        "row-by-row",
        "warning",
        "`generate` for one row after the other in a loop over known rows",
        "Tokenize several rows at once (padding=True, padding_side='left') and generate for them "
        "together; vLLM takes the whole list.",
        "nothing above batch 1",
        checks.row_by_row,
    ),
    Rule(
        "ECO106",
        "eager-decode",
        "note",
        "eager decoding at batch 1 in a request handler or an endless loop",
        "Pass cache_implementation='static' to generate, which compiles its step at the first "
        "call; or serve with an engine that captures its steps.",
        _CAPTURE,
        checks.eager_decode,
    ),
    Rule(
        "ECO107",
        "no-inference-mode",
        "note",
        "a loaded model called with gradients on, in a file that trains nothing",
        "Call it within `with torch.inference_mode():`.",
        _NONE,
        checks.no_inference_mode,
    ),
    Rule(
        "ECO108",
        "float32-load",
        "warning",
        "float32 loading, onto a GPU, of a checkpoint that is published in 16 bits",
        "Leave dtype at 'auto', or name the checkpoint's own.",
        _NONE,
        checks.float32_load,
    ),
    Rule(
        "ECO109",
        "offload",
        "warning",
        "weights offloaded to the host or the disk (`device_map`, `cpu_offload_gb`), or, for a "
        "card that is known, a model that `auto` has to offload",
        "Take a smaller or a quantized model that fits, or more boards.",
        _NONE,
        checks.offload,
    ),
    Rule(
        "ECO110",
        "no-cache",
        "warning",
        "`use_cache=False` where tokens are generated",
        "Leave the cache on.",
        _NONE,
        checks.no_cache,
        safe=True,
    ),
    Rule(
        "ECO111",
        "reload",
        "warning",
        "the same model loaded anew in a loop or for each request; `keep_alive: 0`",
        "Load it once, before.",
        _NONE,
        checks.reload,
    ),
    Rule(
        "ECO112",
        "quantized-large-batch",
        "warning",
        "bitsandbytes for a model that fits in 16 bits and is served at 8 rows or more",
        "Serve it in 16 bits, and compare.",
        "nothing above batch 1 beside FP16",
        checks.large_batch,
    ),
    Rule(
        "ECO113",
        "unbounded",
        "note",
        "no bound on new tokens, said so (`max_tokens=None`, `num_predict: -1`, a million)",
        "Set the longest answer that you would read.",
        _NONE,
        checks.unbounded,
    ),
    Rule(
        "ECO114",
        "4bit-option-without-effect",
        "note",
        "`bnb_4bit_*` without `load_in_4bit`",
        "Remove it, or set load_in_4bit=True if that was meant.",
        "nothing: it has no effect",
        checks.dead_4bit,
        safe=True,
    ),
    Rule(
        "ECO115",
        "8bit-option-without-effect",
        "note",
        "`llm_int8_threshold` or `llm_int8_has_fp16_weight` without `load_in_8bit`",
        "Remove it, or set load_in_8bit=True if that was meant.",
        "nothing: it has no effect",
        checks.dead_8bit,
        safe=True,
    ),
    Rule(
        "ECO116",
        "fp8-weight-only",
        "warning",
        "FP8 weight-only (torchao), decoded eagerly",
        "Load in 16 bits, or compile the step and measure.",
        "FP8-WO/eager, one session",
        checks.fp8_weight_only,
    ),
    Rule(
        "ECO117",
        "double-quantization",
        "note",
        "`bnb_4bit_use_double_quant` for inference",
        "Leave it out where the weights fit without it.",
        "NF4-DQ/eager, one session",
        checks.double_quant,
    ),
    Rule(
        "ECO118",
        "graphs-off",
        "warning",
        "an engine told not to capture its steps (`enforce_eager`, `--disable-cuda-graph`)",
        "Remove it once what made it necessary is solved.",
        _CAPTURE,
        checks.graphs_off,
    ),
)

BY_CODE: Final = MappingProxyType({rule.code: rule for rule in RULES})
