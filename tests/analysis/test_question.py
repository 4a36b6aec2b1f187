"""Plain questions are read by rules, and what is not read is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.analysis.cards import CARDS
from ecocompute_cube.analysis.query import (
    LEAST_B,
    MOST_B,
    MOST_BATCH,
    MOST_CONTEXT,
    RUNTIMES,
    Query,
    query,
)
from ecocompute_cube.analysis.question import as_question, understand
from ecocompute_cube.analysis.shapes import BITS
from ecocompute_cube.errors import UsageError

QUERIES = st.builds(
    query,
    st.floats(LEAST_B, MOST_B),
    gpu=st.sampled_from([card.name for card in CARDS]),
    precision=st.sampled_from(sorted(BITS)),
    runtime=st.sampled_from(RUNTIMES),
    batch=st.integers(1, MOST_BATCH),
    context=st.integers(1, MOST_CONTEXT),
)


@given(QUERIES)
def test_a_question_that_is_written_is_read_as_it_was(asked: Query) -> None:
    found = understand(as_question(asked))
    assert found.unread == ()
    assert query(**found.values) == asked  # type: ignore[arg-type]


@given(st.text(max_size=600))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = understand(text)
    except UsageError:
        return
    assert all(any(letter.isdigit() for letter in word) for word in found.unread)


_TEXT = "7B 13 billion 500M on A100 4090 H200 rtx ada int8 8-bit nf4 batch 32 ctx 8k tokens , of ="
_WORDS = st.sampled_from(_TEXT.split(" "))


@given(st.lists(_WORDS, max_size=12).map(" ".join))
def test_any_words_of_ours_are_read_or_refused(text: str) -> None:
    try:
        found = understand(text)
    except UsageError:
        return
    assert set(found.values) <= {
        "params_b",
        "gpu",
        "arch",
        "precision",
        "runtime",
        "batch",
        "context",
    }


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (
            "13B on A100, int8, batch 32, 8k context",
            {
                "params_b": 13.0,
                "gpu": "NVIDIA A100-SXM4-80GB",
                "precision": "INT8",
                "batch": 32,
                "context": 8192,
            },
        ),
        (
            "Should I quantize a 1.5 billion model to 4-bit on an RTX 4090?",
            {"params_b": 1.5, "precision": "NF4", "gpu": "NVIDIA GeForce RTX 4090"},
        ),
        ("500M, ada, Q4, bs 4", {"params_b": 0.5, "arch": "ada", "precision": "NF4", "batch": 4}),
        (
            "7B hopper as a CUDA graph, context of 4096 tokens",
            {"params_b": 7.0, "arch": "hopper", "runtime": "graph", "context": 4096},
        ),
        (
            "H100 PCIe 7b nf4 dq",
            {"gpu": "NVIDIA H100 PCIe", "params_b": 7.0, "precision": "NF4-DQ"},
        ),
        ("4090D 3B", {"gpu": "NVIDIA GeForce RTX 4090 D", "params_b": 3.0}),
        ("A100 40GB 7B", {"gpu": "NVIDIA A100-SXM4-40GB", "params_b": 7.0}),
        ("\uff17B on T4", {"params_b": 7.0, "gpu": "Tesla T4"}),
        ("", {}),
    ],
)
def test_a_question(text: str, values: dict[str, object]) -> None:
    found = understand(text)
    assert found.values == values and found.unread == ()


def test_figures_that_were_not_understood_are_told() -> None:
    assert understand("7B on 4090 with 3 experts and top-k50").unread == ("3", "top-k50")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("7B or 13B on 4090", "params_b"),
        ("7B on A100 and H100", "gpu"),
        ("7B on RTX 4095", "gpu"),
        ("7B on MI300X", "gpu"),
        ("7B, int8 and nf4", "precision"),
        ("x" * 501, "q"),
    ],
)
def test_what_contradicts_or_is_unknown_is_refused(text: str, named: str) -> None:
    with pytest.raises(UsageError) as caught:
        understand(text)
    assert caught.value.cause.startswith(f"{named}: ")
