"""A plan is read strictly, and whatever is wrong with it is said in one sentence with a remedy."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ecocompute_cube.errors import PlanError
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.model.plan_file import read_plan, scored_on


def read(folder: Path, text: str | bytes) -> Plan:
    path = folder / "plan.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_plan(path)


BAD: dict[str, tuple[str | bytes, str, str]] = {
    "an unknown key": ("name: a\ncolour: red\n", "colour: there is no such key", "Known keys"),
    "a misspelt key": (
        "name: a\nprotocol: {bloks: 3}\n",
        "protocol.bloks",
        "Did you mean 'blocks'",
    ),
    "a misspelt key deep down": (
        "name: a\nprotocol: {warmup: {min_pases: 1}}\n",
        "protocol.warmup.min_pases",
        "Did you mean 'min_passes'?",
    ),
    "a misspelt key in a list": (
        "name: a\ncontrasts: [{arm: {precison: NF4}, against: {}}]\n",
        "contrasts.0.arm.precison",
        "Did you mean 'precision'?",
    ),
    "a key twice": ("name: a\nname: b\n", "'name' stands twice", "Keep one"),
    "a key twice, deep down": (
        "name: a\nprotocol:\n  warmup:\n    min_passes: 1\n    min_passes: 2\n",
        "'min_passes' stands twice in the block at line 4",
        "Keep one",
    ),
    "a key twice in a list": (
        "name: a\nworkloads: [{batch: 1, batch: 2}]\n",
        "'batch' stands twice",
        "Keep one",
    ),
    "a missing name": ("models: [embedded]\n", "name: Field required", "Add it"),
    "a wrong type": ("name: a\nprotocol: {blocks: three}\n", "got 'three'", "Correct"),
    "yes for a number": ("name: a\nprotocol: {blocks: yes}\n", "got True", "Correct"),
    "no for a name": ("name: no\n", "got False", "Correct"),
    "a text for a list": ("name: a\narms: NF4\n", "arms: ", "Correct"),
    "nothing for a block": ("name: a\nprotocol:\n", "protocol: ", "Correct"),
    "no tokens": ("name: a\nworkloads: [{output_tokens: 0}]\n", "output_tokens", "Correct"),
    "a negative prompt": ("name: a\nworkloads: [{prompt_tokens: -1}]\n", "got -1", "Correct"),
    "no batch": ("name: a\nworkloads: [{batch: 0}]\n", "workloads.0.batch", "Correct"),
    "no blocks": ("name: a\nprotocol: {blocks: 0}\n", "protocol.blocks", "Correct"),
    "no iterations": ("name: a\nprotocol: {iterations: 0}\n", "protocol.iterations", "Correct"),
    "no number": ("name: a\nprotocol: {threshold_pct: .nan}\n", "got nan", "Correct"),
    "infinity": ("name: a\nprotocol: {window_s: .inf}\n", "got inf", "Correct"),
    "octal": ("name: a\nprotocol: {blocks: 010}\n", "'010' is not a decimal", "0 to 9"),
    "base sixty": ("name: a\nprotocol: {blocks: 1:30}\n", "'1:30' is not a decimal", "0 to 9"),
    "a giant": (f"name: a\nprotocol: {{seed: 0x{'f' * 5000}}}\n", "not a decimal", "0 to 9"),
    "a longer giant": (f"name: a\nprotocol: {{seed: {'9' * 5000}}}\n", "digits", "smaller"),
    "a number beyond any": (
        f"name: a\nprotocol: {{mode: precise}}\nworkloads: [{{batch: {'9' * 400}}}]\n",
        "line 3: a number of 400 digits",
        "Write a smaller",
    ),
    "ten megabytes": ("name: " + "a" * 10_000_000, "larger than any plan", "config"),
    "an unknown precision": ("name: a\narms: [NF5]\n", "did you mean NF4?", "Correct"),
    "an unknown runtime": ("name: a\narms: [NF4/egaer]\n", "known: eager", "Correct"),
    "an arm twice": ("name: a\narms: [NF4, NF4/eager]\n", "the same arm stands twice", "Correct"),
    "a model twice": ("name: a\nmodels: [x/m, y/m]\n", "the same model stands twice", "Correct"),
    "a model twice in the end": (
        f"name: a\nmodels: ['~', {Path.home().name or 'root'}]\n",
        "the same model stands twice",
        "Correct",
    ),
    "an unknown architecture": ("name: a\nmodels: ['random:foo']\n", "'foo'", "Use one of"),
    "no model": ("name: a\nmodels: []\n", "models: ", "Correct"),
    "an empty model": ("name: a\nmodels: ['']\n", "'' is no path", "Name a folder"),
    "a model with a NUL": ('name: a\nmodels: ["a\\0b"]\n', "is no path", "Name a folder"),
    "somebody's home": ("name: a\nmodels: ['~nobody-here/m']\n", "no home folder", "Write"),
    "an empty text": ("name: a\nquality: {text: ''}\n", "'' is no path", "Name a folder"),
    "an alias": ("name: &n a\nmodels: [*n]\n", "line 2 points back", "Write the value out"),
    "a recursive alias": ("name: a\nmodels: &m [*m]\n", "points back", "Write the value out"),
    "a bomb": (
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n"
            for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "points back",
        "Write the value out",
    ),
    "endless brackets": (f"name: a\nmodels: {'[' * 5000}\n", "nests too deep", "brackets"),
    "tabs": ("name: a\nprotocol:\n\tblocks: 3\n", "not valid YAML", "Correct"),
    "two documents": ("name: a\n---\nname: b\n", "not valid YAML", "Correct"),
    "an object of Python": ("!!python/name:os.system x\n", "not valid YAML", "Correct"),
    "a set": ("name: !!set {a, b}\n", "a set", "Take it out"),
    "bytes": ("name: !!binary aGk=\n", "a bytes", "Take it out"),
    "a day for a key": ("2024-01-01: a\n", "keys must be", "Take it out"),
    "a list for a key": ("? [a]\n: b\n", "not valid YAML", "Correct"),
    "half a character": ('name: "\\ud800"\n', "not Unicode", "Correct"),
    "binary": (bytes(range(256)), "cannot be read", "UTF-8"),
    "UTF-16": ("name: a\n".encode("utf-16"), "cannot be read", "UTF-8"),
    "an empty file": ("", "does not hold a mapping", "protocol.yaml"),
    "only comments": ("# name: a\n", "does not hold a mapping", "protocol.yaml"),
    "a list": ("- name: a\n", "does not hold a mapping", "protocol.yaml"),
    "a text": ("name\n", "does not hold a mapping", "protocol.yaml"),
    "protocol mode with rows": ("name: a\nworkloads: [{batch: 4}]\n", "exactly batch 1", "Correct"),
    "protocol mode, short": (
        "name: a\nworkloads: [{output_tokens: 128}]\n",
        "256 output tokens",
        "Correct",
    ),
    "protocol mode, fewer": (
        "name: a\nprotocol: {iterations: 5}\n",
        "exactly 10 iterations",
        "Correct",
    ),
    "an unknown mode": ("name: a\nprotocol: {mode: fast}\n", "'precise'", "Correct"),
    "warm-up upside down": (
        "name: a\nprotocol: {warmup: {min_passes: 5, max_passes: 2}}\n",
        "max_passes must be at least min_passes",
        "Correct",
    ),
    "a contrast of nothing": (
        "name: a\ncontrasts: [{arm: {precision: NF4}, against: {precision: NF4}}]\n",
        "{'precision': 'NF4'} does not name two different arms",
        "Name models",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_plan_is_answered_with_cause_and_remedy(tmp_path: Path, what: str) -> None:
    text, cause, fix = BAD[what]
    with pytest.raises(PlanError) as caught:
        read(tmp_path, text)
    assert cause in caught.value.cause
    assert fix in caught.value.fix
    assert caught.value.exit_status == 2
    assert "\n" not in str(caught.value)
    assert len(caught.value.cause) < 500


def test_an_overlong_value_is_not_repeated_in_full(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        read(tmp_path, f"name: {'a' * 10_000}\n")
    assert len(str(caught.value)) < 300


def test_a_plan_without_an_end_is_refused() -> None:
    with pytest.raises(PlanError, match="larger than any plan"):
        read_plan(Path("/dev/zero"))


def test_among_many_entries_the_one_that_stands_twice_is_named(tmp_path: Path) -> None:
    models = ", ".join(f"m{number}" for number in range(20_000))
    with pytest.raises(PlanError, match=r"model stands twice: local-m77\b"):
        read(tmp_path, f"name: a\nmodels: [{models}, m77]\n")
    keys = "".join(f"k{number}: 1\n" for number in range(15_000))
    with pytest.raises(PlanError, match="'k77' stands twice"):
        read(tmp_path, f"{keys}k77: 1\n")


def test_a_key_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        read(tmp_path, 'name: a\n"\\e[31mred\\n": x\n')
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        (".", "is a folder"),
        ("plan.yaml/below", "Not a directory"),
        ("a" * 300, "File name too long"),
        ("a\0b", "null byte"),
    ],
)
def test_a_file_that_cannot_be_opened_is_a_plan_error_without_the_path(
    tmp_path: Path, name: str, cause: str
) -> None:
    (tmp_path / "plan.yaml").write_text("name: a\n")
    with pytest.raises(PlanError, match=cause) as caught:
        read_plan(tmp_path / name)
    assert f"{tmp_path}/" not in str(caught.value)


@pytest.mark.parametrize("name", ["missing.yaml", "plans/missing.yaml"])
def test_a_file_that_is_not_there_is_named_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlanError, match=f"no parameters file '{name}'"):
        read_plan(Path(name))


# What is accepted


def test_a_name_is_all_that_a_plan_needs(tmp_path: Path) -> None:
    assert read(tmp_path, "name: a\n") == Plan(name="a")
    assert read(tmp_path, "\ufeffname: 2026-01-02\n") == Plan(name="2026-01-02")


def test_models_and_texts_are_taken_from_the_plans_folder(tmp_path: Path) -> None:
    plan = read(tmp_path, "name: a\nmodels: [m, local:n, ../o]\nquality: {text: t.txt}\n")
    assert plan.models == (f"{tmp_path}/m", f"{tmp_path}/n", f"{tmp_path.parent}/o")
    assert plan.quality.text == f"{tmp_path}/t.txt"


def test_another_text_may_take_the_place_of_the_plans(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("name: p\nquality: {max_windows: 3}\n")
    plan = scored_on(read_plan(tmp_path / "p.yaml"), Path("mine.txt"))
    assert plan.quality.text == str(Path("mine.txt").absolute())
    assert plan.quality.max_windows == 3
    assert plan.public().quality.text == "mine.txt"


def test_a_plan_in_the_current_folder_keeps_local_models_local(tmp_path: Path) -> None:
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        (tmp_path / "plan.yaml").write_text("name: a\nmodels: ['local:embedded', 'local:random:x']")
        plan = read_plan(Path("plan.yaml"))
    finally:
        os.chdir(before)
    assert plan.public().models == ("local:embedded", "local:random:x")


words = st.sampled_from(
    ["name", "a", "models", "embedded", "random:smollm2-135m", "arms", "NF4", "protocol", "blocks"]
)
scalars = (
    words
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.none()
    | st.dates()
    | st.binary(max_size=4)
    | st.text(max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=10,
)
keys = st.sampled_from(sorted(Plan.model_fields)) | words
texts = (
    st.text(max_size=60)
    | st.binary(max_size=60)
    | st.text(alphabet="name: a\n-[]{}&*!|>'\"#?,%@`\t0~<", max_size=60)
    | st.dictionaries(keys, values, max_size=5).map(yaml.dump)
    | st.dictionaries(keys, values, max_size=5).map(lambda data: yaml.dump({**data, "name": "a"}))
)


def read_or_refuse(folder: Path, text: str | bytes) -> Plan | PlanError:
    try:
        return read(folder, text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
    except PlanError as error:
        return error


@settings(deadline=None, max_examples=400)
@given(text=texts)
@example(text="name: a\nmodels: [1e999]")
def test_any_text_gives_a_plan_or_a_plan_error(text: str | bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = read_or_refuse(Path(folder), text)
    if isinstance(found, PlanError):
        assert found.cause and found.fix
    else:
        assert Plan.model_validate_json(found.model_dump_json()) == found
        here = [model for model in found.public().models if not model.startswith("hub:")]
        assert "/" not in "".join(here)
        json.dumps(found.public().model_dump(mode="json"), allow_nan=False)
