"""``ecocompute gate``: what regressed, what cannot be graded, and that neither passes."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.analysis.pooling import Group, Kind, Session
from ecocompute_cube.analysis.replication import difference
from ecocompute_cube.cli import main
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.gate import Gate
from ecocompute_cube.model.plan import Workload
from ecocompute_cube.model.report import ArmReport, Report
from ecocompute_cube.report.gate import (
    LEAST_SESSIONS,
    as_markdown,
    as_text,
    gate_models,
    gate_sessions,
)
from ecocompute_cube.report.write import read_results

from .stage import measured, quick, scene

H200: Final = Path(__file__).parents[2] / "data" / "h200"
NAMES: Final = ("head", "base")
TOLERANCE: Final = 3.0


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    set_up = scene(tmp_path_factory.mktemp("gate"))
    measured(set_up, quick())
    (found,) = read_results(set_up.output).reports
    return found


def another(report: Report, run_id: str, factor: float = 1.0) -> Report:
    """The same run under another name, NF4's ratio to FP16 times this."""

    def changed(arm: ArmReport) -> ArmReport:
        if not present(arm.by_session) or not present(arm.vs_baseline):
            return arm
        (session,) = arm.by_session
        pairs = tuple(100 * ((1 + each / 100) * factor - 1) for each in session.pairs_pct)
        return arm.model_copy(
            update={"by_session": (session.model_copy(update={"pairs_pct": pairs}),)}
        )

    return report.model_copy(update={"run_id": run_id, "arms": tuple(map(changed, report.arms))})


def sessions(report: Report, *factors: float) -> list[Report]:
    return [another(report, f"base{n}", factor) for n, factor in enumerate(factors)]


STEADY: Final = (0.995, 1.0, 1.005)


@pytest.mark.parametrize(
    ("factor", "grade", "status"),
    [
        (1.0, "unchanged", 0),
        (1.15, "regressed", 1),
        (0.85, "improved", 0),
        (1.03, "undecided", 0),
    ],
)
def test_a_change_is_graded_against_three_sessions(
    report: Report, factor: float, grade: str, status: int
) -> None:
    found = gate_sessions(
        [another(report, "head", factor)], sessions(report, *STEADY), NAMES, TOLERANCE
    )
    (one,) = found.graded
    assert (one.grade, found.exit_status, one.base_sessions) == (grade, status, 3)
    assert present(one.change_pct) and one.change_pct == pytest.approx(100 * (factor - 1), abs=0.1)
    assert present(one.interval_pct) and one.interval_pct.unit == "sessions"


def test_the_scatter_of_the_sessions_widens_the_interval(report: Report) -> None:
    head = [another(report, "head", 1.15)]
    wide = gate_sessions(head, sessions(report, 0.8, 1.0, 1.25), NAMES, TOLERANCE)
    assert wide.graded[0].grade == "undecided"


def test_two_sessions_are_too_few_and_do_not_pass(report: Report) -> None:
    found = gate_sessions([another(report, "head")], sessions(report, 1.0, 1.001), NAMES, TOLERANCE)
    (one,) = found.graded
    assert (one.grade, found.exit_status) == ("not gradable", 5)
    assert "2 other sessions of this very board" in one.says and not present(one.change_pct)
    assert "Not gradable" in as_text(found)


def test_a_run_is_no_baseline_of_itself(report: Report) -> None:
    same = another(report, "head")
    found = gate_sessions([same], [same, *sessions(report, 1.0, 1.001)], NAMES, TOLERANCE)
    assert found.exit_status == 5 and "2 other sessions" in found.graded[0].says


def test_one_session_three_times_is_one(report: Report) -> None:
    once = another(report, "base")
    found = gate_sessions([another(report, "head")], [once] * 3, NAMES, TOLERANCE)
    assert found.exit_status == 5 and found.graded[0].base_sessions == 1


