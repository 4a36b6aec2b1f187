"""The site's arithmetic says what Python's says: the same questions, good and bad, to both."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from . import asked
from .conftest import Look

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

Json: TypeAlias = Any

MANY: Final = 10_000
_OPTIMA: Final = 1_000  # each looks at some eighteen combinations

#: What the page's scripts answer; a mistake is told, anything else that is thrown fails the test.
_ANSWERS: Final = """([kind, text]) => {
    const tables = JSON.parse(document.getElementById("tables").textContent);
    CHANGED
    const estimator = estimating(tables);
    const optimize = optimizing(tables, estimator);
    const understand = understanding(tables, estimator);
    const brief = (mistake) => ({ refused: mistake.cause.split(":")[0] });
    const kinds = {
        estimate: [(each) => {
            const found = estimator.answer(estimator.query(each));
            return { ...found, anchors: found.anchors.length };
        }, brief],
        question: [understand, (mistake) => ({ refused: mistake.cause, fix: mistake.fix })],
        optimum: [optimize, brief],
    };
    const [answer, refusal] = kinds[kind];
    const told = JSON.parse(text).map((each) => {
        try { return answer(each); } catch (mistake) {
            if (!(mistake instanceof Mistake)) throw mistake;
            return refusal(mistake);
        }
    });
    return JSON.stringify(told);
}"""


@pytest.fixture
def page_says(look: Look, site: Path) -> Callable[..., list[Json]]:
    """Answers of the page to all of these; ``changed`` is a line of script that spoils a table."""
    seen = look((site / "optimize.html").as_uri())

    def says(kind: str, questions: Sequence[Json], changed: str = "") -> list[Json]:
        script = _ANSWERS.replace("CHANGED", changed)
        found: list[Json] = json.loads(seen.page.evaluate(script, [kind, json.dumps(questions)]))
        return found

    return says


def differences(
    questions: Sequence[Json], expected: Sequence[Json], found: Sequence[Json]
) -> list[tuple[Json, str]]:
    """Each question whose answers differ, and where first."""
    return [
        (question, told)
        for question, ours, theirs in zip(questions, expected, found, strict=True)
        if (told := asked.differing(ours, theirs)) is not None
    ]


def test_ten_thousand_estimates_are_python_s(page_says: Callable[..., list[Json]]) -> None:
    """Recommendation, basis, change, range, and every other field; numbers to 10⁻⁹."""
    draw = random.Random(1)
    questions = [asked.estimate_question(draw) for _ in range(MANY)]
    expected = [asked.estimated(each) for each in questions]
    bases = Counter(each.get("basis", "refused") for each in expected)
    advice = Counter(each.get("recommendation", "refused") for each in expected)
    assert min(bases[name] for name in ("measured", "interpolated", "estimated", "refused")) > 100
    assert min(advice[name] for name in ("quantize", "do_not_quantize")) > 50
    assert differences(questions, expected, page_says("estimate", questions)) == []


def test_ten_thousand_sentences_are_understood_as_python_does(
    page_says: Callable[..., list[Json]],
) -> None:
    """Also what is refused, in the same words and with the same remedy."""
    draw = random.Random(2)
    questions = [asked.sentence(draw) for _ in range(MANY)]
    expected = [asked.understood(each) for each in questions]
    refused = sum("refused" in each for each in expected)
    assert 0.05 < refused / MANY < 0.5
    assert differences(questions, expected, page_says("question", questions)) == []


def test_a_thousand_optima_are_python_s(page_says: Callable[..., list[Json]]) -> None:
    draw = random.Random(3)
    questions = [asked.optimum_question(draw) for _ in range(_OPTIMA)]
    expected = [asked.optimum(each) for each in questions]
    kinds = Counter(
        "refused" if "refused" in each else "found" if each["recommended"] else "blocked"
        for each in expected
    )
    assert min(kinds.values()) > 50 and len(kinds) == 3
    assert differences(questions, expected, page_says("optimum", questions)) == []


@pytest.mark.parametrize(
    "spoiled",
    [
        "tables.constants.same_size = 0.03;",
        "tables.constants.least_held = 0.9;",
        "tables.constants.many_sessions = 2;",
        "tables.constants.same_points = 1.5;",
        "tables.constants.context_gb += 1e-7;",
        "tables.constants.product_share *= 1 + 1e-7;",
        "tables.mechanism.boards['NVIDIA H200'][0] *= 1 + 1e-7;",
        "for (const curve of tables.ratios) for (const knot of curve.knots) knot[1] += 1e-9;",
        "tables.shapes[3].layers += 1e-6;",
    ],
)
def test_a_table_that_is_off_a_little_is_seen(
    page_says: Callable[..., list[Json]], spoiled: str
) -> None:
    """The comparison can fail: each figure that is moved moves an answer."""
    draw = random.Random(4)
    questions = [asked.estimate_question(draw) for _ in range(2_000)]
    expected = [asked.estimated(each) for each in questions]
    assert differences(questions, expected, page_says("estimate", questions)) == []
    assert differences(questions, expected, page_says("estimate", questions, spoiled)) != []
