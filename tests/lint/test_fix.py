"""``--fix`` takes away what has no effect or only costs, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.lint.fix import fix_file, fixed
from ecocompute_cube.lint.found import Edit, Place

from .rig import found_in

CONFIG = "from transformers import BitsAndBytesConfig\nc = BitsAndBytesConfig({})\n"
GENERATE = "import torch\ndef f(model, ids):\n    return model.generate({})\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CONFIG.format('bnb_4bit_quant_type="nf4"'), CONFIG.format("")),
        (
            CONFIG.format('load_in_8bit=x, bnb_4bit_quant_type="nf4", llm_int8_threshold=0.0'),
            CONFIG.format("load_in_8bit=x, llm_int8_threshold=0.0"),
        ),
        (
            CONFIG.format('load_in_4bit=False, bnb_4bit_quant_type="a", bnb_4bit_quant_storage=1'),
            CONFIG.format("load_in_4bit=False"),
        ),
        (
            GENERATE.format("ids, max_new_tokens=8, use_cache=False"),
            GENERATE.format("ids, max_new_tokens=8"),
        ),
        (
            GENERATE.format(
                "\n        ids,\n        use_cache=False,\n        max_new_tokens=8,\n    "
            ),
            GENERATE.format("\n        ids,\n        max_new_tokens=8,\n    "),
        ),
    ],
)
def test_what_is_useless_goes(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "app.py"
    path.write_text(before)
    made = fix_file(path, found_in(before))
    assert path.read_text() == after
    assert made == 1


def test_a_comment_is_never_lost() -> None:
    text = GENERATE.format(
        "\n        ids,\n        use_cache=False,  # why\n        max_new_tokens=8,\n    "
    )
    (finding,) = found_in(text)
    assert finding.code == "ECO110" and finding.edits == ()


def test_options_between_others_are_left_to_their_author() -> None:
    text = CONFIG.format('bnb_4bit_quant_type="nf4", load_in_8bit=False, bnb_4bit_quant_storage=1')
    (finding,) = found_in(text)
    assert finding.code == "ECO114" and finding.edits == ()


def test_what_comes_from_a_dictionary_is_left_to_its_author() -> None:
    text = CONFIG.format('**{"bnb_4bit_quant_type": "nf4"}')
    assert [each.edits for each in found_in(text)] == [()]


def test_line_ends_encoding_and_rights_stay(tmp_path: Path) -> None:
    text = "# -*- coding: latin-1 -*-\n# é\n" + CONFIG.format('bnb_4bit_quant_type="é"')
    path = tmp_path / "app.py"
    path.write_bytes(text.replace("\n", "\r\n").encode("latin-1"))
    path.chmod(0o755)
    assert fix_file(path, found_in(text)) == 1
    assert path.read_bytes().decode("latin-1").endswith("BitsAndBytesConfig()\r\n")
    assert path.stat().st_mode & 0o777 == 0o755


def test_an_edit_that_would_break_a_file_is_not_made(tmp_path: Path) -> None:
    text = CONFIG.format('bnb_4bit_quant_type="nf4"')
    path = tmp_path / "app.py"
    path.write_text(text)
    (finding,) = found_in(text)
    broken = finding._replace(edits=(Edit(Place(2, 5, 2, 24), "("),))
    assert fix_file(path, [broken]) == 0 and path.read_text() == text


@given(
    st.text(alphabet="ab\n", max_size=30),
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 5), st.text("xy", max_size=2)), max_size=4
    ),
)
def test_edits_change_what_they_name_and_no_more(
    text: str, wanted: list[tuple[int, int, str]]
) -> None:
    def place(start: int, end: int) -> Place:
        before, until = text[:start], text[:end]
        return Place(
            before.count("\n") + 1,
            start - before.rfind("\n"),
            until.count("\n") + 1,
            end - until.rfind("\n"),
        )

    spans = []
    at = 0
    for gap, length, new in wanted:
        start, end = at + gap, at + gap + length
        if end > len(text):
            break
        spans.append((start, end, new))
        at = end + 1
    edits = [Edit(place(start, end), new) for start, end, new in spans]
    expected = text
    for start, end, new in reversed(spans):
        expected = expected[:start] + new + expected[end:]
    assert fixed(text, edits) == (expected, len(spans))


def test_fixing_twice_changes_nothing(tmp_path: Path) -> None:
    text = GENERATE.format("ids, use_cache=False, max_length=9, max_new_tokens=8")
    path = tmp_path / "app.py"
    path.write_text(text)
    assert fix_file(path, found_in(text)) == 1
    once = path.read_text()
    ast.parse(once)
    assert found_in(once) == [] and fix_file(path, found_in(once)) == 0
