"""Which measurements may be taken together, and what keeps the others apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ecocompute_cube.analysis.pooling import Group, apart, groups, nearest, published_groups
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.published import published
from ecocompute_cube.model.report import Report
from ecocompute_cube.report.write import read_results

from ..report.stage import measured, quick, scene


@dataclass(frozen=True)
class Twice:
    """Two runs of one plan on one machine."""

    first: Report
    second: Report


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Twice:
    set_up = scene(tmp_path_factory.mktemp("twice"))
    measured(set_up, quick())
    measured(set_up, quick())
    return Twice(*read_results(set_up.output).reports)


def on(report: Report, **changes: object) -> Report:
    """The run with other words about its session: ``packages``, ``python``, ``board.name``, …"""
    (session,) = report.sessions
    for place, value in changes.items():
        name, _, inner = place.partition("__")
        block = getattr(session, name)
        changed = block.model_copy(update={inner: value}) if inner else value
        session = session.model_copy(update={name: changed})
    return report.model_copy(update={"sessions": (session,)})


def planned(report: Report, **changes: object) -> Report:
    protocol = report.plan.protocol.model_copy(update=changes)
    plan = report.plan.model_copy(update={"protocol": protocol})
    return report.model_copy(update={"plan": plan})


def an_arm(report: Report, **changes: object) -> Report:
    arms = tuple(arm.model_copy(update=changes) for arm in report.arms)
    return report.model_copy(update={"arms": arms})


def test_runs_that_agree_are_one_group_of_two_sessions(twice: Twice) -> None:
    (group,) = groups([twice.first, twice.second])
    assert group.kind.precision == "NF4"
    assert group.runs == (twice.first.run_id, twice.second.run_id)
    assert len(group.by_block) == 6 and {s for s, _ in group.by_block} == {0, 1}
    assert groups([twice.second, twice.first]) == (group,)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("board", {"board__name": "Another board"}),
        ("memory_mib", {"board__memory_mib": 1}),
        ("driver", {"board__driver": "1.2.3"}),
        ("power_limit_w", {"board__power_limit_w": 450.0}),
        ("cpu", {"host__cpu": "Another CPU"}),
        ("python", {"python": "3.99"}),
        ("torch", {"packages": {"torch": "9"}}),
        ("bitsandbytes", {"packages": {"bitsandbytes": "9"}}),
        ("resident", {"resident": None}),
    ],
)
def test_a_key_of_the_stack_that_differs_keeps_runs_apart(
    key: str, changes: dict[str, Any], twice: Twice
) -> None:
    (session,) = twice.second.sessions
    if key == "resident":
        changes = {"resident": not session.resident}
    if "packages" in changes:
        changes = {"packages": {**session.packages, **changes["packages"]}}
    assert_apart(twice.first, on(twice.second, **changes), key)


def test_a_key_of_the_protocol_that_differs_keeps_runs_apart(twice: Twice) -> None:
    assert_apart(twice.first, planned(twice.second, iterations=2), "window")
    assert_apart(twice.first, planned(twice.second, cooldown_s=5.0), "thermal")


def test_other_weights_by_the_same_name_are_apart(twice: Twice) -> None:
    assert_apart(twice.first, an_arm(twice.second, model_sha256="1" * 64), "model_sha256")
    assert_apart(twice.first, an_arm(twice.second, weights="original"), "weights")


def assert_apart(first: Report, second: Report, key: str) -> None:
    found = groups([first, second])
    assert len(found) == 2
    assert [each.key for each in apart(*found)] == [key]


@pytest.mark.parametrize(
    "changes",
    [
        {"board__uuid_sha256": "1" * 64},
        {"packages": {"torchao": "9", "numpy": "9", "nvidia-ml-py": "9"}},
    ],
    ids=["another board of the kind", "packages that the arm does not run"],
)
def test_what_the_arm_does_not_depend_on_keeps_nothing_apart(
    changes: dict[str, Any], twice: Twice
) -> None:
    (session,) = twice.second.sessions
    if "packages" in changes:
        changes = {"packages": {**session.packages, **changes["packages"]}}
    assert len(groups([twice.first, on(twice.second, **changes)])) == 1


def test_a_run_without_fp16_has_nothing_to_pool(twice: Twice) -> None:
    nothing = Absent(reason="none")
    assert groups([an_arm(twice.first, vs_baseline=nothing)]) == ()


def test_an_early_report_without_sessions_of_its_arms_is_one_session(twice: Twice) -> None:
    early = an_arm(twice.first, by_session=Absent(reason="early"))
    (group,), (known,) = groups([early]), groups([twice.first])
    unsaid = [each._replace(mj=None) for each in known.sessions]
    assert group == known._replace(sessions=tuple(unsaid))


def test_the_nearest_is_the_one_that_fewest_keys_keep_apart_and_that_tells_most(
    twice: Twice,
) -> None:
    far = on(twice.second, python="3.99", board__driver="1.2.3")
    near = on(twice.second, python="3.99")
    untold = on(twice.second, host__cpu=Absent(reason="unknown"))
    (here,) = groups([twice.first])
    (a,), (b,), (c,) = groups([far]), groups([near]), groups([untold])
    assert nearest(here, [a, b]) is b
    assert nearest(here, [c, b, a]) is nearest(here, [b, c, a]) is b
    (only,) = apart(here, c)
    assert only.key == "cpu" and only.here and only.there is None


# Published


def of(board: str, precision: str) -> list[Group]:
    return [
        group
        for group in published_groups(published())
        if group.keys["board"].endswith(board) and group.kind.precision == precision
    ]


def test_published_sessions_of_one_stack_are_together_and_replicates_in_theirs() -> None:
    (group,) = [each for each in of("5090", "NF4") if each.params_b == 0.5]
    assert [len(session.logs) for session in group.sessions] == [1, 1]
    repeats = [each for each in of("4090", "INT8") if "rtx4090-2026-08-20" in each.runs]
    assert {len(s.logs) for each in repeats for s in each.sessions if "08-20" in s.run_id} == {3}


def test_published_rows_that_measured_something_else_are_left_out() -> None:
    left = {run for group in published_groups(published()) for run in group.runs}
    assert not [run for run in left if "smoke" in run or "llamacpp" in run or "a800" in run]
    short = [row for row in published() if not present(row.output_tokens)]
    assert short and all("lengths_differ" in row.remarks for row in short)
