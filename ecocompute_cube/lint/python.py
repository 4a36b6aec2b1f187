"""Facts of a Python file: what loads, quantizes, generates and calls models."""

from __future__ import annotations

import ast
import re
import warnings
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.lint.facts import (
    UNKNOWN,
    Facts,
    Forward,
    Generate,
    Load,
    Option,
    Options,
    Quantize,
)
from ecocompute_cube.lint.found import Edit, NotRead, Place
from ecocompute_cube.lint.names import (
    Called,
    Const,
    Dotted,
    Elements,
    Items,
    Program,
)
from ecocompute_cube.lint.rows import depends, leaves, one_row, origin, repeated, text, tokenized

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ecocompute_cube.lint.facts import Fact, Library, Repeated
    from ecocompute_cube.lint.names import At, Site, Value

_HUBS: Final = frozenset({"transformers", "peft", "trl", "optimum", "unsloth"})
#: Classes whose ``from_pretrained`` loads no weights.
_LIGHT: Final = re.compile(r"Token|Config|Processor|Extractor|Template|Adapter|Scheduler|Feature")
_MODEL: Final = re.compile(r"Model|For[A-Z]|LMHead|Fast(?:Language)?|ORT|Llama|Pipeline")
_ENGINES: Final = frozenset({"LLM", "EngineArgs", "AsyncEngineArgs"})
_DTYPES: Final = {"float32": "float32", "float": "float32", "float16": "float16", "half": "float16"}
_MOST_STEPS: Final = 12  # names on the way
_BITS: Final = ("load_in_4bit", "load_in_8bit")
_GENERATED: Final = ("text-generation", "text2text-generation", "summarization", "translation")
_TORCHAO: Final = re.compile(r"(?:Float8WeightOnlyConfig|float8_weight_only)$")

#: What a file says that trains. What was measured is decoding.
_TRAINS: Final = (
    ".backward(",
    "Trainer(",
    "Trainer.from_pretrained(",
    "TrainingArguments",
    "get_peft_model(",
    "prepare_model_for_kbit_training",
    "torch.optim",
    "optimizer.step(",
    ".train()",
    "gradient_checkpointing",
    "requires_grad_(True",
    "LoraConfig(",
)


class Unreadable(NotRead):
    """The file is no Python that can be read; says why."""


class _Reader(NamedTuple):
    program: Program
    lines: Sequence[str]
    cached: frozenset[ast.AST | None]  #: functions that generate with a cache, and say so
    compiled: bool  #: something in the file captures steps
    moved: frozenset[ast.Call]  #: loads whose model is put on a board


