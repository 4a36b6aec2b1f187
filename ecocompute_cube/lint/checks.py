"""What each rule looks for in a fact. Silent wherever the file does not say enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.cards import card
from ecocompute_cube.lint import evidence
from ecocompute_cube.lint.facts import UNKNOWN, Forward, Generate, Load, Quantize
from ecocompute_cube.lint.models import billions, quantized, sixteen_bit
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ecocompute_cube.lint.facts import Fact, Options
    from ecocompute_cube.lint.found import Edit, Evidence, Place, Severity

_CAPTURED: Final = ("static", "graph", "compiled")
_LARGE_BATCH: Final = 8  # rows from which decoding is no longer a matter of one row's launches
_ENDLESS: Final = 100_000  # tokens; longer than the context of nearly every model
_STEADY: Final = ("bitsandbytes",)  # what was measured; kernels of other formats are others


class Around(NamedTuple):
    """What is known besides the file."""

    gpu: str | None = None  #: a board's full name
    runtime: str | None = None
    trains: bool = False


class Hit(NamedTuple):
    """A rule found something."""

    place: Place
    message: str
    evidence: tuple[Evidence, ...] = ()
    severity: Severity | None = None  #: where it is not the rule's own
    edit: Edit | None = None


def _size(quantize: Quantize) -> float | None:
    """Of the models that a configuration is for, where they agree."""
    sizes = {billions(name) for name in quantize.models}
    return sizes.pop() if len(sizes) == 1 else None


def _on(options: Options, name: str) -> bool:
    return options.value(name) is True


def _ours(fact: Fact) -> bool:
    return isinstance(fact, Quantize) and fact.kind == "bitsandbytes"


def int8_threshold(fact: Fact, around: Around) -> Iterator[Hit]:
    """8-bit loading with the default outlier threshold."""
    if not isinstance(fact, Quantize) or not _ours(fact) or around.trains:
        return
    options = fact.options
    if not _on(options, "load_in_8bit") or options.value("load_in_4bit") is True:
        return
    threshold = options.value("llm_int8_threshold")
    if threshold is not None and threshold != _DEFAULT_THRESHOLD:
        return
    size = _size(fact)
    yield Hit(
        options.place("load_in_8bit") or fact.place,
        "8-bit weights with the default outlier threshold: every product is split in two, and at "
        "batch 1 that costs more energy than 16 bits. The other side: threshold 0 is cheaper "
        f"({_cheaper()}) and gives up what keeps outliers exact, which its maintainers advise "
        f"against ({evidence.perplexity('INT8-T0')}; default: {evidence.perplexity('INT8')}).",
        evidence.of_arm("INT8", size, around.gpu),
    )


_DEFAULT_THRESHOLD: Final = 6.0  # transformers, BitsAndBytesConfig


def _cheaper() -> str:
    """What threshold 0 took where it was measured, in short."""
    found = evidence.of_arm("INT8-T0", None, None)
    return "; ".join(
        f"{evidence.short(each.gpu)}: {signed(each.delta_pct or 0, 0)} % against FP16, n = {each.n}"
        for each in found
    )


def nf4_crossover(fact: Fact, around: Around) -> Iterator[Hit]:
    """4-bit loading of a model that is too small for it to pay."""
    if not isinstance(fact, Quantize) or not _ours(fact) or around.trains:
        return
    size = _size(fact)
    if size is None or not _on(fact.options, "load_in_4bit") or _on(fact.options, "load_in_8bit"):
        return
    runtime = around.runtime or "eager"
    found = evidence.of_arm("NF4", size, around.gpu, runtime)
    found = tuple(each for each in found if each.params_b == size)
    dear = [each for each in found if (each.delta_pct or 0) > 0 and _founded(each, around)]
    if not dear:
        return
    sure = any(each.interval is not None and each.interval[0] > 0 for each in dear)
    if around.gpu is not None:
        cross = evidence.crossover(around.gpu, runtime)
        below = f"; it pays from about {cross:.2g}B there" if cross else ""
        message = f"4-bit weights of a {size:g}B model cost energy at batch 1 on this board{below}."
    else:
        boards = ", ".join(evidence.short(each.gpu) for each in dear)
        message = (
            f"4-bit weights of a {size:g}B model: if it runs on {boards}, they cost energy at "
            "batch 1. Which card it is, is not known."
        )
    severity: Severity = "warning" if sure and around.gpu is not None else "note"
    yield Hit(fact.options.place("load_in_4bit") or fact.place, message, found, severity)


def _founded(each: Evidence, around: Around) -> bool:
    """Whether a board's figure may raise a finding: where the card is unknown, only sessions do."""
    return around.gpu is not None or each.basis in ("measured", "interpolated")


