"""Whether a call generates for one row at a time, and whether it does so again and again."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from ecocompute_cube.lint.names import Const, Elements, Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ecocompute_cube.lint.facts import Repeated
    from ecocompute_cube.lint.names import At, Loop, Program

_DEEPEST: Final = 6
#: Words in names that speak of many rows.
_MANY: Final = ("batch", "loader", "chunk", "shard", "group", "split")
#: Names of one text. Without padding a tokenizer makes no tensor of several.
_ONE: Final = frozenset(
    {"prompt", "text", "question", "query", "message", "sentence", "instruction", "input_text"}
    | {"user_input", "user_message", "content"}
)
_ROUTES: Final = frozenset(
    {"get", "post", "put", "route", "websocket", "api_route", "on_event_message"}
)
_SERVERS: Final = ("bentoml.api", "modal.method", "modal.fastapi_endpoint", "modal.web_endpoint")
_PLACES: Final = frozenset({"to", "cuda", "cpu", "unsqueeze", "squeeze", "long", "clone"})


def repeated(program: Program, at: At) -> Repeated:
    """How often what stands here is done, for certain."""
    for loop in reversed(at.loops):
        return "while" if isinstance(loop.node, ast.While) else "for"
    return "handler" if handler(program, at) else ""


def handler(program: Program, at: At) -> bool:
    """Whether a request calls the function around."""
    function = at.scope.function()
    if function is None:
        return False
    if function.name == "lambda_handler" or _is_cloud(function):
        return True
    return any(_routes(program, each, at) for each in function.decorator_list)


def _is_cloud(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """AWS Lambda and RunPod call ``handler``."""
    names = [each.arg for each in function.args.args]
    return function.name == "handler" and names in (["event", "context"], ["event"], ["job"])


def _routes(program: Program, decorator: ast.expr, at: At) -> bool:
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    path = program.value(call, at._replace(scope=program.module, order=2**60, blocks=(), loops=()))
    if getattr(path, "path", None) in _SERVERS:
        return True
    if not (isinstance(decorator, ast.Call) and isinstance(call, ast.Attribute)):
        return False
    first = decorator.args[0] if decorator.args else None
    told = isinstance(first, ast.Constant) and str(first.value).startswith("/")
    return call.attr in _ROUTES and told


def origin(program: Program, node: ast.expr, at: At) -> tuple[ast.expr, At]:
    """What an expression goes back to, through names, places and parts."""
    for _ in range(_DEEPEST):
        match node:
            case ast.Attribute() | ast.Starred():
                node = node.value
            case ast.Subscript(slice=ast.Constant(value=str())) if isinstance(node.value, ast.Name):
                bound = program.binding(node.value.id, at)
                if bound is None or bound.value is None:
                    break  # example["text"]
                node, at = bound.value, bound.at
            case ast.Subscript(slice=ast.Constant(value=str())):
                node = node.value
            case ast.Call(func=ast.Attribute(attr=attr)) if attr in _PLACES:
                node = node.func.value  # type: ignore[attr-defined]  # an Attribute, as matched
            case ast.Name():
                bound = program.binding(node.id, at)
                if bound is None or bound.value is None:
                    break
                node, at = bound.value, bound.at
            case _:
                break
    return node, at


def tokenized(program: Program, call: ast.Call, at: At) -> tuple[ast.Call, At] | None:
    """The tokenizer's call that a ``generate`` gets its input from."""
    given = [*call.args[:1]]
    for each in call.keywords:
        if each.arg in (None, "input_ids", "inputs"):
            given.append(each.value)
    for node in given:
        found, there = origin(program, node, at)
        if isinstance(found, ast.Call) and any(k.arg == "return_tensors" for k in found.keywords):
            return found, there
    return None


def one_row(program: Program, call: ast.Call, at: At) -> bool:
    """Whether a tokenizer's call is given one text, for certain."""
    padded = [each.value for each in call.keywords if each.arg == "padding"]
    if padded and not (isinstance(padded[0], ast.Constant) and padded[0].value is False):
        return False
    named = [each.value for each in call.keywords if each.arg in ("text", "conversation")]
    given = [*call.args[:1], *named]
    if len(given) != 1:
        return False
    if isinstance(call.func, ast.Attribute) and call.func.attr == "apply_chat_template":
        return _conversation(program, given[0], at)
    return text(program, given[0], at)


def _conversation(program: Program, node: ast.expr, at: At) -> bool:
    value = program.value(node, at)
    return isinstance(value, Elements) and all(isinstance(e, ast.Dict) for e in value.elements)


def text(program: Program, node: ast.expr, at: At) -> bool:
    """Whether an expression is one text, for certain."""
    value = program.value(node, at)
    if isinstance(value, Text) or (isinstance(value, Const) and isinstance(value.value, str)):
        return True
    if isinstance(value, Elements) and len(value.elements) == 1:
        return text(program, value.elements[0], value.at)
    found, there = origin(program, node, at)
    match found:
        case ast.Call(func=ast.Attribute(attr="apply_chat_template"), args=[first, *_]):
            return _conversation(program, first, there)
    return _named_one(node) or _is_row_of_loop(node, found, there)


def _named_one(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _ONE
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name in _ONE
        case _:
            return False


def _is_row_of_loop(node: ast.expr, found: ast.expr, at: At) -> bool:
    """A loop's variable, or a part of it by name, where nothing speaks of batches."""
    name = found.value if isinstance(found, ast.Subscript) else found
    if not isinstance(name, ast.Name) or _names_many(name.id) or name.id.endswith("s"):
        return False
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
        return False
    for loop in reversed(at.loops):
        if name.id in loop.targets and isinstance(loop.node, ast.For | ast.comprehension):
            return not _names_many(ast.unparse(loop.node.iter))
    return False


def depends(program: Program, node: ast.AST, at: At, loop: Loop) -> bool:
    """Whether an expression may differ from one turn of a loop to the next."""
    waiting, seen = [(node, at)], {node}
    while waiting:
        part, there = waiting.pop()
        for each in ast.walk(part):
            if isinstance(each, ast.Call) or len(seen) > _DEEPEST:
                return True  # nobody knows what it gives the next time
            if not isinstance(each, ast.Name):
                continue
            if each.id in loop.targets:
                return True
            if (each.id, loop.block) not in there.scope.last:
                continue
            bound = program.binding(each.id, there)
            if bound is None or (bound.value is None and bound.path is None):
                return True
            if bound.value is not None and bound.value not in seen:
                seen.add(bound.value)
                waiting.append((bound.value, bound.at))
    return False


def leaves(loop: Loop) -> bool:
    """Whether a loop may end after one turn: it is a way to try again."""
    body = getattr(loop.node, "body", [])
    return any(isinstance(each, ast.Break | ast.Return) for each in _of_body(body))


def _of_body(body: list[ast.stmt]) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


def _names_many(word: str) -> bool:
    return any(each in word.casefold() for each in _MANY)
