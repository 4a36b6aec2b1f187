"""A/A runs on scripted boards, few of them: the whole number is ``python -m benchmarks.itself``."""

from __future__ import annotations

import pytest

from benchmarks.itself import main


def test_an_arm_equals_itself_at_the_nominal_rate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--runs", "8"]) == 0
    assert "of 8 intervals hold zero" in capsys.readouterr().out