def both_bits(fact: Fact, around: Around) -> Iterator[Hit]:
    """4 and 8 bits at once."""
    del around
    if not isinstance(fact, Quantize):
        return
    if _on(fact.options, "load_in_8bit") and _on(fact.options, "load_in_4bit"):
        yield Hit(
            fact.options.place("load_in_4bit") or fact.place,
            "4 and 8 bits at once: transformers refuses to load such a model.",
        )


def float32_compute(fact: Fact, around: Around) -> Iterator[Hit]:
    """4-bit weights that are multiplied in float32."""
    del around
    if not isinstance(fact, Quantize) or not _ours(fact):
        return
    options = fact.options
    if not _on(options, "load_in_4bit") or _on(options, "load_in_8bit"):
        return
    told = options.value("bnb_4bit_compute_dtype")
    if told == "float32":
        place = options.place("bnb_4bit_compute_dtype")
        yield Hit(place or fact.place, "4-bit weights are multiplied in float32.")
    elif told is None:
        yield Hit(
            options.place("load_in_4bit") or fact.place,
            "4-bit weights are multiplied in float32: bnb_4bit_compute_dtype is not set, and that "
            "is its default.",
        )


def row_by_row(fact: Fact, around: Around) -> Iterator[Hit]:
    """Generation for one row after the other."""
    del around
    if isinstance(fact, Generate) and fact.row and fact.repeated == "for" and fact.over:
        yield Hit(
            fact.place,
            f"One row at a time over `{fact.over}`: the weights are read, and every kernel is "
            "launched, once for each row instead of once for a batch.",
        )


def eager_decode(fact: Fact, around: Around) -> Iterator[Hit]:
    """Eager decoding of one row, again and again."""
    if not isinstance(fact, Generate) or not (fact.row and fact.capturable):
        return
    if around.runtime in _CAPTURED or around.trains:
        return
    if fact.repeated not in ("while", "handler"):
        return
    if any(name in fact.options.given for name in ("cache_implementation", "assistant_model")):
        return
    yield Hit(
        fact.place,
        "Eager decoding at batch 1, again and again: the board mostly waits for the host. A "
        "captured step does not.",
        evidence.of_capture(around.gpu),
    )


def no_inference_mode(fact: Fact, around: Around) -> Iterator[Hit]:
    """A forward pass that keeps what only training needs."""
    if isinstance(fact, Forward) and not around.trains:
        yield Hit(fact.place, "The model is called with gradients on: activations are kept.")


def float32_load(fact: Fact, around: Around) -> Iterator[Hit]:
    """16-bit weights loaded as float32."""
    if not isinstance(fact, Load) or around.trains or fact.quantized is not None:
        return
    if not (fact.on_gpu or fact.library == "vllm") or not sixteen_bit(fact.model):
        return
    if fact.options.value("dtype", "torch_dtype") in ("float32", "float"):
        place = fact.options.place("dtype", "torch_dtype") or fact.place
        yield Hit(
            place,
            f"{fact.model} is published in 16 bits: float32 doubles the bytes that every token "
            "reads, and adds no information.",
        )


def offload(fact: Fact, around: Around) -> Iterator[Hit]:
    """Weights that travel from the host's memory for every token."""
    if not isinstance(fact, Load) or around.trains:
        return
    options = fact.options
    where = options.value("device_map")
    if isinstance(where, dict):
        places = {str(each) for each in where.values() if each is not UNKNOWN}
        if places & {"cpu", "disk"} and places - {"cpu", "disk"}:
            yield Hit(options.place("device_map") or fact.place, _OFFLOADED)
            return
    memory = options.value("max_memory")
    if isinstance(memory, dict) and "cpu" in memory and where == "auto":
        yield Hit(options.place("max_memory") or fact.place, f"{_OFFLOADED} {_MAY}", (), "note")
        return
    for name in ("cpu_offload_gb", "cpu-offload-gb"):
        told = options.value(name)
        if isinstance(told, int | float) and told > 0:
            yield Hit(options.place(name) or fact.place, _OFFLOADED)
    yield from _too_large(fact, around)


