"""Fills the generated parts of docs/*.md from the code that they describe.

``python docs/generate.py`` writes them; with ``--check`` it only says which are not what the code
says (status 1). A part lies between ``<!-- generated: NAME -->`` and ``<!-- end generated -->``.

What a field means is its ``#:`` comment in the source. Where the source is silent, docs/words.toml
has the words; a field without either, and words for a field that has its own, are errors.
"""

from __future__ import annotations

import argparse
import ast
import csv
import enum
import functools
import inspect
import io
import json
import math
import re
import sys
import tokenize
import tomllib
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ecocompute_cube import cli, errors
from ecocompute_cube.analysis.cards import CARDS
from ecocompute_cube.analysis.curves import FILE as CURVES
from ecocompute_cube.analysis.protocol import CLAUSES
from ecocompute_cube.lint.rules import RULES
from ecocompute_cube.model.base import Absent, Sha256, UtcTime
from ecocompute_cube.model.bundle import BundleManifest
from ecocompute_cube.model.doctor import Diagnosis
from ecocompute_cube.model.energy import EnergyReport
from ecocompute_cube.model.files import write_whole
from ecocompute_cube.model.gate import Gate
from ecocompute_cube.model.journal import Line
from ecocompute_cube.model.manifest import Manifest
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.model.replication import Replication
from ecocompute_cube.model.report import ReportFile
from ecocompute_cube.validate import Validation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Model = type[BaseModel]

DOCS: Final = Path(__file__).parent
_PART: Final = re.compile(
    r"(<!-- generated: (?P<name>[a-z-]+) -->\n).*?(<!-- end generated -->)", re.DOTALL
)

#: The documents. A record that several use is described with the first of them.
DOCUMENTS: Final[dict[str, Model]] = {
    "plan": Plan,
    "manifest": Manifest,
    "journal": Line,
    "energy": EnergyReport,
    "report": ReportFile,
    "validation": Validation,
    "comparison": Replication,
    "gate": Gate,
    "doctor": Diagnosis,
    "bundle": BundleManifest,
}

_FEW_HITS: Final = 20  # findings of a lint rule; of fewer no rate is told

#: How our helps state a default; the table has a column for it.
_DEFAULT: Final = re.compile(r"^default \S+$| \(default \S+\)$")

#: Unit by the end of a field's name, the longest first.
_UNITS: Final = (
    ("_per_token_mj", "mJ/token"),
    ("per_token_interval_mj", "mJ/token"),
    ("tokens_per_s", "tokens/s"),
    ("_joules", "J"),
    ("_watts", "W"),
    ("_seconds", "s"),
    ("_bytes", "bytes"),
    ("bytes", "bytes"),
    ("_tokens", "tokens"),
    ("tokens", "tokens"),
    ("context_length", "tokens"),
    ("seq_len", "tokens"),
    ("_pct", "%"),
    ("_mib", "MiB"),
    ("_mhz", "MHz"),
    ("_hz", "Hz"),
    ("_ns", "ns"),
    ("_ms", "ms"),
    ("_mj", "mJ"),
    ("_j", "J"),
    ("_w", "W"),
    ("_s", "s"),
    ("_c", "°C"),
    ("params_b", "10⁹"),
    ("nll", "nats"),
)
#: Where the name does not tell.
_UNITS_OF: Final = {
    "Energy.mj_per_token": "mJ/token",
    "Energy.interval_mj": "mJ/token",
    "Energy.bound_mj": "mJ/token",
    "Energy.blocks_mj": "mJ/token",
    "SessionChange.mj_per_token": "mJ/token",
    "SizeRange.low_b": "10⁹",
    "SizeRange.high_b": "10⁹",
    "Crossover.size_b": "10⁹",
    "Crossover.size_range_b": "10⁹",
    "Compared.points": "points",
    "ResultsMeasured.reading_bound_mj": "mJ/token",
    "Clocks": "MHz",
    "Temperatures": "°C",
    "TraceStored.phases": "ns",
    "TraceFile.phases": "s",
    "Corpus.bytes": "bytes",
    "Manifest.tokenizer": "",
    "Board.uuid_sha256": "",
}


class Unexplained(Exception):
    """A field, option or word that the documents cannot be made of; says what to do."""


class Words(NamedTuple):
    """What docs/words.toml says where the source is silent."""

    fields: dict[str, dict[str, str]]  #: by a record's heading, then field
    everywhere: dict[str, str]  #: by field, for whatever record has it
    options: dict[str, str]  #: by "COMMAND --option"