def on(report: Report, **changes: object) -> Report:
    """On a board, or a machine, that differs in this."""
    (session,) = report.sessions
    if "driver" in changes or "uuid_sha256" in changes:
        assert present(session.board)
        changes = {"board": session.board.model_copy(update=changes)}
    return report.model_copy(update={"sessions": (session.model_copy(update=changes),)})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"driver": "999.1"}, "driver"),
        ({"python": "3.99"}, "python"),
        ({"uuid_sha256": "f" * 64}, "0 other sessions of this very board"),
    ],
)
def test_another_board_driver_or_stack_is_not_gradable(
    report: Report, changes: dict[str, object], said: str
) -> None:
    base = [on(each, **changes) for each in sessions(report, *STEADY)]
    found = gate_sessions([another(report, "head")], base, NAMES, TOLERANCE)
    assert found.exit_status == 5 and said in found.graded[0].says


def test_an_arm_that_is_no_longer_measured_does_not_pass(report: Report) -> None:
    renamed = [
        each.model_copy(
            update={"arms": tuple(arm.model_copy(update={"model": "other"}) for arm in each.arms)}
        )
        for each in sessions(report, *STEADY)
    ]
    found = gate_sessions(
        [another(report, "head")], [*sessions(report, *STEADY), *renamed], NAMES, TOLERANCE
    )
    assert {each.grade for each in found.graded} == {"unchanged", "not gradable"}
    assert found.exit_status == 5
    assert any(each.says == "the head has no such arm" for each in found.graded)


def test_a_head_of_fewer_blocks_is_not_gradable(report: Report) -> None:
    def cut(arm: ArmReport) -> ArmReport:
        if not present(arm.by_session):
            return arm
        (session,) = arm.by_session
        short = session.model_copy(update={"pairs_pct": session.pairs_pct[:1]})
        return arm.model_copy(update={"by_session": (short,)})

    head = another(report, "head").model_copy(update={"arms": tuple(map(cut, report.arms))})
    found = gate_sessions([head], sessions(report, *STEADY), NAMES, TOLERANCE)
    assert found.exit_status == 5 and "1 block a session" in found.graded[0].says


def test_worse_and_not_gradable_is_worse(report: Report) -> None:
    worse, base = another(report, "head", 1.2), sessions(report, *STEADY)
    lost = [
        each.model_copy(
            update={"arms": tuple(arm.model_copy(update={"model": "other"}) for arm in each.arms)}
        )
        for each in base
    ]
    assert gate_sessions([worse], [*base, *lost], NAMES, TOLERANCE).exit_status == 1


# Within one run


def two_models(report: Report, low: float, high: float) -> Report:
    """The planned comparison, as if its arms were of two models."""
    compared = report.comparisons[0]
    assert present(compared.interval_pct)
    interval = compared.interval_pct.model_copy(update={"low": low, "high": high})
    arms = tuple(
        arm.model_copy(update={"model": "base"}) if arm.arm == compared.against else arm
        for arm in report.arms
    )
    changed = compared.model_copy(update={"interval_pct": interval})
    return report.model_copy(update={"comparisons": (changed,), "arms": arms})


@pytest.mark.parametrize(
    ("low", "high", "grade", "status"),
    [
        (5, 9, "regressed", 1),
        (-1, 2, "unchanged", 0),
        (-9, -5, "improved", 0),
        (1, 9, "undecided", 0),
    ],
)
def test_two_models_of_one_run_are_graded_by_their_pairs(
    report: Report, low: float, high: float, grade: str, status: int
) -> None:
    found = gate_models([two_models(report, low, high)], "both", TOLERANCE)
    assert (found.graded[0].grade, found.exit_status) == (grade, status)
    assert found.base == "the same run"


def test_a_single_block_is_not_gradable(report: Report) -> None:
    single = two_models(report, 0, 1)
    (compared,) = single.comparisons
    bare = compared.model_copy(update={"interval_pct": Absent(reason="one block")})
    found = gate_models([single.model_copy(update={"comparisons": (bare,)})], "both", TOLERANCE)
    assert found.exit_status == 5


# The command


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: object) -> tuple[int, str, str]:
        status = main(["gate", *map(str, arguments)])
        return (status, *capsys.readouterr())

    return run