def parsed(source: str) -> ast.Module:
    """The tree of a file. Raises Unreadable."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # theirs, not ours
            return ast.parse(source)
    except SyntaxError as error:
        raise Unreadable(f"no Python 3 that can be read: line {error.lineno or 1}") from None
    except (RecursionError, MemoryError):
        raise Unreadable("nested too deeply") from None
    except ValueError:
        raise Unreadable("no Python 3 that can be read") from None


def python_facts(source: str) -> Facts:
    """Read a file. Raises Unreadable."""
    tree = parsed(source)
    try:
        program = Program(tree)
        facts = _facts(_reader(program, source))
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    program.forget()
    return Facts(tuple(facts), trains=any(word in source for word in _TRAINS))


def _reader(program: Program, source: str) -> _Reader:
    compiled = "torch.compile(" in source or "cache_implementation" in source
    cached, moved = frozenset(_cached(program)), frozenset(_moved(program))
    return _Reader(program, source.split("\n"), cached, compiled, moved)


def _moved(program: Program) -> Iterator[ast.Call]:
    for site in program.sites:
        function = site.node.func
        if not isinstance(function, ast.Attribute) or function.attr not in ("cuda", "to"):
            continue
        owner = program.value(function.value, site.at)
        if not isinstance(owner, Called):
            continue
        given = [*site.node.args, *(k.value for k in site.node.keywords if k.arg == "device")]
        told = program.value(given[0], site.at) if given else None
        on = isinstance(told, Const) and str(told.value).startswith("cuda")
        if function.attr == "cuda" or on:
            yield owner.node


def _cached(program: Program) -> Iterator[ast.AST | None]:
    for site in program.sites:
        function = site.node.func
        if isinstance(function, ast.Attribute) and function.attr == "generate":
            given = [k.value for k in site.node.keywords if k.arg == "use_cache"]
            if given and isinstance(given[0], ast.Constant) and given[0].value is True:
                yield site.at.scope.function()


def _facts(reader: _Reader) -> list[Fact]:
    loads: list[Load] = []
    quantizes: dict[ast.Call, Quantize] = {}
    others: list[Fact] = []
    for site in reader.program.sites:
        if not _may_tell(site.node.func):
            continue
        path = reader.program.value(site.node.func, site.at)
        if isinstance(path, Dotted):
            found = _of_path(reader, site, path.path)
        else:
            found = _of_method(reader, site) or _of_model(reader, site)
        match found:
            case Load():
                loads.append(found)
            case Quantize():
                quantizes[site.node] = found
            case Generate() | Forward():
                others.append(found)
            case None:
                pass
    return [*_joined(loads, quantizes), *loads, *others]


#: Last names of what is imported, and of methods, that are facts.
_TELLING: Final = frozenset(
    {"from_pretrained", "generate", "create_completion", "create_chat_completion", "pipeline"}
    | {"BitsAndBytesConfig", "TorchAoConfig", "GenerationConfig", "SamplingParams", "chat"}
    | {"Llama", "SentenceTransformer", *_ENGINES}
)


def _may_tell(function: ast.expr) -> bool:
    """Whether a call may be a fact: by its last name, or as a name that may be a model."""
    if isinstance(function, ast.Attribute):
        own = isinstance(function.value, ast.Name) and function.value.id == "self"
        return own or function.attr in _TELLING
    return isinstance(function, ast.Name)


def _joined(loads: list[Load], quantizes: dict[ast.Call, Quantize]) -> list[Quantize]:
    """Every configuration, with the models that are loaded with it."""
    alone = dict(quantizes)
    users: dict[Place, list[str]] = {}
    found: list[Quantize] = []
    places = {each.place for each in quantizes.values()}
    for load in loads:
        if load.quantized is None:
            continue
        if load.quantized.place in places:
            users.setdefault(load.quantized.place, []).extend([load.model] if load.model else [])
        else:
            found.append(load.quantized)
    found += [each._replace(models=tuple(users.get(each.place, ()))) for each in alone.values()]
    return found


# Places and values


def _column(reader: _Reader, line: int, offset: int) -> int:
    """Characters from 1, of the bytes from 0 that ast counts."""
    text = reader.lines[line - 1] if line <= len(reader.lines) else ""
    if text.isascii():
        return offset + 1
    return len(text.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "replace")) + 1


def _place(reader: _Reader, node: ast.expr | ast.keyword) -> Place:
    end = node.end_lineno or node.lineno
    return Place(
        node.lineno,
        _column(reader, node.lineno, node.col_offset),
        end,
        _column(reader, end, node.end_col_offset or node.col_offset),
    )


def _plain(reader: _Reader, value: Value, depth: int = 0) -> object:
    """A value as rules know it."""
    match value:
        case Const():
            return value.value
        case Dotted():
            root, _, name = value.path.rpartition(".")
            if root in ("torch", "sys", "math"):
                return _DTYPES.get(name, name)
        case Items() if depth < 4 and not value.open:  # noqa: PLR2004  # deeper is no option
            return {
                key: UNKNOWN if node is None else _value(reader, node, at, depth + 1)
                for key, (node, at) in value.items.items()
            }
        case Elements() if depth < 4:  # noqa: PLR2004  # the same
            return [_value(reader, node, value.at, depth + 1) for node in value.elements]
        case _:
            pass
    return UNKNOWN


def _value(reader: _Reader, node: ast.expr, at: At, depth: int = 0) -> object:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "float" and node.args:
        given = node.args[0]
        if isinstance(given, ast.Constant) and str(given.value).strip("+").lower() in _INFINITE:
            return float("inf")
    return _plain(reader, reader.program.value(node, at), depth)


_INFINITE: Final = ("inf", "infinity")


def _options(reader: _Reader, site: Site, inside: str | None = None) -> Options:
    """What a call's keywords set, and those of a dictionary within them."""
    items = reader.program.keywords(site.node, site.at)
    opened = items.open or any(isinstance(each, ast.Starred) for each in site.node.args)
    own = {each.arg: each for each in site.node.keywords if each.arg is not None}
    whole = _place(reader, site.node)
    given: dict[str, Option] = {}
    for name, (node, at) in items.items.items():
        place = _place(reader, own[name]) if name in own else whole
        given[name] = Option(UNKNOWN if node is None else _value(reader, node, at), place)
    if inside is not None and inside in given:
        more = given[inside].value
        opened |= not isinstance(more, dict)
        if isinstance(more, dict):
            given |= {key: Option(value, given[inside].place) for key, value in more.items()}
    return Options(given, opened, lambda names: _dropped(reader, site.node, names))


