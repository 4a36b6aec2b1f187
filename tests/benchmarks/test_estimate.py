"""The benchmark of the estimator asks distinct questions and prints every error."""

from __future__ import annotations

import pytest

from benchmarks.estimate import main, questions, timed


def test_the_questions_are_distinct_and_their_times_are_told_in_order() -> None:
    asked = questions(200, seed=1)
    assert len({str(each) for each in asked}) == 200
    taken = timed(asked)
    assert len(taken) == 200 and taken == sorted(taken) and taken[0] > 0


def test_what_was_left_out_and_the_errors_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--queries", "10"])
    said = capsys.readouterr().out
    assert "NF4/eager" in said and "board left out" in said and "10 questions" in said
