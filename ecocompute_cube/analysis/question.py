"""Plain questions: "13B on A100, int8, batch 32, 8k context", read by rules.

Each rule takes the words it knows out of the question; what is left and holds a figure is told as
not understood. Nothing is guessed: two sizes, or a board that nobody knows, are refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.cards import ARCHES, CARDS, card
from ecocompute_cube.analysis.query import shown
from ecocompute_cube.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ecocompute_cube.analysis.query import Query

MOST_CHARACTERS: Final = 500
_KIBI: Final = 1024  # "8k context" is 8192
_PER_B: Final = 1000  # millions

Value = str | float | int


class Understood(NamedTuple):
    """What a question says, by the names of ``query``'s parameters, and what it says besides."""

    values: dict[str, Value]
    unread: tuple[str, ...]


_NUMBER: Final = r"(\d{1,12}(?:\.\d{1,20})?)"
_START: Final = r"(?<![\w.,])"
_END: Final = r"(?![\w]|[.,]\d)"


def _names(names: Iterable[str]) -> str:
    """Any of these, the longest first, however their parts are joined."""
    parts = (re.split(r"[\s_-]+", name.casefold()) for name in names)
    found = {r"[\s_-]*".join(map(re.escape, words)) for words in parts}
    return "|".join(sorted(found, key=lambda each: (-len(each), each)))


_BOARDS: Final = _names(name for each in CARDS for name in (each.name, *each.also))

#: Spelling of a precision, and its name.
_PRECISIONS: Final = (
    (r"nf4[\s_-]*(?:dq|double[\s_-]*quant\w*)", "NF4-DQ"),
    (r"int8[\s_-]*t0|int8[\s_-]*threshold[\s_-]*0", "INT8-T0"),
    (r"int8[\s_-]*wo", "INT8-WO"),
    (r"int4[\s_-]*(?:wo)?", "INT4-WO"),
    (r"fp8[\s_-]*wo|fp8[\s_-]*weight[\s_-]*only", "FP8-WO"),
    (r"fp8[\s_-]*dyn(?:amic)?", "FP8-DYN"),
    (r"fp8", "FP8"),
    (r"bf16|bfloat16", "BF16"),
    (r"fp16|float16|half|16[\s-]*bits?", "FP16"),
    (r"nf4|q4|4[\s-]*bits?", "NF4"),
    (r"int8|q8|8[\s-]*bits?", "INT8"),
)
_RUNTIMES: Final = (
    (r"(?:as[\s]+a[\s]+)?(?:cuda[\s-]*)?graphs?", "graph"),
    (r"compiled|torch\.compile", "compiled"),
    (r"eager", "eager"),
    (r"static", "static"),
    (r"loop", "loop"),
)


class Rule(NamedTuple):
    """Words that say a parameter, and how its value is read from them."""

    parameter: str
    pattern: re.Pattern[str]
    reads: str  #: of ``_READ``
    means: str = ""  #: the value, where the words are a spelling of it


def _count(match: re.Match[str], rule: Rule) -> int:
    value = float(match[1]) * (_KIBI if match[2] else 1)
    return round(value)


def _board(match: re.Match[str], rule: Rule) -> str:
    return card(re.sub(r"\s+", " ", match[0])).name


_READ: Final[dict[str, Callable[[re.Match[str], Rule], Value]]] = {
    "spelling": lambda _, rule: rule.means,
    "word": lambda match, _: match[0],
    "board": _board,
    "count": _count,
    "billions": lambda match, _: float(match[1]),
    "millions": lambda match, _: float(match[1]) / _PER_B,
}


def _rule(parameter: str, pattern: str, reads: str, means: str = "") -> Rule:
    return Rule(parameter, re.compile(f"{_START}(?:{pattern}){_END}"), reads, means)


_LENGTH: Final = r"(?:context|ctx|seq(?:uence)?)(?:[\s_-]*(?:length|len|window))?"
_OF: Final = r"(?:\s+of)?\s*[:=]?\s*"

#: In this order: names hold figures that the later rules would take.
RULES: Final = (
    _rule("gpu", _BOARDS, "board"),
    *(_rule("precision", pattern, "spelling", name) for pattern, name in _PRECISIONS),
    _rule("batch", rf"(?:batch(?:[\s_-]*size)?|bs){_OF}{_NUMBER}(k)?", "count"),
    _rule("context", rf"{_LENGTH}{_OF}{_NUMBER}\s*(k)?(?:\s*tokens?)?", "count"),
    _rule("context", rf"{_NUMBER}\s*(k)?[\s-]*(?:tokens?\s*(?:of\s+)?)?{_LENGTH}", "count"),
    _rule("params_b", rf"{_NUMBER}[\s-]*(?:b|bn|billion)(?:[\s-]*param(?:eter)?s?)?", "billions"),
    _rule("params_b", rf"{_NUMBER}[\s-]*(?:m|million)(?:[\s-]*param(?:eter)?s?)?", "millions"),
    _rule("arch", "|".join(ARCHES), "word"),
    *(_rule("runtime", pattern, "spelling", name) for pattern, name in _RUNTIMES),
)
#: What looks like a board and is none that is known.
UNKNOWN_BOARD: Final = re.compile(
    r"(?<!\w)(?:(?:rtx|gtx|quadro|tesla|radeon|geforce|instinct)[\s-]*\w+|(?:mi|gb|gh|rx)[\s-]*\d{2,4}\w*|[abhlmtv]\d{1,4}\w?)(?!\w)"
)


def understand(text: str) -> Understood:
    """Read a question. Raises UsageError for contradictions and unknown boards."""
    if len(text) > MOST_CHARACTERS:
        raise UsageError(
            f"q: a question of {len(text)} characters is too long.",
            f"Ask in {MOST_CHARACTERS} characters: 13B on A100, int8.",
        )
    left = unicodedata.normalize("NFKC", text).casefold()
    values: dict[str, Value] = {}
    for rule in RULES:
        left = _taken(rule, left, values)
    unknown = UNKNOWN_BOARD.search(left)
    if unknown is not None and "gpu" not in values:
        card(unknown[0])
    return Understood(values, tuple(_figures(left)))


def _taken(rule: Rule, text: str, values: dict[str, Value]) -> str:
    """Put what a rule finds among the values; the question without it."""
    for match in rule.pattern.finditer(text):
        value = _READ[rule.reads](match, rule)
        known = values.setdefault(rule.parameter, value)
        if known != value:
            raise UsageError(
                f"{rule.parameter}: the question says both {shown(known)} and {shown(value)}.",
                "Ask about one at a time.",
            )
    return rule.pattern.sub(" ", text)


def _figures(text: str) -> list[str]:
    words = (word.strip(".,;:?!()'\"") for word in text.split())
    return [word for word in words if any(letter.isdigit() for letter in word)]


def as_question(asked: Query) -> str:
    """A question that is understood as this."""
    return (
        f"{asked.params_b!r}B on {asked.card.name}, {asked.precision}, {asked.runtime}, "
        f"batch {asked.batch}, context {asked.context}"
    )
