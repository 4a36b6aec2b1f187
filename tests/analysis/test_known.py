"""What there is to ask about."""

from __future__ import annotations

from ecocompute_cube.analysis.estimator import estimate
from ecocompute_cube.analysis.known import architectures


def test_what_is_said_to_be_measured_is_answered_so() -> None:
    for name, generation in architectures().items():
        for precision, known in generation.precisions.items():
            assert known.measured_range_b is not None
            found = estimate(known.measured_range_b[0], arch=name, precision=precision)
            assert found.gpu == generation.gpu and len(found.anchors) >= known.sessions
            assert found.crossover_b == known.crossover_b


def test_a_generation_without_measurements_has_no_precisions() -> None:
    assert architectures()["volta"].precisions == {}
    assert {"NF4", "INT8"} <= architectures()["ada"].precisions.keys()
