"""YAML and JSON documents with the place of every key."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ecocompute_cube.lint.found import NotRead, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    import yaml

_DEEPEST: Final = 60
_KEY: Final = re.compile(r'(?<!\\)"((?:[^"\\\n]|\\.)*)"\s*:')


class NoDocument(NotRead):
    """The text is no YAML or JSON; says why."""


class Entry(NamedTuple):
    """One key of a mapping."""

    key: str
    value: Node
    place: Place


class Node(NamedTuple):
    """A mapping, a list, or a plain value."""

    entries: tuple[Entry, ...]
    elements: tuple[Node, ...]
    value: object  #: of a plain value; None otherwise
    place: Place
    kind: str  #: mapping, list or plain

    def plain(self) -> object:
        """As Python would have it, two levels deep."""
        if self.kind == "list":
            return [each.value for each in self.elements]
        if self.kind == "mapping":
            return {each.key: each.value.value for each in self.entries}
        return self.value

    def walk(self) -> Iterator[Node]:
        """Every node below and this one."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += [each.value for each in reversed(node.entries)]
            waiting += reversed(node.elements)


def yaml_documents(text: str) -> list[Node]:
    """Every document of a YAML file. Raises NoDocument."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        found = list(yaml.compose_all(text, Loader=loader))
        resolver = yaml.SafeLoader("")
        return [_node(each, resolver, set(), 0) for each in found]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f": line {mark.line + 1}" if mark is not None else ""
        raise NoDocument(f"no YAML that can be read{where}") from None
    except (RecursionError, ValueError, TypeError, OverflowError):
        raise NoDocument("no YAML that can be read") from None


def _node(node: yaml.Node, resolver: yaml.SafeLoader, seen: set[int], depth: int) -> Node:
    """Each node of the file once: an alias is no second copy."""
    import yaml

    place = _marked(node)
    if depth > _DEEPEST or id(node) in seen:
        return Node((), (), None, place, "plain")
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        entries = tuple(
            Entry(str(key.value), _node(value, resolver, seen, depth + 1), _marked(key))
            for key, value in node.value
            if isinstance(key, yaml.ScalarNode)
        )
        return Node(entries, (), None, place, "mapping")
    if isinstance(node, yaml.SequenceNode):
        elements = tuple(_node(each, resolver, seen, depth + 1) for each in node.value)
        return Node((), elements, None, place, "list")
    return Node((), (), _scalar(node, resolver), place, "plain")


def _scalar(node: yaml.Node, resolver: yaml.SafeLoader) -> object:
    kind = node.tag.rpartition(":")[2]
    if kind not in ("bool", "int", "float", "null"):
        return str(node.value)
    try:
        value: object = resolver.construct_object(node, deep=True)
    except (ValueError, OverflowError):
        return str(node.value)
    return value


def _marked(node: yaml.Node) -> Place:
    start, end = node.start_mark, node.end_mark
    return Place(start.line + 1, start.column + 1, end.line + 1, end.column + 1)


def json_document(text: str) -> Node:
    """A JSON file. Raises NoDocument."""
    try:
        found = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        line = f": line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise NoDocument(f"no JSON that can be read{line}") from None
    return _placed(found, iter(_keys(text)), 0)


class _Pairs(list[tuple[str, Any]]):
    """A mapping whose keys stand in the order of the text, doubles included."""


def _keys(text: str) -> list[Place]:
    """Where each key stands, in the order of the text."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found, line = [], 0
    for match in _KEY.finditer(text):
        while line + 1 < len(starts) and starts[line + 1] <= match.start():
            line += 1
        column = match.start() - starts[line] + 1
        found.append(Place(line + 1, column, line + 1, column + len(match[1]) + 2))
    return found


_NOWHERE: Final = Place(1, 1, 1, 1)


def _placed(value: object, places: Iterator[Place], depth: int) -> Node:
    if isinstance(value, _Pairs):
        entries = []
        for key, each in value:
            place = next(places, _NOWHERE)
            entries.append(Entry(key, _placed(each, places, depth + 1), place))
        at = entries[0].place if entries else _NOWHERE
        return Node(tuple(entries), (), None, at, "mapping")
    if isinstance(value, list):
        elements = tuple(_placed(each, places, depth + 1) for each in value)
        at = elements[0].place if elements else _NOWHERE
        return Node((), elements, None, at, "list")
    return Node((), (), value, _NOWHERE, "plain")