def _dropped(reader: _Reader, call: ast.Call, names: Collection[str]) -> Edit | None:
    """The call without these keywords; None where a comment would go with them."""
    every: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    given = sorted(every, key=lambda each: (each.lineno, each.col_offset))
    doomed = [isinstance(each, ast.keyword) and each.arg in names for each in given]
    if not any(doomed) or sum(doomed) != len(names):
        return None
    first, last = doomed.index(True), len(doomed) - 1 - doomed[::-1].index(True)
    if not all(doomed[first : last + 1]):
        return None  # kept ones between them: one edit would not do
    start, end = _place(reader, given[first]), _place(reader, given[last])
    if last + 1 < len(given):
        after = _place(reader, given[last + 1])
        cut = Place(start.line, start.column, after.line, after.column)
    elif first > 0:
        before = _place(reader, given[first - 1])
        cut = Place(before.end_line, before.end_column, end.end_line, end.end_column)
    else:
        cut = Place(start.line, start.column, end.end_line, end.end_column)
    gone = _between(reader, cut)
    return None if "#" in gone else Edit(cut, "")


def _between(reader: _Reader, place: Place) -> str:
    lines = list(reader.lines[place.line - 1 : place.end_line])
    if not lines:
        return ""
    lines[-1] = lines[-1][: place.end_column - 1]
    lines[0] = lines[0][place.column - 1 :]
    return "\n".join(lines)


# Calls of something imported


def _of_path(reader: _Reader, site: Site, path: str) -> Fact | None:
    root, last = path.split(".", maxsplit=1)[0], path.rsplit(".", 1)[-1]
    if root == "transformers" and last == "BitsAndBytesConfig":
        return Quantize(_place(reader, site.node), _options(reader, site))
    if root == "transformers" and last == "TorchAoConfig":
        return _torchao(reader, site)
    if root == "transformers" and last == "GenerationConfig":
        place, options = _place(reader, site.node), _options(reader, site)
        return Generate(place, "transformers", options, call=False)
    if root == "vllm" and last == "SamplingParams":
        return Generate(_place(reader, site.node), "vllm", _options(reader, site), call=False)
    if root == "ollama" and last in ("chat", "generate"):
        return Generate(_place(reader, site.node), "ollama", _options(reader, site, "options"))
    loaded = library_of(path)
    return None if loaded is None else _load(reader, site, path, loaded)


def library_of(path: str) -> Library | None:
    """What loads models by this name."""
    root, _, rest = path.partition(".")
    last = path.rsplit(".", 1)[-1]
    found: Library | None = None
    if root == "vllm" and last in _ENGINES:
        found = "vllm"
    elif root == "llama_cpp" and rest in ("Llama", "Llama.from_pretrained"):
        found = "llama.cpp"
    elif root == "sentence_transformers" and last == "SentenceTransformer":
        found = "embedding"
    elif path == "transformers.pipeline":
        found = "transformers"
    elif root in _HUBS and last == "from_pretrained":
        owner = path.split(".")[-2]
        if _MODEL.search(owner) and not _LIGHT.search(owner):
            found = "transformers"
    return found


def _torchao(reader: _Reader, site: Site) -> Quantize | None:
    options = _options(reader, site)
    given = [*site.node.args[:1], *(k.value for k in site.node.keywords if k.arg == "quant_type")]
    if not given:
        return None
    kind = reader.program.value(given[0], site.at)
    name = kind.value if isinstance(kind, Const) else getattr(kind, "path", None)
    if not isinstance(name, str) or not _TORCHAO.search(name):
        return None
    told = Option("float8_weight_only", _place(reader, given[0]))
    place = _place(reader, site.node)
    return Quantize(place, Options({"quant_type": told}, options.open), kind="torchao")