def test_real_sessions_of_one_board_are_graded(typed: Callable[..., tuple[int, str, str]]) -> None:
    shelf = H200 / "container"
    status, out, err = typed(shelf / "cube" / "4", "--baseline", shelf, "--json")
    found = Gate.model_validate_json(out)
    (one,) = found.graded
    assert (status, err) == (0, "") and one.base_sessions == 5 >= LEAST_SESSIONS
    assert present(one.interval_pct)
    status, out, _ = typed(shelf / "cube" / "4", "--baseline", shelf, "--format", "markdown")
    assert out.startswith("**Nothing is shown") and "| --- |" not in out.splitlines()[0]


@pytest.mark.parametrize(
    "arguments",
    [
        (H200 / "plans",),
        (H200 / "no-such-folder",),
        (H200 / "runs" / "20261130T221648Z-verdict",),
        (H200 / "container", "--baseline", H200 / "plans"),
        (H200 / "container", "--baseline"),
        (H200 / "container", "--baseline", H200 / "container", "--tolerance", "0"),
        (H200 / "container", "--baseline", H200 / "container", "--tolerance", "nan"),
    ],
)
def test_what_cannot_be_understood_is_usage(
    arguments: tuple[object, ...], typed: Callable[..., tuple[int, str, str]]
) -> None:
    status, out, err = typed(*arguments)
    assert (status, out) == (2, "") and err.startswith("error: ")


def test_a_cut_journal_is_named_and_costs_its_session(
    tmp_path: Path, typed: Callable[..., tuple[int, str, str]]
) -> None:
    import shutil

    shutil.copytree(H200 / "container", tmp_path / "base")
    journal = next((tmp_path / "base" / "native" / "1").glob("*/journal.jsonl"))
    journal.write_bytes(b"\x00" + journal.read_bytes()[1:])
    status, out, err = typed(
        tmp_path / "base" / "cube" / "4", "--baseline", tmp_path / "base", "--json"
    )
    assert status == 0 and "not read" in err
    assert json.loads(out)["graded"][0]["base_sessions"] == 4


def test_no_name_can_speak_to_a_terminal_or_to_markdown(report: Report) -> None:
    hostile = "\x1b[31m|<script>`@everyone"
    named = [
        each.model_copy(
            update={"arms": tuple(arm.model_copy(update={"model": hostile}) for arm in each.arms)}
        )
        for each in (another(report, "head"), *sessions(report, *STEADY))
    ]
    found = gate_sessions(named[:1], named[1:], NAMES, TOLERANCE)
    assert "\x1b" not in as_text(found)
    written = as_markdown(found)
    assert "\x1b" not in written and "<script>" not in written.replace("\\<script\\>", "")
    assert all(
        line.count("|") - line.count("\\|") == 6
        for line in written.splitlines()
        if line.startswith("|")
    )


# The statistics


def group(logs: list[float], name: str) -> Group:
    found = tuple(Session(f"{name}{n}", 0, "board", (log,)) for n, log in enumerate(logs))
    kind = Kind("m", "NF4", "eager", "w")
    return Group(kind, 1.0, Workload(), {}, found, frozenset({2.0}), 0.95, frozenset())


def test_a_further_session_lies_within_the_interval_as_often_as_it_says() -> None:
    draw, held, trials = random.Random(7), 0, 3000
    for _ in range(trials):
        base = group([draw.gauss(0.1, 0.05) for _ in range(3)], "b")
        found = difference(group([draw.gauss(0.1, 0.05)], "h"), base, 0.95).interval_pct
        assert present(found)
        held += found.low <= 0 <= found.high
    assert abs(held / trials - 0.95) < 4 * math.sqrt(0.95 * 0.05 / trials)


@given(
    st.lists(st.floats(-1, 1), min_size=3, max_size=8),
    st.floats(-1, 1),
    st.floats(-0.5, 0.5),
)
def test_what_moves_all_sessions_moves_no_grade(
    base: list[float], head: float, shift: float
) -> None:
    one = difference(group([head], "h"), group(base, "b"), 0.95)
    moved = difference(group([head + shift], "h"), group([x + shift for x in base], "b"), 0.95)
    assert present(one.interval_pct) and present(moved.interval_pct)
    assert moved.interval_pct.low == pytest.approx(one.interval_pct.low, rel=1e-6, abs=1e-6)
    assert moved.interval_pct.high == pytest.approx(one.interval_pct.high, rel=1e-6, abs=1e-6)
