# ruff: noqa: D102  # a visitor's methods are named after what they visit
"""Names of a Python file, followed through imports, aliases, dictionaries and constants.

One pass over the tree records what each scope binds, in order, and where every call stands. A name
then has a value where one binding for certain reaches its use; else it is UNKNOWN.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.lint.facts import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ecocompute_cube.lint.facts import Unknown

_DEEPEST: Final = 24  # names that lead to names; more is no program
_LONGEST: Final = 10_000  # characters of a constant that is put together
_LARGEST: Final = 2**63
_MOST_CHANGES: Final = 200  # of one dictionary; beyond, nobody knows what is in it
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_READS: Final = frozenset({"get", "items", "keys", "values", "copy"})
#: Methods that hand back the model they are called on.
_SELF: Final = frozenset(
    {"to", "cuda", "cpu", "eval", "half", "float", "bfloat16", "requires_grad_", "train"}
    | {"merge_and_unload", "to_bettertransformer", "compile"}
)
_GUARDS: Final = ("torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled")


class Loop(NamedTuple):
    """A loop, or a part of a comprehension."""

    node: ast.For | ast.AsyncFor | ast.While | ast.comprehension
    targets: frozenset[str]
    block: int


class At(NamedTuple):
    """Where in the program something is."""

    scope: Scope
    order: int
    blocks: tuple[int, ...]
    loops: tuple[Loop, ...]
    guarded: bool  #: gradients are off


class Binding(NamedTuple):
    """A name gets a value."""

    at: At
    value: ast.expr | None  #: None: something that is not followed
    path: str | None = None  #: of an import


class Change(NamedTuple):
    """A dictionary gets a key; key None: nobody knows which."""

    at: At
    key: str | None
    value: ast.expr | None


class Scope:
    """A module, class, function or comprehension."""

    def __init__(self, node: ast.AST, parent: Scope | None) -> None:
        self.node = node
        self.parent = parent
        self.bound: dict[str, list[Binding]] = {}
        self.alike: dict[str, str | None] = {}  # the path that every binding of a name has
        self.last: dict[tuple[str, int], int] = {}  # order of the last binding in each block
        self.changed: dict[str, list[Change]] = {}
        self.attributes: dict[str, list[Binding]] = {}  # of self, for a class

    def function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The nearest function around."""
        scope: Scope | None = self
        while scope is not None:
            if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
                return scope.node
            scope = scope.parent
        return None

    def owner(self) -> Scope | None:
        """The class around, if any."""
        scope: Scope | None = self
        while scope is not None and not isinstance(scope.node, ast.ClassDef):
            scope = scope.parent
        return scope


class Site(NamedTuple):
    """A call, and where it stands."""

    node: ast.Call
    at: At


# Values


class Const(NamedTuple):
    """A constant."""

    value: object


class Text(NamedTuple):
    """A string of which only that is known."""


class Dotted(NamedTuple):
    """Something imported, by its full name."""

    path: str


class Called(NamedTuple):
    """What a call of something imported gives."""

    path: str
    node: ast.Call
    at: At
    then: tuple[str, ...] = ()  #: methods called on it since


class Items(NamedTuple):
    """A dictionary with the keys that are known."""

    items: dict[str, tuple[ast.expr | None, At]]
    open: bool
    node: ast.expr


class Elements(NamedTuple):
    """A list or tuple."""

    elements: tuple[ast.expr, ...]
    at: At


if TYPE_CHECKING:
    from typing import TypeAlias

    Value: TypeAlias = Const | Text | Dotted | Called | Items | Elements | Unknown


#: Nodes that bind, call and hold nothing.
_LEAVES: Final = frozenset(
    {ast.Name, ast.Constant, ast.Load, ast.Store, ast.Del, ast.Pass, ast.Break, ast.Continue}
    | {*ast.operator.__subclasses__(), *ast.cmpop.__subclasses__(), *ast.unaryop.__subclasses__()}
    | {ast.And, ast.Or}
)


