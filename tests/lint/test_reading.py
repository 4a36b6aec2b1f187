"""Names are followed as far as they are certain; nothing that is read makes it stumble."""

from __future__ import annotations

import json
import time
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecocompute_cube.lint.found import NotRead
from ecocompute_cube.lint.notebook import notebook
from ecocompute_cube.lint.python import Unreadable
from ecocompute_cube.lint.run import judge
from ecocompute_cube.lint.sources import Kind
from ecocompute_cube.lint.tree import NoDocument, json_document, yaml_documents

from .rig import codes, found_in

HEAD = "from transformers import BitsAndBytesConfig\n"
USE = "BitsAndBytesConfig(load_in_8bit=x)\n"


@pytest.mark.parametrize(
    "text",
    [
        "x = True\n" + USE,
        "x = y = True\n" + USE,
        "x: bool = True\n" + USE,
        "x, z = True, 1\n" + USE,
        "x = False\nx = True\n" + USE,
        "x = not False\n" + USE,
        "if (x := True):\n    " + USE,
        "x = True\ndef f():\n    return " + USE,
        "def f():\n    x = True\n    return " + USE,
        "x = True\nfor n in range(3):\n    " + USE,
        "x = True\n[BitsAndBytesConfig(load_in_8bit=x) for n in range(2)]\n",
        "d = {'x': True}\nx = d['x']\n" + USE,
        "class A:\n    x = True\n    y = " + USE,
        "x = True\nasync def f():\n    async with g() as h:\n        " + USE,
        "x = True\ntry:\n    " + USE.rstrip() + "\nexcept ValueError:\n    pass\n",
        "x = True\nmatch 1:\n    case 1:\n        " + USE,
        "x = True\nlambda: " + USE,
    ],
)
def test_a_value_that_is_certain_is_known(text: str) -> None:
    assert codes(found_in(HEAD + text)) == ["ECO101"]


@pytest.mark.parametrize(
    "text",
    [
        USE,
        "if y:\n    x = True\n" + USE,
        "x = True\nif y:\n    x = False\n" + USE,
        "x = True\nx = f()\n" + USE,
        "x = True\nx += y\n" + USE,
        "x = True\ndel x\n" + USE,
        "def f(x=True):\n    return " + USE,
        "for x in [True]:\n    " + USE,
        "x = True\nfor n in range(3):\n    BitsAndBytesConfig(load_in_8bit=x)\n    x = False\n",
        "x = True\ndef f():\n    return BitsAndBytesConfig(load_in_8bit=x)\nx = False\n",
        "def f():\n    global x\n    x = True\n" + USE,
        "class A:\n    x = True\n    def f(self):\n        return " + USE,
        "x = True if y else False\n" + USE,
        "x = y or True\n" + USE,
        "x, z = f()\n" + USE,
        "x, *z = True, 1\n" + USE,
        "with f() as x:\n    " + USE,
        "try:\n    pass\nexcept ValueError as x:\n    " + USE,
        "x = x\n" + USE,
        "match 1:\n    case x:\n        " + USE,
    ],
)
def test_a_value_that_is_not_certain_is_not_known(text: str) -> None:
    assert codes(found_in(HEAD + text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "d = {'load_in_8bit': True}\nBitsAndBytesConfig(**d)\n",
        "d = dict(load_in_8bit=True)\nBitsAndBytesConfig(**d)\n",
        "d = {}\nd['load_in_8bit'] = True\nBitsAndBytesConfig(**d)\n",
        "d = {'a': 1, **{'load_in_8bit': True}}\nBitsAndBytesConfig(**d)\n",
    ],
)
def test_dictionaries_are_followed(text: str) -> None:
    assert codes(found_in(HEAD + text)) == ["ECO101"]


@pytest.mark.parametrize(
    "text",
    [
        "d = {'load_in_8bit': True}\nd.update(f())\nBitsAndBytesConfig(**d)\n",
        "d = {'load_in_8bit': True}\nif y:\n    d['load_in_8bit'] = 0\nBitsAndBytesConfig(**d)\n",
        "d = {'load_in_8bit': True}\nd[f()] = False\nBitsAndBytesConfig(**d)\n",
        "d = {'load_in_8bit': True, **f()}\nBitsAndBytesConfig(**d)\n",
    ],
)
def test_dictionaries_that_may_have_changed_are_not_known(text: str) -> None:
    assert codes(found_in(HEAD + text)) == []


def cells(*sources: object) -> str:
    every = [{"cell_type": "code", "source": each, "outputs": []} for each in sources]
    text = {"cell_type": "markdown", "source": ["# load_in_8bit=True\n"]}
    return json.dumps({"cells": [text, *every], "nbformat": 4}, indent=1)


