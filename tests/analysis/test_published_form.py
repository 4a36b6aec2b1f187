"""The published form gives the published test vectors, to their last digit."""

from __future__ import annotations

import pytest

from ecocompute_cube.analysis.published_form import published_estimate
from ecocompute_cube.analysis.query import query
from ecocompute_cube.errors import UsageError


@pytest.mark.parametrize(
    ("params_b", "arch", "precision", "delta", "ci", "said"),
    [
        (13, "ampere", "NF4", -1.0, (-6.3, 4.3), ("interpolated", "high", "depends")),
        (7, "blackwell", "NF4", -11.4, (-14.2, -8.7), ("measured", "high", "quantize")),
        (3, "ada", "NF4", 13.0, (-11.0, 37.0), ("measured", "medium", "depends")),
        (70, "hopper", "INT8", 69.0, (37.4, 100.6), ("estimated", "low", "do_not_quantize")),
        (1.1, "ampere", "NF4", -1.0, (-30.7, 28.7), ("estimated", "low", "depends")),
        (70, "blackwell", "NF4", -50.3, (-75.0, -13.0), ("estimated", "low", "quantize")),
    ],
)
def test_a_published_vector(
    params_b: float,
    arch: str,
    precision: str,
    delta: float,
    ci: tuple[float, float],
    said: tuple[str, str, str],
) -> None:
    found = published_estimate(query(params_b, arch=arch, precision=precision))
    assert found.delta_pct == pytest.approx(delta, abs=0.051)
    assert found.ci == pytest.approx(ci, abs=0.051)
    assert (found.basis, found.confidence, found.recommendation) == said


def test_what_the_form_does_not_have_is_refused_with_what_it_has() -> None:
    with pytest.raises(UsageError, match=r"precision: .*INT8 on blackwell.* ada INT8/NF4"):
        published_estimate(query(7, arch="blackwell", precision="INT8"))


def test_batch_takes_from_a_saving_alone() -> None:
    one = published_estimate(query(7, arch="blackwell"))
    nine = published_estimate(query(7, arch="blackwell", batch=9))
    assert nine.delta_pct == pytest.approx(one.delta_pct / 2) and nine.modelled
    cost = published_estimate(query(1.1, arch="blackwell"))
    assert published_estimate(query(1.1, arch="blackwell", batch=9)).delta_pct == cost.delta_pct
