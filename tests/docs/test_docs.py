"""The documents say what the code says, and what they show works."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from docs import generate
from ecocompute_cube import cli, errors
from ecocompute_cube.analysis import gates
from ecocompute_cube.model import energy
from ecocompute_cube.model.base import Record
from ecocompute_cube.model.journal import TRACE_COLUMNS
from ecocompute_cube.report.csv import COLUMNS

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PACKAGE: Final = ROOT / "ecocompute_cube"

#: Where our own pages lie; build folders and environments hold other people's.
PLACES: Final = ("*.md", "docs/*.md", "requirements/*.md", "data/**/*.md", "tests/**/*.md")
PAGES: Final = sorted(page for place in PLACES for page in ROOT.glob(place))

_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_COMMAND: Final = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*(?:\S*/)?ecocompute (.*)$")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def prose(path: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


# What is generated


def test_generated_parts_are_what_the_code_says() -> None:
    assert generate.drifted() == []


def test_every_part_that_can_be_generated_is_shown_once() -> None:
    shown = re.findall(r"<!-- generated: ([a-z-]+) -->", "".join(map(page, _names())))
    assert sorted(shown) == sorted(generate.PARTS)


def _names() -> list[str]:
    return [path.name for path in DOCS.glob("*.md")]


def test_a_page_that_drifted_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stale = "before\n<!-- generated: plan -->\nold\n<!-- end generated -->\nafter\n"
    (tmp_path / "stale.md").write_text(stale)
    assert generate.main(["--check"], tmp_path) == 1
    assert "stale.md" in capsys.readouterr().err
    assert generate.main([], tmp_path) == 0
    text = (tmp_path / "stale.md").read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "#### Plan" in text
    assert generate.main(["--check"], tmp_path) == 0


class Unknown(Record):
    mystery: int


def test_a_field_that_nobody_explains_is_refused() -> None:
    with pytest.raises(generate.Unexplained, match="mystery"):
        generate.meaning(Unknown, "mystery")


# Commands and statuses


@pytest.mark.parametrize("name", generate.commands())
def test_every_command_and_option_is_documented(name: str) -> None:
    part = page("commands.md").partition(f"\n## ecocompute {name}\n")[2].partition("\n## ")[0]
    options = [
        option
        for action in generate.commands()[name]._actions
        for option in action.option_strings
        if option.startswith("--") and option != "--help"
    ]
    assert part and all(f"`{option}" in part for option in options)
    assert f"| `{name}` |" in page("commands.md")


def test_every_exit_status_is_named() -> None:
    statuses = {each.exit_status for each in _all_errors(errors.EcoError)}
    for name in ("commands.md", "formats.md"):
        text = page(name).partition("## Exit statuses")[2]
        assert {each for each in statuses if not re.search(rf"(^|\W){each}\W", text)} == set()


def _all_errors(kind: type[errors.EcoError]) -> Iterator[type[errors.EcoError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _all_errors(each)


def _typed() -> Iterator[tuple[str, str]]:
    """Every line of a fenced block that calls our command, with its page."""
    for path in PAGES:
        for language, block in _FENCE.findall(path.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines() if language != "text" else ():
                if found := _COMMAND.match(line.strip()):
                    yield path.name, found[1]


@pytest.mark.parametrize(("where", "line"), [*_typed()])
def test_every_command_that_a_page_shows_is_understood(where: str, line: str) -> None:
    del where  # for the name of the test
    words = shlex.split(re.split(r"\s(?:&&|\||>|;)\s", line)[0], comments=True)
    if {"--help", "--version"} & set(words):  # these print and end by themselves
        words = [word for word in words if word in generate.commands()]
    if words:
        cli._parser().parse_args(cli._underscored(words))


# Method


def _first_texts(path: Path, calls: set[str], place: int, keyword: str | None) -> Iterator[str]:
    """Texts given to these calls at one place, also those of a conditional expression."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        if ast.unparse(node.func).split(".")[-1] not in calls:
            continue
        given = [each.value for each in node.keywords if each.arg == keyword]
        for argument in given or node.args[place : place + 1]:
            yield from _texts(argument)


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _codes() -> set[str]:
    # These stand at the beginning of a reason: analysis/energy.py and reading.py.
    found = {"counter_reset", "counter_stuck", "below_resolution", "counter_lost"}
    for path in PACKAGE.rglob("*.py"):
        found |= set(_first_texts(path, {"_finding"}, 1, "code"))
        found |= set(_first_texts(path, {"Finding"}, 0, "code"))
        found |= set(_first_texts(path, {"ArmFailed", "Failure"}, 0, "reason"))
    return found


def test_every_code_of_a_finding_or_a_refusal_is_explained() -> None:
    codes = _codes()
    assert {"sources_differ", "not_settled", "rehearsal", "out_of_memory"} <= codes
    assert {code for code in codes if f"`{code}`" not in page("method.md")} == set()


def test_no_code_is_explained_that_nothing_gives() -> None:
    part = page("method.md").partition("## Refusals")[2].partition("## Rehearsals")[0]
    rows = re.findall(r"^\| (`[a-z_`, ]+) \|", part, re.MULTILINE)
    told = {code for row in rows for code in re.findall(r"`([a-z_]+)`", row)}
    assert told and told - _codes() == set()


def test_the_thresholds_of_the_gates_are_those_in_the_text() -> None:
    text = page("method.md")
    assert f"beyond {gates._IMPLAUSIBLE:g} × the enforced limit" in text
    assert f"differ by more than {gates._DISAGREE_PCT:g} %" in text
    assert f"changed by more than {gates.HOST_CHANGE:.0%}".replace("%", " %") in text


# Formats


def test_every_column_is_explained() -> None:
    text = page("formats.md")
    lost = {column for column in (*COLUMNS, *TRACE_COLUMNS) if f"`{column}`" not in text}
    assert lost == set()


#: Where each record with fields that may be null stands in energy.json.
_BLOCKS: Final = {
    "Measurement": "measurement",
    "ResultsMeasured": "results",
    "ResultsEstimated": "results",
    "ResultsUnavailable": "results",
    "Software": "software",
    "QualityMeasured": "quality",
    "QualityUnavailable": "quality",
    "Thermal": "thermal",
    "Environment": "environment",
    "Clocks": "environment.clocks_mhz",
    "Temperatures": "environment.temperature_c",
}


def test_every_field_that_may_be_null_says_where_its_reason_stands() -> None:
    part = page("formats.md").partition("### Nulls")[2].partition("### Its records")[0]
    nullable = {
        f"{_BLOCKS[model.__name__]}.{field}"
        for model in generate.described("energy")
        if model.__module__ == energy.__name__ and issubclass(model, Record)
        for field, hint in generate.hints_of(model).items()
        if "null" in generate.kind_of(hint).split()
    }
    assert nullable and {place for place in nullable if f"`{place}`" not in part} == set()


# Links


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    targets = [each for each in _LINK.findall(prose(path)) if not re.match(r"[a-z]+:", each)]
    assert [target for target in targets if not _leads(path, target)] == []


def _leads(path: Path, target: str) -> bool:
    place, _, wanted = target.partition("#")
    found = (path.parent / place).resolve() if place else path
    if not found.exists() or not found.is_relative_to(ROOT):
        return False
    headings = re.findall(r"^#+ (.*)$", prose(found), re.MULTILINE) if wanted else ()
    return not wanted or wanted in map(generate.anchor, headings)