# Reading the source


@functools.cache
def words() -> Words:
    """The words in docs/words.toml."""
    data = tomllib.loads((DOCS / "words.toml").read_text(encoding="utf-8"))
    options: dict[str, str] = data.pop("options")
    everywhere: dict[str, str] = data.pop("everywhere")
    return Words(data, everywhere, options)


@functools.cache
def comments_of(owner: type) -> dict[str, str]:
    """The ``#:`` comment of each assignment in a class body; in an enumeration a plain one too."""
    source = inspect.getsource(owner)
    mark = "#" if issubclass(owner, enum.Enum) else "#:"
    found = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and token.string.startswith(mark)
    ]
    ending = {token.start[0]: _said(token) for token in found if not _alone(token)}
    above = {token.start[0]: _said(token) for token in found if _alone(token)}
    body = typing.cast("ast.ClassDef", ast.parse(source).body[0]).body
    return {
        _assigned(node): text
        for node in body
        if isinstance(node, ast.AnnAssign | ast.Assign)
        if (text := ending.get(node.end_lineno or 0) or _right_above(above, node.lineno))
    }


def _alone(comment: tokenize.TokenInfo) -> bool:
    return not comment.line[: comment.start[1]].strip()


def _said(comment: tokenize.TokenInfo) -> str:
    return comment.string.lstrip("#: ").strip()


def _assigned(node: ast.AnnAssign | ast.Assign) -> str:
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return ast.unparse(target)


def _right_above(comments: dict[int, str], line: int) -> str:
    """The block of comments that ends in the line before."""
    block: list[str] = []
    while line - 1 in comments:
        line -= 1
        block.insert(0, comments[line])
    return " ".join(block)


def meaning(model: Model, field: str) -> str:
    """What a field means. Raises Unexplained when nobody says it, or two do."""
    name = f"[{heading(model)}] {field}"
    own = comments_of(model).get(field)
    given = words().fields.get(heading(model), {}).get(field)
    if own and given:
        raise Unexplained(f"{name} now has its own comment: remove it from docs/words.toml.")
    told = own or given or words().everywhere.get(field)
    if told:
        return _sentence(told)
    raise Unexplained(
        f"{name} has no meaning: give it a '#:' comment, or words in docs/words.toml."
    )


def _sentence(text: str) -> str:
    first = text[0].upper() if text[0].isascii() else text[0]
    return _marked(first + text[1:]).rstrip(".").replace("|", "\\|")


def _marked(text: str) -> str:
    """ReST's double backquotes as Markdown's single ones."""
    return text.replace("``", "`")


def _doc(owner: type) -> str:
    return _marked(inspect.getdoc(owner) or "")


# Types in words


def hints_of(model: Model) -> dict[str, object]:
    """Each field's annotation, with what Annotated holds."""
    known = typing.get_type_hints(model, include_extras=True)
    return {name: known[name] for name in model.model_fields}


def records_in(hint: object) -> Iterator[type]:
    """The records and enumerations that an annotation names, in order."""
    if isinstance(hint, type) and issubclass(hint, BaseModel | enum.StrEnum):
        if hint is not Absent:
            yield hint
        return
    for part in typing.get_args(hint):
        yield from records_in(part)


def kind_of(hint: object, constraints: Sequence[object] = ()) -> str:
    """An annotation in words."""
    if hint == Sha256:
        return "[SHA-256](#values)"
    if hint == UtcTime:
        return "[UTC time](#values)"
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return kind_of(args[0], _constraints(args[1:]))
    if origin is typing.Union or origin is types.UnionType:
        return _either(args, constraints)
    return _plain(hint, origin, args) + _limits(constraints)


def _constraints(extras: Iterable[object]) -> list[object]:
    return [each for extra in extras if isinstance(extra, FieldInfo) for each in extra.metadata]


def _either(args: tuple[object, ...], constraints: Sequence[object]) -> str:
    others = [kind_of(arg) for arg in args if arg in (Absent, type(None))]
    meant = [arg for arg in args if arg not in (Absent, type(None))]
    first = ", ".join(kind_of(arg, constraints) for arg in meant)
    return " or ".join([f"one of {first}" if len(meant) > 1 else first, *others])


_SIMPLE: Final[dict[object, str]] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    type(None): "null",
    Absent: "[absent](#absent)",
}


