"""Facts of YAML and JSON: checkpoints' own files, serving configurations, workflows, manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.lint.facts import Facts, Generate, Load, Option, Options, Quantize
from ecocompute_cube.lint.flags import (
    Word,
    commands,
    of_arguments,
    of_command,
    program_of,
    unloaded,
)
from ecocompute_cube.lint.found import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ecocompute_cube.lint.facts import Fact
    from ecocompute_cube.lint.tree import Entry, Node

_TRAINING: Final = frozenset(
    {"learning_rate", "num_epochs", "num_train_epochs", "lora_r", "lora_rank", "adapter", "optim"}
    | {"optimizer", "gradient_accumulation_steps", "per_device_train_batch_size", "lr_scheduler"}
    | {"lora_alpha", "lora_target", "finetuning_type", "gradient_checkpointing", "training"}
)
_BITS: Final = frozenset({"load_in_4bit", "load_in_8bit"})
_QUANT: Final = ("bnb_4bit_", "llm_int8_")
_NAMES: Final = (
    "model_name_or_path",
    "base_model",
    "model_id",
    "model_name",
    "model",
    "_name_or_path",
)
#: Keys that a vLLM configuration has and hardly another.
_VLLM: Final = frozenset(
    {"enforce-eager", "enforce_eager", "cpu-offload-gb", "cpu_offload_gb", "max-num-seqs"}
    | {"max_num_seqs", "gpu-memory-utilization", "gpu_memory_utilization", "max-model-len"}
    | {"max_model_len", "tensor-parallel-size", "tensor_parallel_size"}
)
_SURE: Final = 2  # of them make one
_SHELLS: Final = frozenset({"run", "script", "command", "entrypoint", "args", "cmd"})


def config_facts(documents: Iterable[Node]) -> Facts:
    """Of every document of a file."""
    facts: list[Fact] = []
    trains = False
    for document in documents:
        for node in document.walk():
            if node.kind != "mapping":
                continue
            trains |= any(each.key in _TRAINING for each in node.entries)
            facts += _of_mapping(node)
    return Facts(tuple(facts), trains)


def _of_mapping(node: Node) -> Iterator[Fact]:
    keys = {each.key for each in node.entries}
    options = _options(node)
    if keys & _BITS or any(key.startswith(_QUANT) for key in keys):
        yield _quantize(node, options, keys)
    if _generates(keys):
        yield Generate(node.place, "transformers", options, call=False)
    if "num_predict" in keys:
        yield Generate(node.place, "ollama", options, call=False)
    if len(keys & _VLLM) >= _SURE:
        yield from _vllm(node, options)
    if "keep_alive" in keys and options.value("keep_alive") in (0, "0", "0s", "0m"):
        yield unloaded(options.place("keep_alive") or node.place)
    yield from _shells(node)


def _options(node: Node) -> Options:
    return Options({e.key: Option(_dtype(e), e.place) for e in node.entries})


def _dtype(entry: Entry) -> object:
    value = entry.value.plain()
    return value.removeprefix("torch.") if isinstance(value, str) else value


def _quantize(node: Node, options: Options, keys: set[str]) -> Quantize:
    first = next(e.place for e in node.entries if e.key in _BITS or e.key.startswith(_QUANT))
    names = [options.value(name) for name in _NAMES]
    models = tuple(name for name in names if isinstance(name, str))[:1]
    # Tools have keys of their own beside load_in_4bit, and defaults that are not the library's.
    own = "quant_method" in keys or "bnb_4bit_quant_type" in keys or "llm_int8_threshold" in keys
    return Quantize(first, options._replace(open=not own), models, shared=True)


def _generates(keys: set[str]) -> bool:
    """generation_config.json, or a block that is handed to ``generate``."""
    limits = keys & {"max_new_tokens", "max_length", "eos_token_id", "bos_token_id"}
    return (
        bool(limits)
        and bool(keys & {"use_cache", "max_new_tokens", "max_length"})
        and not (keys & {"architectures", "model_type", "tokenizer_class"})
    )


def _vllm(node: Node, options: Options) -> Iterator[Load]:
    given = {key.replace("_", "-"): each for key, each in options.given.items()}
    told = given.get("model")
    model = told.value if told is not None and isinstance(told.value, str) else None
    method = given.get("quantization")
    quantized = None
    if method is not None and isinstance(method.value, str):
        quantized = Quantize(method.place, Options({}, open=True), (model,) if model else ())
    yield Load(node.place, "vllm", model, Options(given), on_gpu=True, quantized=quantized)


def _shells(node: Node) -> Iterator[Fact]:
    """Commands of workflows, compose files and manifests."""
    image = next((e.value.value for e in node.entries if e.key == "image"), None)
    for entry in node.entries:
        if entry.key in ("OLLAMA_KEEP_ALIVE",) and str(entry.value.value) in ("0", "0s", "0m"):
            yield unloaded(entry.place)
        if entry.key not in _SHELLS:
            continue
        words = list(_words(entry))
        found = [fact for command in words for fact in of_command(command)]
        library = program_of(image) if isinstance(image, str) and not found else None
        if library is not None and words:
            found = of_arguments(library, words[0][0], [w for each in words for w in each])
        yield from found


def _words(entry: Entry) -> Iterator[Sequence[Word]]:
    value = entry.value
    if value.kind == "list":
        words = [Word(str(e.value), e.place) for e in value.elements if e.kind == "plain"]
        if words and any(" " in word.text for word in words):
            for word in words:  # sh -c "vllm serve …"
                yield from _placed(word.text, word.place)
        elif words:
            yield words
    elif isinstance(value.value, str):
        yield from _placed(value.value, value.place)


def _placed(text: str, place: Place) -> Iterator[Sequence[Word]]:
    """A block's lines begin below its key; a plain text is where it is."""
    block = place.end_line > place.line
    yield from commands(text, place.line + 1 if block else place.line, place.column)