class Program:
    """A file's scopes and calls."""

    def __init__(self, tree: ast.Module) -> None:
        self.sites: list[Site] = []
        self._scopes: list[Scope] = []
        self.module = self._scope(tree, None)
        self.guarded_calls: set[str] = set()  # names of functions called with gradients off
        self.grad_off = False  # for the whole file
        self._order = 0
        self._blocks = 0
        self._at = At(self.module, 0, (), (), guarded=False)
        self._body(tree.body)

    def _scope(self, node: ast.AST, parent: Scope | None) -> Scope:
        made = Scope(node, parent)
        self._scopes.append(made)
        return made

    def forget(self) -> None:
        """Let go of the tree: scopes and bindings hold each other, and trees are large."""
        for scope in self._scopes:
            scope.bound.clear()
            scope.changed.clear()
            scope.attributes.clear()
        self.sites.clear()

    # Walking

    def visit(self, node: ast.AST) -> None:
        """As the base class does it, without a look into what holds nothing."""
        kind = type(node)
        if kind in _LEAVES:
            return
        method = _METHODS.get(kind.__name__)
        if method is not None:
            method(self, node)
            return
        for name in kind._fields:
            found = getattr(node, name, None)
            if isinstance(found, list):
                for each in found:
                    if isinstance(each, ast.AST):
                        self.visit(each)
            elif isinstance(found, ast.AST):
                self.visit(found)

    def _children(self, node: ast.Call) -> None:
        self.visit(node.func)
        self._body(node.args)
        for each in node.keywords:
            self.visit(each.value)

    def _here(self) -> At:
        self._order += 1
        at = self._at
        return At(at.scope, self._order, at.blocks, at.loops, at.guarded)

    def _body(self, body: Iterable[ast.AST]) -> None:
        for node in body:
            self.visit(node)

    def _block(self, body: Sequence[ast.AST], loop: Loop | None = None) -> None:
        self._blocks += 1
        before = self._at
        loops = before.loops if loop is None else (*before.loops, loop._replace(block=self._blocks))
        self._at = before._replace(blocks=(*before.blocks, self._blocks), loops=loops)
        self._body(body)
        self._at = before

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._block(node.body)
        rest = node.orelse
        while len(rest) == 1 and isinstance(rest[0], ast.If):  # elif: long chains nest deeply
            self.visit(rest[0].test)
            self._block(rest[0].body)
            rest = rest[0].orelse
        self._block(rest)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        loop = Loop(node, frozenset(_names(node.target)), 0)
        self._bind_target(node.target, None)
        self._block(node.body, loop)
        self._block(node.orelse)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._block(node.body, Loop(node, frozenset(), 0))
        self._block(node.orelse)

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        self._block(node.body)
        for handler in node.handlers:
            if handler.name:
                self._bind(handler.name, None)
            self._block(handler.body)
        self._block(node.orelse)
        self._body(node.finalbody)

    visit_TryStar = visit_Try

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        before = self._at
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._bind_target(item.optional_vars, None)
        if any(self._switches_off(item.context_expr) for item in node.items):
            self._at = before._replace(guarded=True)
        self._body(node.body)
        self._at = before

    visit_AsyncWith = visit_With

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            self._block([case.pattern, *([case.guard] if case.guard else []), *case.body])

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self._bind(node.name, None)
        if node.pattern is not None:
            self.visit(node.pattern)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._body(node.decorator_list)
        self._body([*node.args.defaults, *(each for each in node.args.kw_defaults if each)])
        self._bind(node.name, None)
        off = any(self._switches_off(each) for each in node.decorator_list)
        self._inside(node, node.body, node.args, guarded=off)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._inside(node, [node.body], node.args, guarded=False)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._body([*node.decorator_list, *node.bases, *(each.value for each in node.keywords)])
        self._bind(node.name, None)
        self._inside(node, node.body, None, guarded=False)

    def _inside(
        self, node: ast.AST, body: Iterable[ast.AST], args: ast.arguments | None, *, guarded: bool
    ) -> None:
        before = self._at
        self._at = At(self._scope(node, before.scope), 0, (), (), guarded)
        if args is not None:
            every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
            for each in every:
                if each is not None:
                    self._bind(each.arg, None)
        self._body(body)
        self._at = before

    def _comprehension(self, node: ast.AST, generators: list[ast.comprehension]) -> None:
        before = self._at
        self._at = before._replace(scope=self._scope(node, before.scope))
        for each in generators:
            self.visit(each.iter)
            self._bind_target(each.target, None)
            loop = Loop(each, frozenset(_names(each.target)), 0)
            self._at = self._at._replace(loops=(*self._at.loops, loop))
            self._body(each.ifs)
        values = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)  # type: ignore[attr-defined]  # the other three have one
        self._body(values)
        self._at = before

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self._comprehension(node, node.generators)

    visit_SetComp = visit_ListComp
    visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node, node.generators)

    # Binding

    def _bind(self, name: str, value: ast.expr | None, path: str | None = None) -> None:
        self._order += 1
        at = self._at
        here = At(at.scope, self._order, at.blocks, at.loops, at.guarded)
        scope = here.scope
        scope.bound.setdefault(name, []).append(Binding(here, value, path))
        scope.alike[name] = path if scope.alike.get(name, path) == path else None
        for block in here.blocks:
            scope.last[name, block] = here.order

    def _bind_target(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            paired = len(values) == len(target.elts)
            starred = any(isinstance(each, ast.Starred) for each in (*target.elts, *values))
            for n, each in enumerate(target.elts):
                self._bind_target(each, values[n] if paired and not starred else None)
        elif isinstance(target, ast.Starred):
            self._bind_target(target.value, None)
        elif isinstance(target, ast.Attribute):
            self._bind_attribute(target, value)
        elif isinstance(target, ast.Subscript):
            self._change(target, value)

    def _bind_attribute(self, target: ast.Attribute, value: ast.expr | None) -> None:
        owner = self._at.scope.owner()
        if owner is not None and isinstance(target.value, ast.Name) and target.value.id == "self":
            owner.attributes.setdefault(target.attr, []).append(Binding(self._here(), value))
        self.visit(target.value)

    def _change(self, target: ast.Subscript, value: ast.expr | None) -> None:
        if isinstance(target.value, ast.Name):
            key = target.slice.value if isinstance(target.slice, ast.Constant) else None
            known = key if isinstance(key, str) else None
            change = Change(self._here(), known, value)
            self._at.scope.changed.setdefault(target.value.id, []).append(change)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._bind_target(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self._bind_target(node.target, node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        self._bind_target(node.target, None)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._bind_target(node.target, node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._bind_target(target, None)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:  # bound from somewhere else: twice is unknown
            self._bind(name, None)
            self.module.bound.setdefault(name, []).append(Binding(self._here(), None))
            self.module.alike[name] = None

    visit_Nonlocal = visit_Global

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            first = each.name.partition(".")[0]
            self._bind(each.asname or first, None, each.name if each.asname else first)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for each in node.names:
            path = None if node.level or not node.module else f"{node.module}.{each.name}"
            self._bind(each.asname or each.name, None, path)

    # Calls

    def visit_Call(self, node: ast.Call) -> None:
        self._children(node)
        at = self._here()
        self.sites.append(Site(node, at))
        function = node.func
        if isinstance(function, ast.Name) and at.guarded:
            self.guarded_calls.add(function.id)
        if not isinstance(function, ast.Attribute):
            return
        if at.guarded:
            self.guarded_calls.add(function.attr)
        if isinstance(function.value, ast.Name) and function.attr not in _READS:
            change = Change(at, None, None)
            at.scope.changed.setdefault(function.value.id, []).append(change)

    def visit_Expr(self, node: ast.Expr) -> None:
        self.visit(node.value)
        call = node.value
        if isinstance(call, ast.Call) and self._switches_off(call):
            path = self.value(call.func, self._at._replace(order=self._order))
            if isinstance(path, Dotted) and "set_grad_enabled" in path.path:
                self.grad_off = True

    def _switches_off(self, node: ast.expr) -> bool:
        call = node.func if isinstance(node, ast.Call) else node
        path = self.value(call, self._at._replace(order=self._order + 1))
        if not isinstance(path, Dotted) or not path.path.startswith(_GUARDS):
            return isinstance(call, ast.Name | ast.Attribute) and (
                ast.unparse(call).split(".")[-1] in ("no_grad", "inference_mode")
            )
        if "set_grad_enabled" not in path.path or not isinstance(node, ast.Call):
            return True
        first = node.args[0] if node.args else None
        return isinstance(first, ast.Constant) and first.value is False

    # Looking up

    def binding(self, name: str, at: At) -> Binding | None:
        """The one binding that for certain reaches this place."""
        scope: Scope | None = at.scope
        nested = False
        while scope is not None:
            found = scope.bound.get(name)
            hidden = nested and isinstance(scope.node, ast.ClassDef)
            if found and not hidden:
                return _only(name, found, scope) if nested else _reaching(name, found, at, scope)
            nested |= not isinstance(scope.node, _COMPREHENSIONS)
            scope = scope.parent
        return None

    def value(self, node: ast.expr, at: At, depth: int = 0) -> Value:  # noqa: PLR0911  # one a kind
        """What an expression is, as far as the file tells."""
        if depth > _DEEPEST:
            return UNKNOWN
        match node:
            case ast.Constant():
                return Const(node.value)
            case ast.Name():
                return self._named(node, at, depth)
            case ast.Attribute():
                return self._attribute(node, at, depth)
            case ast.Call():
                return self._called(node, at, depth)
            case ast.Dict():
                return self._dict(node, at, depth)
            case ast.List() | ast.Tuple():
                return Elements(tuple(node.elts), at)
            case ast.Subscript():
                return self._item(node, at, depth)
            case _:
                return self._computed(node, at, depth)

    def _named(self, node: ast.Name, at: At, depth: int) -> Value:
        bound = self.binding(node.id, at)
        if bound is None:
            return UNKNOWN
        if bound.path is not None:
            return Dotted(bound.path)
        if bound.value is None:
            return UNKNOWN
        found = self.value(bound.value, bound.at, depth + 1)
        return self._as_changed(node.id, bound, found, at) if isinstance(found, Items) else found

    def _as_changed(self, name: str, bound: Binding, found: Items, at: At) -> Items:
        items, opened = dict(found.items), found.open
        changes = bound.at.scope.changed.get(name, ())
        if len(changes) > _MOST_CHANGES:
            return found._replace(open=True)
        for change in changes:
            if change.at.order < bound.at.order:
                continue
            if at.scope is not change.at.scope or change.key is None:
                opened = True
            elif change.at.order < at.order:
                sure = change.at.blocks == at.blocks[: len(change.at.blocks)]
                items[change.key] = (change.value if sure else None, change.at)
        return found._replace(items=items, open=opened)

    def _attribute(self, node: ast.Attribute, at: At, depth: int) -> Value:
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            owner = at.scope.owner()
            found = owner.attributes.get(node.attr, []) if owner is not None else []
            if len(found) == 1 and found[0].value is not None:
                return self.value(found[0].value, found[0].at, depth + 1)
            return UNKNOWN
        base = self.value(node.value, at, depth + 1)
        return Dotted(f"{base.path}.{node.attr}") if isinstance(base, Dotted) else UNKNOWN

    def _called(self, node: ast.Call, at: At, depth: int) -> Value:
        function = node.func
        if isinstance(function, ast.Attribute):
            if isinstance(function.value, ast.Constant) and isinstance(function.value.value, str):
                return Text()  # "...".format(), "".join()
            if function.attr in _SELF:
                base = self.value(function.value, at, depth + 1)
                if isinstance(base, Called):
                    return base._replace(then=(*base.then, _then(node, function.attr)))
        path = self.value(function, at, depth + 1)
        if isinstance(function, ast.Name) and function.id == "dict" and not node.args:
            return self._keywords(node, at, depth)
        if not isinstance(path, Dotted):
            return UNKNOWN
        if path.path == "torch.compile" and node.args:
            base = self.value(node.args[0], at, depth + 1)
            if isinstance(base, Called):
                return base._replace(then=(*base.then, "compile"))
        return Called(path.path, node, at)

    def _keywords(self, node: ast.Call, at: At, depth: int) -> Items:
        items: dict[str, tuple[ast.expr | None, At]] = {}
        opened = False
        for each in node.keywords:
            if each.arg is not None:
                items[each.arg] = (each.value, at)
                continue
            more = self.value(each.value, at, depth + 1)
            opened |= not isinstance(more, Items) or more.open
            items |= more.items if isinstance(more, Items) else {}
        return Items(items, opened, node)

    def keywords(self, node: ast.Call, at: At) -> Items:
        """The keyword arguments of a call, ``**`` included."""
        return self._keywords(node, at, 0)

    def _dict(self, node: ast.Dict, at: At, depth: int) -> Items:
        items: dict[str, tuple[ast.expr | None, At]] = {}
        opened = False
        for key, each in zip(node.keys, node.values, strict=True):
            if key is None:
                more = self.value(each, at, depth + 1)
                opened |= not isinstance(more, Items) or more.open
                items |= more.items if isinstance(more, Items) else {}
                continue
            name = self.value(key, at, depth + 1)
            if isinstance(name, Const) and isinstance(name.value, str):
                items[name.value] = (each, at)
            else:
                opened |= not isinstance(name, Const)
        return Items(items, opened, node)

    def _item(self, node: ast.Subscript, at: At, depth: int) -> Value:
        key = self.value(node.slice, at, depth + 1)
        base = self.value(node.value, at, depth + 1)
        if isinstance(base, Items) and isinstance(key, Const) and key.value in base.items:
            value, there = base.items[str(key.value)]
            return UNKNOWN if value is None else self.value(value, there, depth + 1)
        return UNKNOWN

    def _computed(self, node: ast.expr, at: At, depth: int) -> Value:
        if isinstance(node, ast.JoinedStr):
            return Text()
        if isinstance(node, ast.NamedExpr):
            return self.value(node.value, at, depth + 1)
        if isinstance(node, ast.UnaryOp):
            return _unary(node.op, self.value(node.operand, at, depth + 1))
        if isinstance(node, ast.BinOp):
            left = self.value(node.left, at, depth + 1)
            return _binary(node.op, left, self.value(node.right, at, depth + 1))
        return UNKNOWN


_METHODS: Final[dict[str, Callable[[Program, ast.AST], None]]] = {
    name.removeprefix("visit_"): method
    for name, method in vars(Program).items()
    if name.startswith("visit_")
}


def _only(name: str, found: list[Binding], scope: Scope) -> Binding | None:
    if len(found) == 1 or scope.alike.get(name) is not None:  # imported twice is imported
        return found[0]
    return None


def _reaching(name: str, found: list[Binding], at: At, scope: Scope) -> Binding | None:
    before = bisect_left(found, at.order, key=lambda each: each.at.order)
    if not before:
        return None
    last = found[before - 1]
    if last.at.blocks != at.blocks[: len(last.at.blocks)]:
        return _only(name, found, scope) if last.path is not None else None  # try: import …
    loops = {loop.block for loop in at.loops} - set(last.at.blocks)
    later = any(scope.last.get((name, block), 0) > at.order for block in loops)
    return None if later else last


def _names(target: ast.expr) -> Iterable[str]:
    if isinstance(target, ast.Name):
        return (target.id,)
    return (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def _then(node: ast.Call, method: str) -> str:
    """A method, and the constant it was called with."""
    given = [*node.args, *(each.value for each in node.keywords if each.arg == "device")]
    first = given[0] if given else None
    if isinstance(first, ast.Constant):
        return f"{method} {first.value!s}"
    return f"{method} ?" if given else method


def _unary(op: ast.unaryop, value: Value) -> Value:
    if not isinstance(value, Const):
        return UNKNOWN
    if isinstance(op, ast.Not):
        return Const(not value.value)
    if isinstance(value.value, int | float) and isinstance(op, ast.USub):
        return Const(-value.value)
    return UNKNOWN


def _binary(op: ast.operator, left: Value, right: Value) -> Value:
    if isinstance(op, ast.Add | ast.Mod) and (_is_text(left) or _is_text(right)):
        both = isinstance(left, Const) and isinstance(right, Const) and isinstance(op, ast.Add)
        if both and isinstance(left.value, str) and isinstance(right.value, str):  # type: ignore[union-attr]  # both are constants
            joined = left.value + right.value  # type: ignore[union-attr]  # as above
            return Const(joined) if len(joined) <= _LONGEST else Text()
        return Text() if _is_text(left) else UNKNOWN
    if not (isinstance(left, Const) and isinstance(right, Const)):
        return UNKNOWN
    return _arithmetic(op, left.value, right.value)


def _is_text(value: Value) -> bool:
    return isinstance(value, Text) or (isinstance(value, Const) and isinstance(value.value, str))


def _arithmetic(op: ast.operator, left: object, right: object) -> Value:
    if not (isinstance(left, int) and isinstance(right, int)):
        return UNKNOWN
    small = abs(left) < _LARGEST and abs(right) < _LARGEST
    found: int | None = None
    match op:
        case ast.Add() if small:
            found = left + right
        case ast.Sub() if small:
            found = left - right
        case ast.Mult() if small:
            found = left * right
        case ast.Pow() if small and 0 <= right <= 64 and abs(left) <= 64:  # noqa: PLR2004  # stays small
            found = left**right
        case ast.LShift() if small and 0 <= right <= 64:  # noqa: PLR2004  # the same
            found = left << right
        case _:
            pass
    return UNKNOWN if found is None else Const(found)