def _plain(hint: object, origin: object, args: tuple[object, ...]) -> str:
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if origin is Literal:
        return " or ".join(f"`{json.dumps(arg)}`" for arg in args)
    if origin is tuple:
        return _tuple(args)
    if origin is dict:
        return f"map of {kind_of(args[1])}"
    if isinstance(hint, type):
        return _link(hint)
    raise Unexplained(f"docs/generate.py has no words for the type {hint}.")


def _tuple(args: tuple[object, ...]) -> str:
    if args[-1] is Ellipsis:
        return f"list of {kind_of(args[0])}"
    return f"list of {len(args)}: " + ", ".join(kind_of(arg) for arg in args)


def _limits(constraints: Sequence[object]) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "min_length": "length ≥"}
    signs |= {"max_length": "length ≤"}
    found = [
        f"{sign} {getattr(each, name):g}"
        for each in constraints
        for name, sign in signs.items()
        if getattr(each, name, None) is not None
    ]
    found += [f"`{each.pattern}`" for each in constraints if getattr(each, "pattern", None)]  # type: ignore[attr-defined]  # looked for just now
    return f", {', '.join(found)}".replace("|", "\\|") if found else ""


# Records


def described(document: str) -> tuple[type, ...]:
    """The records and enumerations that a document is the first to use, itself first."""
    return _described()[document]


@functools.cache
def _described() -> dict[str, tuple[type, ...]]:
    seen: set[type] = set()
    return {name: tuple(_reached(model, seen)) for name, model in DOCUMENTS.items()}


def _reached(model: Model, seen: set[type]) -> Iterator[type]:
    waiting: list[type] = [model]
    while waiting:
        found = waiting.pop(0)
        if found in seen:
            continue
        seen.add(found)
        yield found
        if issubclass(found, BaseModel):
            waiting += [part for hint in hints_of(found).values() for part in records_in(hint)]


def heading(owner: type) -> str:
    """A record's heading: its name, and its document's where two records share the name."""
    home = {each: name for name, found in _described().items() for each in found}
    same = [each for each in home if each.__name__ == owner.__name__]
    return owner.__name__ if len(same) <= 1 else f"{owner.__name__} in {home[owner]}"


def _link(owner: type) -> str:
    text = heading(owner)
    return f"[{owner.__name__}](#{anchor(text)})"


def anchor(text: str) -> str:
    """GitHub's anchor of a heading."""
    kept = re.sub(r"[^\w\- ]", "", text.strip().lower())
    return kept.replace(" ", "-")


def document_part(name: str) -> str:
    """Every record of one document, each with its table."""
    return "\n".join(_section(owner, defaults=name == "plan") for owner in described(name))


def _section(owner: type, *, defaults: bool) -> str:
    if issubclass(owner, BaseModel):
        table = _record_table(owner, defaults)
    else:
        table = _enum_table(typing.cast("type[enum.StrEnum]", owner))
    return f"#### {heading(owner)}\n\n{_doc(owner)}\n\n{table}"


def _enum_table(owner: type[enum.StrEnum]) -> str:
    said = comments_of(owner)
    rows = [(f"`{each.value}`", _sentence(said.get(each.name) or each.value)) for each in owner]
    if all(name not in said for name in owner.__members__):
        return "One of " + ", ".join(row[0] for row in rows) + ".\n"
    return table_of(("value", "meaning"), rows)


def _record_table(model: Model, defaults: bool) -> str:
    rows = [_field_row(model, name, hint, defaults) for name, hint in hints_of(model).items()]
    middle = ("default",) if defaults else ("unit",)
    return table_of(("field", "type", *middle, "meaning"), rows)


def _field_row(model: Model, name: str, hint: object, default: bool) -> tuple[str, ...]:
    info = model.model_fields[name]
    kind = kind_of(hint, info.metadata if typing.get_origin(hint) is not typing.Annotated else ())
    middle = _default(info) if default else unit_of(model, name, hint)
    return f"`{name}`", kind, middle, meaning(model, name)


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value: Any = info.default
    if isinstance(value, BaseModel):
        return "its own defaults"
    if isinstance(value, tuple) and any(isinstance(each, BaseModel) for each in value):
        return "one with its own defaults"
    return f"`{json.dumps(value)}`"


