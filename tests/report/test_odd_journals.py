"""A journal whose chain holds may still be odd: facts missing, repeated, out of order, empty."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.journal import Fact, WindowMeasured
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal
from ecocompute_cube.model.readings import Span
from ecocompute_cube.report.text import as_text
from ecocompute_cube.report.write import read_results, write_energy

from ..model.facts import write_journal
from .stage import measured, quick, scene

GONE = Absent(reason="gone")
ODD: tuple[dict[str, object], ...] = (
    {"ledger": ()},
    {"counter": GONE},
    {"before": GONE, "after": GONE},
    {"iterations": 7},
    {"arm": "nobody"},
    {"work": Span(start_ns=5, end_ns=5)},
    {"work": Span(start_ns=9, end_ns=5)},
)


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fact, ...]:
    run = measured(scene(tmp_path_factory.mktemp("calm")), quick())
    return read_journal(run / JOURNAL_NAME).records


def odd(data: st.DataObject, facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """The run and its session, and then anything."""
    changed = list(facts[2:])
    for _ in range(data.draw(st.integers(1, 3), label="changes")):
        if not changed:
            break
        place = data.draw(st.integers(0, len(changed) - 1), label="place")
        other = data.draw(st.integers(0, len(changed) - 1), label="other")
        how = data.draw(st.sampled_from(["drop", "twice", "swap", "cut", "odd"]), label="how")
        fact = changed[place]
        if how == "drop":
            del changed[place]
        elif how == "twice":
            changed.insert(place, fact)
        elif how == "swap":
            changed[place], changed[other] = changed[other], fact
        elif how == "cut":
            del changed[place:]
        elif isinstance(fact, WindowMeasured):
            update = data.draw(st.sampled_from(ODD), label="odd")
            changed[place] = fact.model_copy(update=update)
    return (*facts[:2], *changed)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_an_odd_journal_has_a_report_all_the_same(
    data: st.DataObject, facts: tuple[Fact, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = tmp_path_factory.mktemp("odd") / "run"
    run.mkdir()
    write_journal(run / JOURNAL_NAME, odd(data, facts))
    write_energy(run)
    (report,) = read_results(run.parent).reports
    assert as_text(report)
    for arm in report.arms:
        if present(arm.energy):
            assert arm.energy.mj_per_token > 0
            assert arm.energy.bound_mj[0] <= arm.energy.mj_per_token <= arm.energy.bound_mj[1]
            assert len(arm.energy.blocks_mj) == arm.blocks > 0


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("profiled", {"busy_s": -0.5}),
        ("profiled", {"launches": -1}),
        ("quality_skipped", {"reason": ""}),
        ("trace_lost", {"reason": ""}),
    ],
)
def test_what_no_program_of_ours_writes_is_no_fact(kind: str, changed: dict[str, object]) -> None:
    visit = {"arm": "a", "session": 0, "group": 0, "block": 0}
    whole: dict[str, dict[str, object]] = {
        "profiled": {"arm": "a", "session": 0, "tokens": 1, "launches": 1, "busy_s": 0.5},
        "quality_skipped": {"arm": "a", "session": 0, "reason": "why"},
        "trace_lost": {**visit, "reason": "why"},
    }
    fact = TypeAdapter[Fact](Fact)
    assert fact.validate_python({"kind": kind, **whole[kind]}).kind == kind
    with pytest.raises(ValidationError):
        fact.validate_python({"kind": kind, **whole[kind], **changed})


@pytest.mark.parametrize("update", [change for change in ODD if "arm" not in change])
def test_an_odd_window_never_becomes_a_number(
    update: dict[str, object], facts: tuple[Fact, ...], tmp_path: Path
) -> None:
    """Without traces beside it a window without its counter has no energy either."""
    changed = tuple(
        fact.model_copy(update=update)
        if isinstance(fact, WindowMeasured) and "_NF4_" in fact.arm
        else fact
        for fact in facts
    )
    write_journal(tmp_path / JOURNAL_NAME, changed)
    report = write_energy(tmp_path)
    fp16, nf4 = report.arms
    assert present(fp16.energy)
    if "before" in update:  # nobody looked: a note, and the number stays
        assert present(nf4.energy)
        assert "neighbours_unknown" in {finding.code for finding in report.findings}
    else:
        assert isinstance(nf4.energy, Absent)
        assert nf4.energy.reason
        assert isinstance(nf4.vs_baseline, Absent) or nf4.vs_baseline.verdict == "invalid"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("a link to nothing", "No such file"),
        ("a link to a device", "not a regular file"),
        ("a pipe", "not a regular file"),
        ("a folder", "not a regular file"),
    ],
)
def test_what_is_no_file_is_named_and_not_waited_for(
    facts: tuple[Fact, ...], tmp_path: Path, kind: str, words: str
) -> None:
    (tmp_path / "good").mkdir()
    write_journal(tmp_path / "good" / JOURNAL_NAME, facts)
    odd_one = tmp_path / "odd" / JOURNAL_NAME
    odd_one.parent.mkdir()
    if kind == "a pipe":
        os.mkfifo(odd_one)
    elif kind == "a folder":
        odd_one.mkdir()
    else:
        odd_one.symlink_to("/dev/zero" if "device" in kind else "nowhere")
    found = read_results(tmp_path)
    (told,) = found.unreadable
    assert told.startswith("odd: ") and words in told
    assert len(found.reports) == 1
