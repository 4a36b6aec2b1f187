"""The packaged curves are what the measurements give, byte for byte."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from curve_fit import Value, curve, session_coverage, spread
from curve_sessions import rows

ROOT = Path(__file__).parents[2]


def test_the_same_measurements_give_the_same_bytes() -> None:
    command = [sys.executable, "scripts/fit_curves.py", "--check", "--quiet"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


def test_repeats_of_a_session_are_one_row() -> None:
    found = [(row.gpu, row.precision, row.runtime, row.model, row.session) for row in rows()]
    assert len(found) == len(set(found)) > 80


def test_other_workloads_and_rows_that_are_no_session_are_left_out() -> None:
    sessions = {row.session for row in rows()}
    assert any(session.endswith("-embedded-protocol") for session in sessions)
    assert not any("first-look" in session or "smoke" in session for session in sessions)
    assert not any("llamacpp" in session for session in sessions)


def test_the_spread_of_a_session_is_pooled_over_boards_and_counted_by_session() -> None:
    values = [
        Value(gpu, size, session, "one", log, doubtful=False)
        for gpu in ("a", "b")
        for size in (1.0, 2.0)
        for session, log in (("s", 0.1), ("t", -0.1))
    ]
    found = spread(values)
    assert found is not None and found.degrees == 2
    assert found.log == pytest.approx(0.02**0.5)


def test_a_size_out_of_order_is_told_by_the_sessions_of_one_stack() -> None:
    def value(size: float, session: str, log: float) -> Value:
        return Value("a", size, session, "one", log, doubtful=False)

    values = [
        value(size, session, log + shift)
        for session, shift in (("s", 0.0), ("t", 0.01))
        for size, log in ((1.0, 0.5), (2.0, 0.0), (4.0, 0.3), (8.0, -0.3))
    ]
    found = curve(values, spread(values))
    assert found is not None and found.knots == ()
    assert found.refused is not None and "not monotone" in found.refused


def test_a_session_left_out_lies_in_the_range_as_often_as_it_says() -> None:
    draw = random.Random(1)
    held = tried = 0
    for _ in range(30):
        values = []
        for session in range(4):
            shift = draw.gauss(0, 0.1)
            values += [
                Value("a", size, f"s{session}", "one", -0.2 * n + shift, doubtful=False)
                for n, size in enumerate((0.5, 1.0, 3.0, 7.0))
            ]
        found = session_coverage(values)
        held, tried = held + found.held, tried + found.of
    assert tried == 30 * 16 and 0.9 <= held / tried <= 1.0