def unit_of(model: Model, field: str, hint: object) -> str:
    """A field's unit, by its name; empty for what is no quantity."""
    for key in (f"{model.__name__}.{field}", model.__name__):
        if key in _UNITS_OF:
            return _UNITS_OF[key]
    if not _numeric(hint):
        return ""
    return next((unit for end, unit in _UNITS if field.endswith(end)), "")


def _numeric(hint: object) -> bool:
    if isinstance(hint, type):
        return hint.__name__ in ("int", "float", "Interval")
    return any(_numeric(part) for part in typing.get_args(hint))


def table_of(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, with a newline at its end."""
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows]
    return "\n".join(lines) + "\n"


# Errors, clauses, commands


def statuses_part() -> str:
    """Every exit status with the errors behind it."""
    rows = [("0", "", "done")]
    rows += [("1", "", "`validate`, `bundle --check`, `lint`: what was read is found wanting")]
    rows += [
        (str(each.exit_status), f"`{each.code}`", _doc(each).splitlines()[0])
        for each in _leaves_of(errors.EcoError)
    ]
    rows.sort(key=lambda row: int(row[0]))
    return table_of(("status", "error", "meaning"), rows)


def _leaves_of(kind: type[errors.EcoError]) -> Iterator[type[errors.EcoError]]:
    for each in kind.__subclasses__():
        if each is not errors.ArmFailed:  # costs its arm, never the process
            yield each
            yield from _leaves_of(each)


def clauses_part() -> str:
    """The table of clauses that ``validate`` judges."""
    return table_of(
        ("clause", "about", "asked by", "what is judged", "when it fails"),
        [
            (
                each.id,
                each.about,
                f"`{each.profile}`",
                _judged(each.judge),
                _marked(each.fix).replace("|", "\\|"),
            )
            for each in CLAUSES
        ],
    )


def _judged(judge: Callable[..., object]) -> str:
    text = " ".join((inspect.getdoc(judge) or "").split("\n\n")[0].split())
    return _sentence(text.partition(", ")[2] or text)


def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command's parser, by its name."""
    found = next(
        action
        for action in cli._parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return dict(found.choices)


def commands_part() -> str:
    """Every command with its options. Not argparse's own text, which differs between Pythons."""
    helps = {
        each.dest: each.help or ""
        for action in cli._parser()._actions
        if isinstance(action, argparse._SubParsersAction)
        for each in action._choices_actions
    }
    return "\n".join(
        f"## ecocompute {name}\n\n{_sentence(helps[name])}.\n\n"
        f"```text\n{synopsis(name, parser)}\n```\n\n{_options(name, parser)}"
        for name, parser in commands().items()
    )


def synopsis(name: str, parser: argparse.ArgumentParser) -> str:
    """One line: the command with all that it takes."""
    return " ".join([f"ecocompute {name}", *(_shape(each) for each in _actions(parser))])


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [each for each in parser._actions if each.dest != "help"]


def _shape(action: argparse.Action) -> str:
    if not action.option_strings:
        word = str(action.metavar or action.dest.upper())
        return {"+": f"{word} [{word} ...]", "?": f"[{word}]"}.get(str(action.nargs), word)
    return f"[{_option(action)}]"


def _option(action: argparse.Action) -> str:
    name = action.option_strings[-1]
    if action.nargs == 0:
        return name
    choices = "|".join(map(str, action.choices)) if action.choices else action.metavar
    return f"{name} {choices}"


def _options(command: str, parser: argparse.ArgumentParser) -> str:
    return table_of(
        ("argument", "default", "meaning"),
        [_option_row(command, action) for action in _actions(parser)],
    )


def _option_row(command: str, action: argparse.Action) -> tuple[str, str, str]:
    name = action.option_strings[-1] if action.option_strings else _shape(action)
    shown = _option(action) if action.option_strings else name
    own = _DEFAULT.sub("", action.help or "")
    given = words().options.get(f"{command} {name}")
    if bool(given) == bool(own):
        raise Unexplained(
            f"'{command} {name}' must be explained once: by its help, or in docs/words.toml."
        )
    default = "" if action.default in (None, False) else f"`{action.default}`"
    return f"`{shown}`".replace("|", "\\|"), default, _sentence(own or given or "")


# Writing


def scatter_part() -> str:
    """How sessions differ, and how often what was left out lay in the range of the rest."""
    document = json.loads(CURVES.read_text(encoding="utf-8"))
    rows = [
        (
            f"{each['precision']}/{each['runtime']}",
            "–" if each["log_sd"] is None else f"{_pct(each['log_sd'])} ({each['degrees']})",
            _share(each["left_out_sessions"]),
            _share(each["left_out_sizes"]),
        )
        for each in document["scatter"]
    ]
    heads = ("arm", "sessions differ by (degrees)", "sessions left out", "sizes left out")
    return table_of(heads, rows)


def mechanism_part() -> str:
    """How far off the mechanism is, by dataset."""
    document = json.loads(CURVES.read_text(encoding="utf-8"))
    rows = [
        (
            each["gpu"],
            each["arm"],
            each["left_out"],
            str(each["rows"]),
            _pct(each["change_log"]),
            _pct(each["level_log"]),
        )
        for each in document["checks"]
    ]
    heads = ("board", "arm", "not seen by the fit", "rows", "ratio to FP16", "mJ/token")
    return table_of(heads, rows)


def cards_part() -> str:
    """The boards that are known by name."""
    rows = [
        (
            each.name,
            each.arch,
            *(f"{value:g}" for value in each[2:6]),
            ", ".join(f"`{name}`" for name in each.also),
        )
        for each in CARDS
    ]
    heads = ("board", "architecture", "GB", "GB/s", "W", "TFLOPS, FP16", "also")
    return table_of(heads, rows)


def lint_rules_part() -> str:
    """The rules of ``lint``, with how often each was wrong."""
    judged = _precision()
    rows = [
        (
            f"`{rule.code}`",
            rule.name,
            rule.severity + (", `--fix`" if rule.safe else ""),
            rule.what,
            rule.fix,
            rule.measured,
            _wrong(judged.get(rule.code, [])),
        )
        for rule in RULES
    ]
    heads = ("code", "name", "severity", "looks for", "remedy", "measured", "false, of judged")
    return table_of(heads, rows)


def _precision() -> dict[str, list[str]]:
    """The verdicts on each rule's findings."""
    found: dict[str, list[str]] = {}
    path = DOCS.parent / "data" / "lint" / "precision.csv"
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["code"], []).append(row["verdict"])
    return found


def _wrong(verdicts: Sequence[str]) -> str:
    if len(verdicts) < _FEW_HITS:
        return f"rate unknown ({verdicts.count('false')} of {len(verdicts)})"
    share = 100 * verdicts.count("false") / len(verdicts)
    return f"{share:.1f} % ({verdicts.count('false')} of {len(verdicts)})"


def _pct(log: float) -> str:
    return f"{100 * math.expm1(log):.1f} %"


def _share(counted: Sequence[int]) -> str:
    held, tried = counted
    return f"{held} of {tried}" if tried else "–"


PARTS: Final[dict[str, Callable[[], str]]] = {
    **{name: functools.partial(document_part, name) for name in DOCUMENTS},
    "exit-statuses": statuses_part,
    "clauses": clauses_part,
    "commands": commands_part,
    "scatter": scatter_part,
    "mechanism": mechanism_part,
    "cards": cards_part,
    "lint-rules": lint_rules_part,
}


def filled(text: str) -> str:
    """A page with its generated parts made anew."""
    return _PART.sub(lambda m: f"{m[1]}\n{PARTS[m['name']]()}\n{m[3]}", text)


def pages(folder: Path = DOCS) -> dict[Path, str]:
    """Every page that has generated parts, as it should be. Raises Unexplained."""
    _refuse_dead_words()
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
    return {path: filled(text) for path, text in texts.items() if _PART.search(text)}


def _refuse_dead_words() -> None:
    known = {heading(each): each for found in _described().values() for each in found}
    for name, fields in words().fields.items():
        owner = known.get(name)
        lost = [f for f in fields if owner is None or f not in owner.model_fields]  # type: ignore[attr-defined]  # words are for records
        if lost:
            raise Unexplained(f"docs/words.toml explains what is not there: {name}.{lost[0]}.")


def drifted(folder: Path = DOCS) -> list[str]:
    """Names of the pages that are not what the code says."""
    return [path.name for path, text in pages(folder).items() if path.read_text("utf-8") != text]


def main(arguments: Sequence[str], folder: Path = DOCS) -> int:
    """Write the pages, or check them."""
    try:
        if list(arguments) == ["--check"]:
            wrong = drifted(folder)
            for name in wrong:
                sys.stderr.write(f"docs/{name} is not what the code says: run docs/generate.py\n")
            return 1 if wrong else 0
        for path, text in pages(folder).items():
            write_whole(path, text.encode())
    except Unexplained as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
