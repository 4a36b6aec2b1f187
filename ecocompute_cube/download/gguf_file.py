"""From a quantized GGUF file to a plain FP16 checkpoint folder with its tokenizer."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ecocompute_cube.download.progress import Say
from ecocompute_cube.download.writing import (
    quiet_transformers,
    write_config,
    write_json,
    write_weights,
)
from ecocompute_cube.errors import ModelError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor
    from transformers import PretrainedConfig, PreTrainedModel

_CONTROL: Final = 3  # tokenizer.ggml.token_type of a control token (llama.cpp, gguf.TokenType)
#: The pipelines of tokenizer.ggml.pre that are known here: does each digit stand alone?
_DIGITS_ALONE: Final = {"smollm": True, "gpt-2": False, "default": False}
#: Digits, runs of spaces, letters outside ASCII, and what a careless decoder would turn into
#: something else.
_PROBE: Final = "Alice: “20  apples”,\n\n  été 😀 3.5 ▁ <0x41> it's ."


class _Vocabulary(NamedTuple):
    """What a GGUF file says about its tokenizer."""

    kind: str
    pre: str
    tokens: list[str]
    types: list[int]
    merges: list[str]
    bos: int
    eos: int
    pad: int
    unknown: int
    chat_template: str | None
    max_context: int


def dequantize(source: Path, folder: Path, say: Say) -> None:
    """Write the model of a GGUF file into ``folder`` as FP16 safetensors, config and tokenizer.

    Raises ModelError when the result does not read back as it should.
    """
    say("reading the tokenizer out of the GGUF file (some seconds)")
    vocabulary = _read(source)
    _write_tokenizer(folder, vocabulary)
    say("expanding the weights to FP16 (up to half a minute)")
    with quiet_transformers():
        model = _load(source)
        counts = {name: value.numel() for name, value in model.named_parameters()}
        write_weights(folder, counts, _parameters(model), say)
        write_config(folder, _clean(model, vocabulary))
        _check_tokenizer(folder, vocabulary)


def _load(source: Path) -> PreTrainedModel:
    import torch
    from transformers import AutoModelForCausalLM

    with contextlib.redirect_stderr(io.StringIO()):  # a bar that no setting switches off
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            source.parent, gguf_file=source.name, dtype=torch.float16
        )
    return model


def _parameters(model: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    for name, value in model.named_parameters():  # a tied head comes once, as the embedding
        yield name, value.detach().contiguous()


def _clean(model: PreTrainedModel, vocabulary: _Vocabulary) -> PretrainedConfig:
    """The model's config with the file's token ids: transformers 5.17 swaps some of them."""
    config = model.config
    config.bos_token_id = vocabulary.bos
    config.eos_token_id = vocabulary.eos
    config.pad_token_id = vocabulary.pad
    # GGUF holds it in 32 bits: 1e-05 comes back as 9.999999747378752e-06.
    config.rms_norm_eps = float(f"{config.rms_norm_eps:.6g}")
    config.architectures = [type(model).__name__]
    return config


def _read(source: Path) -> _Vocabulary:
    from gguf import GGUFReader

    reader = GGUFReader(source)

    def value(key: str, default: Any = None) -> Any:  # noqa: ANN401 (whatever the file holds)
        field = reader.get_field(key)
        return default if field is None else field.contents()

    eos = value("tokenizer.ggml.eos_token_id", 0)
    architecture = value("general.architecture")
    return _Vocabulary(
        kind=value("tokenizer.ggml.model", "none"),
        pre=value("tokenizer.ggml.pre", "default"),
        tokens=value("tokenizer.ggml.tokens", []),
        types=value("tokenizer.ggml.token_type", []),
        merges=value("tokenizer.ggml.merges", []),
        bos=value("tokenizer.ggml.bos_token_id", eos),
        eos=eos,
        pad=value("tokenizer.ggml.padding_token_id", eos),
        unknown=value("tokenizer.ggml.unknown_token_id", eos),
        chat_template=value("tokenizer.chat_template"),
        max_context=value(f"{architecture}.context_length", 0),
    )


def _write_tokenizer(folder: Path, vocabulary: _Vocabulary) -> None:
    """Save tokenizer.json, its config and the chat template.

    Built here from the file's tables: transformers 5.17 loses the digit rule, swaps bos and eos,
    and adds a decoder step that turns ``▁`` into a space.
    """
    _tokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    token = vocabulary.tokens.__getitem__
    config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": token(vocabulary.bos),
        "eos_token": token(vocabulary.eos),
        "pad_token": token(vocabulary.pad),
        "unk_token": token(vocabulary.unknown),
        "clean_up_tokenization_spaces": False,
        "model_max_length": vocabulary.max_context,
    }
    if vocabulary.chat_template:
        (folder / "chat_template.jinja").write_text(vocabulary.chat_template, encoding="utf-8")
    write_json(folder / "tokenizer_config.json", config)


def _tokenizer(vocabulary: _Vocabulary) -> Tokenizer:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    if vocabulary.kind != "gpt2" or vocabulary.pre not in _DIGITS_ALONE:
        raise ModelError(
            f"The tokenizer '{vocabulary.kind}/{vocabulary.pre}' of the GGUF file is unknown.",
            "Give a checkpoint folder with a tokenizer.json instead.",
        )
    ids = {token: i for i, token in enumerate(vocabulary.tokens)}
    merges = [(left, right) for left, _, right in (m.partition(" ") for m in vocabulary.merges)]
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges))
    steps = [pre_tokenizers.Digits(individual_digits=True)] * _DIGITS_ALONE[vocabulary.pre]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, normalized=False, special=True)
            for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=True)
            if kind == _CONTROL
        ]
    )
    return tokenizer


def _check_tokenizer(folder: Path, vocabulary: _Vocabulary) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.encode(_PROBE, add_special_tokens=False)
    found = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
    if (
        tokenizer.decode(ids) != _PROBE
        or found != (vocabulary.bos, vocabulary.eos, vocabulary.pad)
        or tokenizer.chat_template != vocabulary.chat_template
    ):
        raise ModelError(
            "The tokenizer written from the GGUF file does not read back as it was written "
            f"(tokens {json.dumps(found)}).",
            "Install the release of transformers that this package asks for.",
        )
