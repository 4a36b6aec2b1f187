"""What a file says for certain, whatever language it is in. Rules judge these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import TypeAlias

    from ecocompute_cube.lint.found import Edit, Place


class Unknown:
    """A value that the file does not tell. Equal to nothing."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()

Library = Literal["transformers", "embedding", "vllm", "tgi", "sglang", "llama.cpp", "ollama"]
#: How often a call is made, by where it stands.
Repeated = Literal["", "for", "while", "handler"]


class Option(NamedTuple):
    """One argument, key or flag."""

    value: object  #: a plain value, dtypes by name, or UNKNOWN
    place: Place


class Options(NamedTuple):
    """Everything that a call or a mapping sets."""

    given: Mapping[str, Option]
    open: bool = False  #: more may be set than is seen
    drop: Callable[[Collection[str]], Edit | None] | None = None

    def value(self, *names: str) -> object:
        """Of the first of these names that is given; None where all are known to be absent."""
        for name in names:
            if name in self.given:
                return self.given[name].value
        return UNKNOWN if self.open else None

    def place(self, *names: str) -> Place | None:
        """Of the first of these names that is given."""
        return next((self.given[name].place for name in names if name in self.given), None)

    def absent(self, name: str) -> bool:
        """Whether it is certain that nothing sets this."""
        return not self.open and name not in self.given


class Quantize(NamedTuple):
    """A bitsandbytes or torchao configuration, or the options that make one."""

    place: Place
    options: Options
    models: tuple[str, ...] = ()  #: names of the models that are loaded with it
    kind: Literal["bitsandbytes", "torchao"] = "bitsandbytes"
    shared: bool = False  #: its options stand among others, as in from_pretrained
    served: int | None = None  #: rows at a time, where the loads tell


class Load(NamedTuple):
    """A model is loaded, or an engine is started with one."""

    place: Place
    library: Library
    model: str | None
    options: Options
    repeated: Repeated = ""
    needless: bool = False  #: repeated, and alike each time
    on_gpu: bool = False
    quantized: Quantize | None = None


class Generate(NamedTuple):
    """Tokens are generated, or it is said how many may be."""

    place: Place
    library: Library
    options: Options
    call: bool = True  #: False: a configuration
    row: bool = False  #: one row at a time, for certain
    repeated: Repeated = ""
    over: str = ""  #: what the loop goes over, as written
    compared: bool = False  #: the same function generates with a cache too
    capturable: bool = False  #: nothing captures it yet, and its precision could be


class Forward(NamedTuple):
    """A loaded model is called itself, with gradients on."""

    place: Place


Fact: TypeAlias = Quantize | Load | Generate | Forward


class Facts(NamedTuple):
    """Of one file."""

    facts: tuple[Fact, ...]
    trains: bool = False  #: what is measured here is decoding, so some rules are silent then
