"""An estimate says what it rests on, or why there is none."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.analysis.cards import ARCHES, CARDS
from ecocompute_cube.analysis.curves import library
from ecocompute_cube.analysis.estimator import Estimate, answer, estimate
from ecocompute_cube.analysis.query import LEAST_B, MOST_B, RUNTIMES, Query, query
from ecocompute_cube.analysis.shapes import BITS
from ecocompute_cube.errors import UsageError

QUERIES = st.builds(
    query,
    st.floats(LEAST_B, MOST_B),
    gpu=st.sampled_from([card.name for card in CARDS]),
    precision=st.sampled_from(sorted(BITS)),
    runtime=st.sampled_from(RUNTIMES),
    batch=st.integers(1, 512),
    context=st.integers(1, 200_000),
)


@given(QUERIES)
def test_every_question_has_an_answer_with_a_range_or_a_reason(asked: Query) -> None:
    found = answer(asked)
    if found.delta_pct is None:
        assert found.ci is None and found.mj_per_token is None and found.reason
        assert (found.confidence, found.recommendation) == ("none", "depends")
    else:
        assert found.ci is not None and found.reason is None
        assert found.ci[0] <= found.delta_pct <= found.ci[1]
    if found.mj_per_token is not None and found.mj_ci is not None:
        assert 0 < found.mj_ci[0] <= found.mj_per_token <= found.mj_ci[1] < math.inf


@given(QUERIES)
def test_a_recommendation_is_made_only_where_the_whole_range_agrees(asked: Query) -> None:
    found = answer(asked)
    if found.recommendation == "quantize":
        assert found.ci is not None and found.ci[1] < 0
    if found.recommendation == "do_not_quantize":
        assert found.ci is not None and found.ci[0] > 0


@given(QUERIES)
def test_only_what_was_measured_is_called_so(asked: Query) -> None:
    found = answer(asked)
    if found.basis == "measured" and found.precision != "FP16":
        near = [a for a in found.anchors if abs(a.N - found.params_b) <= 0.02 * a.N]
        assert near and all(anchor.gpu == found.gpu for anchor in near)
        assert found.batch == 1 and not found.modelled
    if found.modelled:
        assert found.basis == "estimated"


def test_a_measured_size_is_the_mean_of_its_sessions() -> None:
    found = estimate(7, gpu="rtx 5090", precision="NF4")
    logs = [
        math.log1p(anchor.dE / 100)
        for anchor in found.anchors
        if anchor.N == 7 and "unverified" not in anchor.remarks
    ]
    assert found.basis == "measured" and len(logs) == 2
    assert found.delta_pct == pytest.approx(100 * math.expm1(sum(logs) / 2), abs=0.02)


def test_the_curve_passes_through_the_measured_sizes_and_is_monotone_between() -> None:
    curve = library().ratios["NVIDIA GeForce RTX 4090", "NF4", "eager"]
    fits = [curve.between(0.5 * 14 ** (n / 200)) for n in range(201)]
    values = [knot.fit for knot in fits if knot is not None]
    assert len(values) == 201 and values == sorted(values, reverse=True)
    for size in curve.sizes:
        between = curve.between(size.params_b)
        assert between is not None and between.fit == pytest.approx(size.fit, abs=1e-4)


def test_sizes_out_of_order_have_no_curve_and_the_mechanism_leads() -> None:
    found = estimate(2, gpu="rtx 5090", precision="INT8")
    assert (found.basis, found.modelled) == ("estimated", True)
    assert any("not monotone" in note for note in found.notes)
    assert estimate(3, gpu="rtx 5090", precision="INT8").basis == "measured"


def test_one_session_of_one_board_gives_no_range_and_so_no_answer() -> None:
    found = estimate(7, gpu="a800", precision="INT8-T0")
    assert found.delta_pct is None and found.reason is not None
    assert "one session" in found.reason and len(found.anchors) == 3
    assert found.mechanism is not None


def test_another_board_of_the_generation_is_estimated_and_its_figures_are_of_the_data_sheet() -> (
    None
):
    found = estimate(3, gpu="l4")
    assert (found.basis, found.confidence) == ("estimated", "low")
    assert found.mechanism is not None and not found.mechanism.board_fitted
    wider = _width(found)
    assert wider > _width(estimate(3, gpu="rtx 4090"))


def _width(found: Estimate) -> float:
    assert found.ci is not None
    return found.ci[1] - found.ci[0]


@pytest.mark.parametrize(
    ("given_", "why"),
    [
        ({"batch": 2}, "batch 2"),
        ({"context": 100_000}, "context"),
        ({"runtime": "static"}, "NF4/static"),
        ({"params_b": 70}, "nothing is extrapolated"),
    ],
)
def test_beyond_what_was_measured_there_is_a_reason(given_: dict[str, object], why: str) -> None:
    asked = query(7, gpu="rtx 4090")._replace(**given_)  # type: ignore[arg-type]
    reason = answer(asked).reason
    assert reason is not None and why in reason


def test_idle_power_subtracted_is_shown_and_never_fitted() -> None:
    found = estimate(3, gpu="rtx 4090 d")
    assert found.basis == "estimated" and len(found.anchors) == 4
    assert any("idle power was subtracted" in note for note in found.notes)


def test_a_generation_is_answered_for_the_board_that_was_measured() -> None:
    for name, generation in ARCHES.items():
        found = estimate(3, arch=name)
        assert found.gpu == generation.card.name
        assert any(found.gpu in note for note in found.notes)


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({"params_b": math.nan}, "params_b"),
        ({"params_b": math.inf}, "params_b"),
        ({"params_b": -1}, "params_b"),
        ({"params_b": 1e9}, "params_b"),
        ({"params_b": 10**5000}, "params_b"),
        ({"params_b": True}, "params_b"),
        ({"params_b": "7"}, "params_b"),
        ({"batch": 0}, "batch"),
        ({"batch": 2.5}, "batch"),
        ({"context": -1}, "context"),
        ({"context": 10**12}, "context"),
        ({"gpu": "RTX 4095"}, "gpu"),
        ({"gpu": "🦙" * 1000}, "gpu"),
        ({"gpu": 5090}, "gpu"),
        ({"gpu": None, "arch": "adda"}, "arch"),
        ({"gpu": None, "arch": "h100"}, "arch"),
        ({"gpu": None}, "arch"),
        ({"arch": "hopper"}, "arch"),
        ({"precision": "INT9"}, "precision"),
        ({"precision": "FP8"}, "precision"),
        ({"runtime": "vllm"}, "runtime"),
    ],
)
def test_a_mistake_names_its_parameter_and_a_remedy(given_: dict[str, object], named: str) -> None:
    arguments: dict[str, object] = {"params_b": 7, "gpu": "rtx 4090", **given_}
    with pytest.raises(UsageError) as caught:
        estimate(**arguments)  # type: ignore[arg-type]
    assert caught.value.cause.startswith(f"{named}: ") and caught.value.fix
    assert len(str(caught.value)) < 400


def test_an_unknown_board_is_answered_with_its_nearest_names() -> None:
    with pytest.raises(UsageError, match=r"Nearest: .*RTX 4090"):
        estimate(7, gpu="RTX 4095")


def test_the_standard_library_is_enough() -> None:
    code = (
        "import sys\n"
        "from ecocompute_cube.analysis.estimator import estimate\n"
        "estimate(7, gpu='rtx 4090')\n"
        "print(*(name for name in ('numpy', 'scipy', 'pydantic') if name in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == ""