def _load(reader: _Reader, site: Site, path: str, library: Library) -> Load:
    inside = "model_kwargs" if path.endswith("pipeline") else None
    options = _options(reader, site, inside)
    place = _place(reader, site.node)
    model = _model(reader, site, options, path)
    again: Repeated = repeated(reader.program, site.at)
    return Load(
        place,
        library,
        model,
        options,
        again,
        needless=_needless(reader, site, again),
        on_gpu=_on_gpu(reader, site, options),
        quantized=None
        if path.startswith("unsloth.")  # it has defaults of its own
        else _quantized(reader, site, options, model, place),
    )


def _model(reader: _Reader, site: Site, options: Options, path: str) -> str | None:
    for name in ("pretrained_model_name_or_path", "model", "model_name", "model_path", "repo_id"):
        told = options.value(name)
        if isinstance(told, str):
            return told
    place = 1 if path.endswith("pipeline") else 0
    if len(site.node.args) > place:
        told = _value(reader, site.node.args[place], site.at)
        return told if isinstance(told, str) else None
    return None


def _needless(reader: _Reader, site: Site, again: Repeated) -> bool:
    """Whether a load is repeated and alike each time."""
    program = reader.program
    if again == "handler":
        return not site.at.blocks and not _depends_on_request(reader, site)
    if not again:
        return False
    for loop in site.at.loops:
        if leaves(loop):
            return False
        if any(depends(program, each, site.at, loop) for each in _given(site.node)):
            return False
    inner = {loop.block for loop in site.at.loops}
    return not (set(site.at.blocks) - inner)  # not where an if decides


def _depends_on_request(reader: _Reader, site: Site) -> bool:
    function = site.at.scope.function()
    if function is None:
        return True
    arguments = {each.arg for each in [*function.args.args, *function.args.kwonlyargs]}
    names = {n.id for g in _given(site.node) for n in ast.walk(g) if isinstance(n, ast.Name)}
    local = {name for name in names if name in site.at.scope.bound}
    return bool(names & (arguments - {"self"})) or bool(local)


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)]


def _on_gpu(reader: _Reader, site: Site, options: Options) -> bool:
    """Whether a model is put on a board, for certain."""
    where = options.value("device_map", "device")
    if isinstance(where, str):
        return where.split(":")[0] in ("cuda", "auto", "balanced", "sequential")
    if isinstance(where, int) and not isinstance(where, bool):
        return where >= 0
    return site.node in reader.moved


def _quantized(
    reader: _Reader, site: Site, options: Options, model: str | None, place: Place
) -> Quantize | None:
    """How a load quantizes: by its own options, or by a configuration made elsewhere."""
    given = reader.program.keywords(site.node, site.at).items
    if "model_kwargs" in given and "quantization_config" not in given:
        node, at = given["model_kwargs"]
        inner = None if node is None else reader.program.value(node, at)
        given = inner.items if isinstance(inner, Items) else given
    names = (model,) if model else ()
    if isinstance(method := options.value("quantization"), str) and method != "None":
        return Quantize(options.place("quantization") or place, Options({}, open=True), names)
    if "quantization_config" in given:
        node, at = given["quantization_config"]
        value = UNKNOWN if node is None else reader.program.value(node, at)
        if isinstance(value, Called):
            there = _place(reader, value.node)
            return Quantize(there, Options({}, open=True), names)
        if isinstance(value, Items):
            return _quantized_by(reader, value, names)
        return None
    if any(name in options.given for name in _BITS):
        return Quantize(place, options, names, shared=True)
    return None


def _quantized_by(reader: _Reader, value: Items, names: tuple[str, ...]) -> Quantize:
    there = _place(reader, value.node)
    given = {
        key: Option(UNKNOWN if node is None else _value(reader, node, at), there)
        for key, (node, at) in value.items.items()
    }
    return Quantize(there, Options(given, value.open), names)


# Calls of a method, and of a model itself


def _of_method(reader: _Reader, site: Site) -> Fact | None:
    function = site.node.func
    if not isinstance(function, ast.Attribute):
        return None
    owner = reader.program.value(function.value, site.at)
    loaded = library_of(owner.path) if isinstance(owner, Called) else None
    if function.attr == "generate":
        return _generate(reader, site, loaded, owner)
    if loaded == "llama.cpp" and function.attr in ("create_completion", "create_chat_completion"):
        return Generate(_place(reader, site.node), "llama.cpp", _options(reader, site))
    return None