_OFFLOADED: Final = "A part of the weights stays in the host's memory, and travels for every token."
_MAY: Final = "This may be so: the limits let it."


def _too_large(fact: Load, around: Around) -> Iterator[Hit]:
    """``device_map="auto"`` of what does not fit the card."""
    size = billions(fact.model)
    known = around.gpu is not None and size is not None
    if not known or fact.options.value("device_map") != "auto" or fact.quantized is not None:
        return
    if quantized(fact.model) or fact.options.open:
        return
    from ecocompute_cube.analysis.estimator import estimate
    from ecocompute_cube.errors import UsageError

    try:
        said = estimate(size or 0, gpu=around.gpu, precision="FP16")
    except UsageError:
        return
    if not said.fits:
        yield Hit(
            fact.options.place("device_map") or fact.place,
            f"{size:g}B in 16 bits takes about {said.vram_gb:.0f} GB, more than one "
            f"{evidence.short(said.gpu)} has. Where there is one board alone, device_map='auto' "
            "leaves the rest in the host's memory, and it travels for every token.",
        )


def no_cache(fact: Fact, around: Around) -> Iterator[Hit]:
    """Every token computes all those before it again."""
    if not isinstance(fact, Generate) or fact.options.value("use_cache") is not False:
        return
    if fact.compared or (around.trains and not fact.call):
        return
    edit = None
    if fact.call and fact.options.drop is not None:
        edit = fact.options.drop(["use_cache"])
    yield Hit(
        fact.options.place("use_cache") or fact.place,
        "use_cache=False: each new token computes all those before it again.",
        edit=edit,
    )


def reload(fact: Fact, around: Around) -> Iterator[Hit]:
    """The same model loaded again and again."""
    if not isinstance(fact, Load) or not fact.needless:
        return
    if around.trains and fact.repeated != "handler":
        return  # what trains a model changes it
    if fact.library == "ollama":
        yield Hit(fact.place, "keep_alive is 0: the model is loaded again for every request.")
        return
    when = "for every request" if fact.repeated == "handler" else "in every turn of the loop"
    yield Hit(fact.place, f"The same model is loaded again {when}.")


def large_batch(fact: Fact, around: Around) -> Iterator[Hit]:
    """Quantized although it fits, and served to many at once."""
    if not isinstance(fact, Load) or fact.quantized is None:
        return
    batch = fact.options.value(
        "max_num_seqs", "max-num-seqs", "batch_size", "max-batch-size", "max-concurrent-requests"
    )
    method = fact.options.value("quantization", "quantize")
    bits = ("load_in_4bit", "load_in_8bit")
    ours = any(_on(fact.quantized.options, name) for name in bits)
    if not ours and not str(method).startswith(_STEADY):
        return
    size = billions(fact.model)
    if size is None or not isinstance(batch, int) or batch < _LARGE_BATCH:
        return
    from ecocompute_cube.analysis.shapes import GB, shape, weight_bytes

    need = weight_bytes(shape(size), "FP16") / GB
    if around.gpu is None:
        room = f"If the card has more than about {need:.0f} GB to spare for weights, nothing"
    elif card(around.gpu).memory_gb > _ROOM * need:
        board = evidence.short(around.gpu)
        room = f"It fits {board} in 16 bits ({need:.0f} GB of weights): nothing"
    else:
        return
    place = fact.options.place("quantization", "quantize", "quantization_config") or fact.place
    yield Hit(
        place,
        f"Quantized, and up to {batch} rows at a time. {room} is won: weights are read once for "
        "all rows, and are dequantized all the same. Nothing here was measured above batch 1 "
        "beside FP16: measure your own case.",
        severity="note" if around.gpu is None else None,
    )


