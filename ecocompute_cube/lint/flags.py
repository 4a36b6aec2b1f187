"""Flags of the programs that serve models, in shell lines, Dockerfiles and lists of arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.lint.facts import Facts, Generate, Load, Option, Options, Quantize
from ecocompute_cube.lint.found import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ecocompute_cube.lint.facts import Fact, Library

#: What starts each program. The rest of the command are its flags.
_PROGRAMS: Final[tuple[tuple[Library, re.Pattern[str]], ...]] = (
    ("vllm", re.compile(r"^(?:\S*/)?vllm$|^vllm\.entrypoints\.(?:openai\.)?api_server$")),
    ("tgi", re.compile(r"^(?:\S*/)?text-generation-launcher$|text-generation-inference(?::|$)")),
    ("sglang", re.compile(r"^sglang\.launch_server$")),
    ("llama.cpp", re.compile(r"^(?:\S*/)?llama-(?:server|cli|run)$")),
)
_IMAGES: Final = re.compile(r"(?:^|/)vllm/vllm-openai(?::|$)")
_ENDS: Final = frozenset({"&&", "||", ";", "|", "&"})
_WORD: Final = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[^\s\"'\[\],]+|\\\n")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_OLLAMA_ENV: Final = re.compile(r"\bOLLAMA_KEEP_ALIVE\s*[=:\s]\s*[\"']?(0[smh]?)(?![\w.])")
_PARAMETER: Final = re.compile(r"^\s*PARAMETER\s+num_predict\s+(-\d+)\s*$", re.IGNORECASE)
_MODELS: Final = ("model", "model-id", "model-path")
_SHORT: Final = {"-n": "n-predict", "--predict": "n-predict", "-m": "model"}


class Word(NamedTuple):
    """One word of a command."""

    text: str
    place: Place


def shell_facts(text: str) -> Facts:
    """Of a shell script or Dockerfile."""
    facts: list[Fact] = []
    for command in commands(text):
        facts += of_command(command)
    facts += _environment(text)
    return Facts(tuple(facts))


def modelfile_facts(text: str) -> Facts:
    """Of Ollama's Modelfile."""
    facts = []
    for number, line in enumerate(text.split("\n"), 1):
        found = _PARAMETER.match(line)
        if found is not None:
            place = Place(number, found.start(1) + 1, number, found.end(1) + 1)
            options = Options({"num_predict": Option(int(found[1]), place)})
            facts.append(Generate(place, "ollama", options, call=False))
    return Facts(tuple(facts))


def _environment(text: str) -> list[Fact]:
    facts: list[Fact] = []
    if "OLLAMA_KEEP_ALIVE" not in text:
        return facts
    for number, line in enumerate(text.split("\n"), 1):
        found = None if line.lstrip().startswith("#") else _OLLAMA_ENV.search(line)
        if found is not None:
            place = Place(number, found.start() + 1, number, found.end() + 1)
            facts.append(unloaded(place))
    return facts


def unloaded(place: Place) -> Load:
    """Ollama drops its model after each request."""
    return Load(place, "ollama", None, Options({}), repeated="handler", needless=True)


def commands(text: str, line: int = 1, column: int = 1) -> list[list[Word]]:
    """The commands of a shell text, continued lines joined, comments left out."""
    found: list[list[Word]] = []
    current: list[Word] = []
    for number, each in enumerate(text.split("\n"), line):
        start = column if number == line else 1
        body = each.rstrip()
        going_on = body.endswith("\\")
        if body.lstrip().startswith("#"):
            continue
        for match in _WORD.finditer(body.rstrip("\\")):
            word, at = _unquoted(match[0]), match.start() + start
            if word.startswith("#") and not match[0].startswith(('"', "'")):
                break
            if word in _ENDS:
                found.append(current)
                current = []
                continue
            current.append(Word(word, Place(number, at, number, at + len(match[0]))))
        if not going_on:
            found.append(current)
            current = []
    found.append(current)
    return [each for each in found if each]


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] in "\"'" and word[-1] == word[0] else word


def of_command(words: Sequence[Word]) -> list[Fact]:
    """What a command that serves a model says; nothing where it is another one."""
    for n, word in enumerate(words):
        for library, pattern in _PROGRAMS:
            if not pattern.search(word.text):
                continue
            rest = words[n + 1 :]
            if library == "vllm" and word.text.endswith("vllm"):
                if not rest or rest[0].text != "serve":
                    continue
                rest = rest[1:]
            return _served(library, word, rest)
        if _IMAGES.search(word.text):
            return _served("vllm", word, words[n + 1 :])
    return []


def of_arguments(library: Library, first: Word, words: Sequence[Word]) -> list[Fact]:
    """The same, where the program is named apart from its arguments."""
    return _served(library, first, words)


def program_of(text: str) -> Library | None:
    """The program that an image or a command is of."""
    if _IMAGES.search(text):
        return "vllm"
    return next((library for library, pattern in _PROGRAMS if pattern.search(text)), None)


def _served(library: Library, first: Word, words: Sequence[Word]) -> list[Fact]:
    given, positional = _flags(words)
    options = Options(given)
    model = next((str(given[m].value) for m in _MODELS if m in given), None)
    if model is None and library == "vllm" and positional:
        model = positional[0].text
    facts: list[Fact] = []
    quantized = _quantize(library, options, model)
    load = Load(first.place, library, model, options, on_gpu=True, quantized=quantized)
    facts.append(load)
    if quantized is not None and library == "tgi":
        facts.append(quantized)
    if "n-predict" in given and library == "llama.cpp":
        facts.append(Generate(first.place, "llama.cpp", options, call=False))
    return facts


def _flags(words: Iterable[Word]) -> tuple[dict[str, Option], list[Word]]:
    given: dict[str, Option] = {}
    positional: list[Word] = []
    waiting: Word | None = None  # a flag whose value may come
    for word in words:
        negative = _NUMBER.fullmatch(word.text) is not None
        if word.text.startswith("-") and not negative:
            name, equals, value = word.text.partition("=")
            key = _SHORT.get(name, name.lstrip("-").replace("_", "-"))
            given[key] = Option(_typed(value) if equals else True, word.place)
            waiting = None if equals else word._replace(text=key)
        elif waiting is not None:
            whole = waiting.place._replace(
                end_line=word.place.end_line, end_column=word.place.end_column
            )
            given[waiting.text] = Option(_typed(word.text), whole)
            waiting = None
        else:
            positional.append(word)
    return given, positional


def _typed(text: str) -> object:
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text[:20])
    return {"true": True, "false": False}.get(text.casefold(), text)


#: text-generation-inference's names for bitsandbytes.
_TGI: Final = {
    "bitsandbytes": "load_in_8bit",
    "bitsandbytes-nf4": "load_in_4bit",
    "bitsandbytes-fp4": "load_in_4bit",
}


def _quantize(library: Library, options: Options, model: str | None) -> Quantize | None:
    told = options.value("quantize" if library == "tgi" else "quantization")
    place = options.place("quantize", "quantization")
    if not isinstance(told, str) or place is None:
        return None
    names = (model,) if model else ()
    bits = _TGI.get(told) if library == "tgi" else None
    given = {} if bits is None else {bits: Option(True, place)}
    if bits == "load_in_4bit":  # the launcher computes in its --dtype
        given["bnb_4bit_compute_dtype"] = Option("float16", place)
    return Quantize(place, Options(given, open=bits is None), names, shared=True)
