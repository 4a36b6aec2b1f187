from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ecocompute_cube.analysis.arithmetic import disagreements
from ecocompute_cube.analysis.documents import parse_document
from ecocompute_cube.analysis.protocol import Grade, Profile, Verdict, grade
from ecocompute_cube.errors import EcoError

FIXTURES = Path(__file__).parents[1] / "fixtures" / "published" / "mlcube" / "fixtures"
CONFORMANT: dict[str, Any] = json.loads((FIXTURES / "conformant-v1.1.json").read_text())
REQUIRED = (
    "schema_version",
    "scenario",
    "system_under_test",
    "workload",
    "measurement",
    "results",
    "software",
    "thermal",
    "measurement_source",
)

#: Other work on the machine must not fail a test.
calm = settings(deadline=None, max_examples=100)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["measured", "direct-nvml", "NVML", "FP16", "INT8", "fixed", 10**400, 10])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def _places(document: dict[str, Any]) -> list[tuple[str, ...]]:
    inner = [
        (block, key) for block, keys in document.items() if isinstance(keys, dict) for key in keys
    ]
    return [*((block,) for block in document), *inner]


@st.composite
def mutated(draw: st.DrawFn, most: int = 4) -> dict[str, Any]:
    """The conformant document with a few of its values replaced or taken away."""
    document = copy.deepcopy(CONFORMANT)
    for place in draw(st.lists(st.sampled_from(_places(CONFORMANT)), max_size=most, unique=True)):
        block = document if len(place) == 1 else document.get(place[0])
        if not isinstance(block, dict):
            continue
        if draw(st.booleans()):
            block.pop(place[-1], None)
        else:
            block[place[-1]] = draw(values)
    return document


def _read(data: bytes) -> Grade | EcoError:
    try:
        document = parse_document(data, "energy.json")
    except EcoError as error:
        return error
    list(disagreements(document))
    return grade(document, Profile.DATASET)


@calm
@given(st.binary(max_size=64))
def test_any_bytes_give_a_grade_or_an_error_of_ours(data: bytes) -> None:
    assert isinstance(_read(data), Grade | EcoError)


@calm
@given(values)
def test_any_json_gives_a_grade_or_an_error_of_ours(value: object) -> None:
    assert isinstance(_read(json.dumps(value).encode()), Grade | EcoError)


@calm
@given(mutated())
def test_any_near_document_gives_a_grade(document: dict[str, Any]) -> None:
    outcome = _read(json.dumps(document).encode())
    assert isinstance(outcome, Grade)
    said = [
        *outcome.schema_errors,
        *(text for each in outcome.violations for text in (each.cause, each.fix)),
        *(note.text for note in outcome.notes),
        *(each.cause for each in disagreements(document)),
    ]
    assert all(text.isprintable() for text in said)


@calm
@given(mutated(most=2), st.sampled_from(REQUIRED), st.sampled_from(Profile))
def test_taking_a_required_block_away_never_raises_the_verdict(
    document: dict[str, Any], block: str, profile: Profile
) -> None:
    before = grade(document, profile).verdict
    # A block that fails the schema and that only the protocol requires is better away.
    assume(before is not Verdict.SCHEMA_INVALID)
    without = {key: value for key, value in document.items() if key != block}
    assert grade(without, profile).verdict.rank <= before.rank


@calm
@given(mutated())
def test_the_dataset_asks_for_all_that_the_core_asks_for(document: dict[str, Any]) -> None:
    core = {violation.cause for violation in grade(document, Profile.CORE).violations}
    assert core <= {violation.cause for violation in grade(document, Profile.DATASET).violations}