_ROOM: Final = 1.5  # weights, and half as much again for cache and context


def unbounded(fact: Fact, around: Around) -> Iterator[Hit]:
    """Generation without an end of its own."""
    del around
    if not isinstance(fact, Generate):
        return
    for name in ("max_new_tokens", "max_length", "max_tokens", "num_predict", "n-predict"):
        if name in fact.options.given and _endless(fact, name, fact.options.given[name].value):
            yield Hit(
                fact.options.given[name].place,
                f"{name} sets no bound: an answer that does not end by itself fills the context.",
            )


def _endless(fact: Generate, name: str, value: object) -> bool:
    if value in ("maxsize", "inf"):
        return True
    if value is None:
        return name == "max_tokens" and fact.library in ("vllm", "llama.cpp")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if value >= _ENDLESS:
        return fact.library != "transformers" or name != "max_length" or fact.call
    none = value < 0 or (name == "max_tokens" and value == 0)
    return none and fact.library in ("llama.cpp", "ollama")


def dead_4bit(fact: Fact, around: Around) -> Iterator[Hit]:
    """Options of 4 bits where nothing loads 4 bits."""
    del around
    yield from _dead(fact, "bnb_4bit_", ("load_in_4bit",), "load_in_4bit is not set")


def dead_8bit(fact: Fact, around: Around) -> Iterator[Hit]:
    """Options of 8 bits where nothing loads 8 bits."""
    del around
    names = ("llm_int8_threshold", "llm_int8_has_fp16_weight")
    yield from _dead(fact, names, ("load_in_8bit",), "load_in_8bit is not set")


def _dead(
    fact: Fact, start: str | tuple[str, ...], switch: tuple[str, ...], why: str
) -> Iterator[Hit]:
    if not isinstance(fact, Quantize) or not _ours(fact) or fact.shared:
        return
    options = fact.options
    dead = [name for name in options.given if name.startswith(start)]
    on = any(options.value(name) not in (None, False) for name in switch)
    if not dead or on or options.open:
        return
    first = options.place(dead[0]) or fact.place
    edit = options.drop(dead) if options.drop is not None else None
    yield Hit(first, f"Without effect, for {why}: {', '.join(dead)}.", edit=edit)


def fp8_weight_only(fact: Fact, around: Around) -> Iterator[Hit]:
    """FP8 weights that are dequantized for each token."""
    if not isinstance(fact, Quantize) or fact.kind != "torchao" or around.trains:
        return
    if around.runtime in _CAPTURED:
        return
    place = fact.options.place("quant_type") or fact.place
    yield Hit(
        place,
        "FP8 weight-only, decoded eagerly, dequantizes whole matrices for each token.",
        evidence.of_arm("FP8-WO", _size(fact), around.gpu),
    )


def double_quant(fact: Fact, around: Around) -> Iterator[Hit]:
    """Scales that are quantized too."""
    if not isinstance(fact, Quantize) or not _ours(fact) or around.trains:
        return
    options = fact.options
    if not (_on(options, "load_in_4bit") and _on(options, "bnb_4bit_use_double_quant")):
        return
    yield Hit(
        options.place("bnb_4bit_use_double_quant") or fact.place,
        "Double quantization saves a little memory, and takes one more kernel for each product.",
        evidence.of_arm("NF4-DQ", _size(fact), around.gpu),
    )


def graphs_off(fact: Fact, around: Around) -> Iterator[Hit]:
    """An engine that is told not to capture its steps."""
    if not isinstance(fact, Load):
        return
    names = ("enforce_eager", "enforce-eager", "disable-cuda-graph", "disable_cuda_graph")
    for name in names:
        if fact.library in ("vllm", "sglang") and fact.options.value(name) is True:
            yield Hit(
                fact.options.place(name) or fact.place,
                f"{name}: each token launches every kernel anew, and at small batches the board "
                "waits for the host.",
                evidence.of_capture(around.gpu),
            )
    if fact.library == "tgi" and fact.options.value("cuda-graphs") == 0:
        yield Hit(
            fact.options.place("cuda-graphs") or fact.place,
            "CUDA graphs are switched off: each token launches every kernel anew.",
            evidence.of_capture(around.gpu),
        )