def _generate(reader: _Reader, site: Site, loaded: Library | None, owner: Value) -> Generate | None:
    program, place = reader.program, _place(reader, site.node)
    options = _options(reader, site)
    again = repeated(program, site.at)
    compared = site.at.scope.function() in reader.cached
    if loaded == "vllm":
        given = site.node.args[0] if site.node.args else None
        row, over = _row_of(reader, site, given)
        return Generate(place, "vllm", options, row=row, repeated=again, over=over)
    found = tokenized(program, site.node, site.at)
    if loaded not in (None, "transformers"):
        return None
    if found is None:
        known = loaded == "transformers" or options.value("max_new_tokens") is not None
        if not known:
            return None
        return Generate(place, "transformers", options, repeated=again, compared=compared)
    row = one_row(program, *found) and "streamer" not in options.given
    free = isinstance(owner, Called) and "compile" in owner.then
    return Generate(
        place,
        "transformers",
        options,
        row=row,
        repeated=again,
        over=_over(reader, site, found[0]) if row else "",
        compared=compared,
        capturable=not (reader.compiled or free or _more_than(reader, site, found[0])),
    )


def _more_than(reader: _Reader, site: Site, inputs: ast.Call) -> bool:
    """Whether a call gets options that are not seen, besides a tokenizer's tensors."""
    starred = [each.value for each in site.node.keywords if each.arg is None]
    return any(origin(reader.program, each, site.at)[0] is not inputs for each in starred)


def _row_of(reader: _Reader, site: Site, given: ast.expr | None) -> tuple[bool, str]:
    if given is None or not text(reader.program, given, site.at):
        return False, ""
    return True, _over(reader, site, given)


def _over(reader: _Reader, site: Site, node: ast.AST) -> str:
    """What the innermost loop goes over, where the input comes from it; else nothing."""
    for loop in reversed(site.at.loops):
        if isinstance(loop.node, ast.While):
            return ""
        over = loop.node.iter
        if not _uses(reader, node, site.at, loop.targets):
            return ""
        return ast.unparse(over)[:60]
    return ""


def _uses(reader: _Reader, node: ast.AST, at: At, targets: frozenset[str]) -> bool:
    """Whether an expression is made of a loop's variable, also by way of other names."""
    waiting, seen = [(node, at)], {node}
    while waiting and len(seen) <= _MOST_STEPS:
        part, there = waiting.pop()
        for each in ast.walk(part):
            if not isinstance(each, ast.Name):
                continue
            if each.id in targets:
                return True
            bound = reader.program.binding(each.id, there)
            if bound is not None and bound.value is not None and bound.value not in seen:
                seen.add(bound.value)
                waiting.append((bound.value, bound.at))
    return False


def _of_model(reader: _Reader, site: Site) -> Fact | None:
    """A loaded model, pipeline or engine that is called itself."""
    if not isinstance(site.node.func, ast.Name | ast.Attribute):
        return None
    owner = reader.program.value(site.node.func, site.at)
    if not isinstance(owner, Called):
        return None
    loaded, place = library_of(owner.path), _place(reader, site.node)
    if loaded == "llama.cpp":
        return Generate(place, "llama.cpp", _options(reader, site))
    if owner.path == "transformers.pipeline":
        return _piped(reader, site, owner)
    if loaded != "transformers" or not owner.path.endswith(".from_pretrained"):
        return None
    function = site.at.scope.function()
    guarded = site.at.guarded or reader.program.grad_off
    if function is not None and function.name in reader.program.guarded_calls:
        guarded = True
    return None if guarded else Forward(place)


def _piped(reader: _Reader, site: Site, owner: Called) -> Generate | None:
    told = [k.value for k in owner.node.keywords if k.arg == "task"] or owner.node.args[:1]
    value = _value(reader, told[0], owner.at) if told else None
    if value not in _GENERATED:
        return None
    given = site.node.args[0] if site.node.args else None
    row, over = _row_of(reader, site, given)
    again = repeated(reader.program, site.at)
    place = _place(reader, site.node)
    options = _options(reader, site)
    return Generate(place, "transformers", options, row=row, repeated=again, over=over)