def test_a_notebook_is_one_program_and_places_are_the_file_s() -> None:
    told = cells(
        ["%pip install transformers\n", HEAD],
        "def broken(:\n",
        ["x = True\n", "!nvidia-smi\n", USE],
    )
    (finding,) = found_in(told, "notebook")
    assert finding.cell == 4
    line = told.splitlines()[finding.place.line - 1]
    assert line[finding.place.column - 1 :].startswith("load_in_8bit=x")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": 1}', "{" * 5000, '{"cells": [1, {}]}'])
def test_an_odd_notebook_is_named_or_empty(text: str) -> None:
    told = ""
    try:
        assert notebook(text).source == ""
    except Unreadable as error:
        told = str(error)
    assert not told or "notebook" in told


def test_keys_of_json_have_their_places_also_where_they_come_twice() -> None:
    first = '{"a": {"load_in_4bit": false},\n "b \\"load_in_4bit\\":": 1,\n'
    text = first + '  "c": {"load_in_4bit": true}}'
    found = [e for node in json_document(text).walk() for e in node.entries]
    places = [(e.place.line, e.place.column) for e in found if e.key == "load_in_4bit"]
    assert places == [(1, 8), (3, 9)]


def test_aliases_in_a_circle_and_a_thousandfold_end() -> None:
    assert yaml_documents("a: &a\n  b: *a\n")
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    start = time.monotonic()
    assert sum(1 for node in yaml_documents("\n".join(lines)) for _ in node.walk()) < 1000
    assert time.monotonic() - start < 10


def test_nesting_without_end_is_named() -> None:
    for text in ("(" * 3000 + ")" * 3000, "x = " + "-" * 100_000 + "1\n", "a." * 50_000 + "b\n"):
        with pytest.raises(Unreadable):
            judge(HEAD + text, "deep.py", "python")
    chain = "".join(f"elif x == {n}:\n    y = {n}\n" for n in range(800))
    found_in(HEAD + "if x:\n    pass\n" + chain)


_WORDS = st.sampled_from(
    [
        *("from transformers import", "import torch", "BitsAndBytesConfig", "AutoModel", "(", ")"),
        *("[", "]", "{", "}", ",", ":", "=", "**", "*", "x", "y", "self", ".", "load_in_8bit"),
        *("load_in_4bit", "True", "False", "None", "for", "in", "if", "else", "while", "def"),
        *("class", "lambda", "with", "as", ".generate", "from_pretrained", "\n", "\n    "),
        *("\n        ", "'a'", "f'{x}'", "1", "-", "+", "<<", "return", "del", "global", "try"),
        *("except", "torch.float32", "model", "tokenizer", "return_tensors='pt'", "#"),
        *("ecocompute: ignore[ECO101]", "vllm", "serve", "--enforce-eager", "\\", "&&", "run: |"),
        *("args:", "- ", "true", "0", "-1", "num_predict", "PARAMETER", "llama-cli", "-n"),
    ]
)
_KINDS = st.sampled_from(["python", "notebook", "yaml", "json", "shell", "modelfile"])


@settings(max_examples=300, deadline=None)
@given(st.lists(_WORDS, max_size=40).map(" ".join), _KINDS)
def test_no_text_makes_it_stumble(text: str, kind: str) -> None:
    reason = "read"
    told = cells(text.splitlines(keepends=True)) if kind == "notebook" else text
    try:
        judge(told, "any", cast("Kind", kind))
    except NotRead as error:
        reason = str(error)
    assert reason


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200), _KINDS)
def test_nor_does_any_other(text: str, kind: str) -> None:
    reason = "read"
    try:
        judge(text, "any", cast("Kind", kind))
    except NotRead as error:
        reason = str(error)
    assert reason


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(
            st.sampled_from(["load_in_8bit", "load_in_4bit", "run", "args", "image", "model"])
            | st.sampled_from(["use_cache", "max_length", "keep_alive", "max_num_seqs"])
            | st.text(max_size=5),
            each,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(_JSON)
def test_any_document_is_read_alike_as_json_and_yaml(value: object) -> None:
    text = json.dumps(value)
    try:
        in_json = codes(found_in(text, "json"))
        in_yaml = codes(found_in(text, "yaml"))
    except NoDocument:
        return  # what JSON alone knows: NaN, a lone surrogate
    assert sorted(in_json) == sorted(in_yaml)


@pytest.mark.parametrize("line", [HEAD + USE, "x = True\n", "m.generate(x, use_cache=False)\n"])
def test_time_grows_with_size_and_not_faster(line: str) -> None:
    def seconds(times: int) -> float:
        text = "import torch\n" + HEAD + line * times
        start = time.process_time()
        judge(text, "long.py", "python")
        return time.process_time() - start

    seconds(50)
    small, large = (min(seconds(n) for _ in range(3)) for n in (300, 3000))
    assert large < 40 * max(small, 0.002)  # 10 if linear, 100 if quadratic
