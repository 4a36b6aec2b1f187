"""Many journals in one report: pooled where they agree, apart with the key, one a run id."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ecocompute_cube.errors import UsageError
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal
from ecocompute_cube.model.merged import SizeCurve
from ecocompute_cube.model.report import Report, ReportFile
from ecocompute_cube.report.charts.energy import energy_chart
from ecocompute_cube.report.merged import merged, published_curves
from ecocompute_cube.report.merged_text import merged_text, pooled_words
from ecocompute_cube.report.shown import shown_arms
from ecocompute_cube.report.together import TOGETHER, together_rows
from ecocompute_cube.report.write import read_results, write_report
from ecocompute_cube.units import signed

from ..model.facts import write_journal
from .stage import measured, quick, scene

H200: Final = Path(__file__).parents[2] / "data" / "h200"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one plan."""
    set_up = scene(tmp_path_factory.mktemp("twice"))
    measured(set_up, quick())
    measured(set_up, quick())
    return set_up.output


def reports(results: Path) -> tuple[Report, ...]:
    return read_results(results).reports


def with_cpu(report: Report, cpu: str) -> Report:
    (session,) = report.sessions
    changed = session.model_copy(update={"host": session.host.model_copy(update={"cpu": cpu})})
    return report.model_copy(update={"sessions": (changed,)})


# Pooled and apart


def test_two_runs_that_agree_give_one_interval_over_sessions(results: Path) -> None:
    found = read_results(results)
    (one,) = found.together.pooled
    assert (one.unit, one.n, one.boards) == ("sessions", 2, 1)
    assert [member.run_id for member in one.members] == [each.run_id for each in found.reports]
    assert [member.blocks for member in one.members] == [3, 3]
    changes = [arm.vs_baseline for each in found.reports for arm in each.arms[1:]]
    singly = [each.change_pct for each in changes if present(each) and present(each.change_pct)]
    assert [member.change_pct for member in one.members] == pytest.approx(singly)
    assert min(singly) <= one.change_pct <= max(singly)
    assert present(one.interval_pct) and one.interval_pct.n == 2
    assert one.threshold_pct == 2.0
    assert found.together.kept_apart == ()


def test_the_key_that_differs_is_named_with_both_its_values(results: Path) -> None:
    first, second = reports(results)
    found = merged([first, with_cpu(second, "Another CPU")])
    assert found.pooled == ()
    (apart,) = found.kept_apart
    (key,) = apart.differs
    assert key.key == "cpu" and "Another CPU" in (key.here, key.there)
    assert {*apart.runs, *apart.others} == {first.run_id, second.run_id}
    told = merged_text(found)
    assert "several runs, kept apart:" in told and "cpu " in told and "Another CPU" in told


def test_thresholds_that_differ_leave_the_verdict_open(results: Path) -> None:
    first, second = reports(results)
    arms = tuple(
        arm.model_copy(
            update={"vs_baseline": arm.vs_baseline.model_copy(update={"threshold_pct": 5.0})}
        )
        if present(arm.vs_baseline)
        else arm
        for arm in second.arms
    )
    (one,) = merged([first, second.model_copy(update={"arms": arms})]).pooled
    assert one.verdict == "inconclusive" and isinstance(one.threshold_pct, Absent)
    assert present(one.interval_pct)


def test_the_energy_of_runs_together_lies_between_theirs_and_has_an_interval(
    results: Path,
) -> None:
    found = read_results(results)
    (one,) = found.together.pooled
    energies = [arm.energy for each in found.reports for arm in each.arms[1:]]
    singly = [each.mj_per_token for each in energies if present(each)]
    assert len(singly) == 2 and present(one.mj_per_token)
    assert min(singly) <= one.mj_per_token <= max(singly)
    assert present(one.interval_mj)
    assert (one.interval_mj.n, one.interval_mj.unit) == (2, "sessions")
    assert one.interval_mj.low <= one.mj_per_token <= one.interval_mj.high
    (row,) = together_rows([one])
    assert len(row) == len(TOGETHER) and row[9] == "measured, 2 sessions of 2 runs on 1 board"


def test_a_session_that_tells_no_energy_leaves_none_to_show(results: Path) -> None:
    first, second = reports(results)
    early = tuple(
        arm.model_copy(update={"by_session": Absent(reason="early")}) for arm in second.arms
    )
    (one,) = merged([first, second.model_copy(update={"arms": early})]).pooled
    assert isinstance(one.mj_per_token, Absent) and isinstance(one.interval_mj, Absent)
    (row,) = together_rows([one])
    assert row[2:5] == ("–", "–", "–")


def test_one_run_is_neither_pooled_nor_apart(results: Path) -> None:
    found = merged(reports(results)[:1])
    assert found[:2] == ((), ())
    (curve,) = found.crossovers
    assert curve.crossover.says == "too few sizes: 1, and a curve takes 3"
    assert merged_text(found) == ""


def test_the_document_says_what_runs_say_together(results: Path, tmp_path: Path) -> None:
    written = write_report(results, tmp_path, lambda _: None)
    document = ReportFile.model_validate_json((tmp_path / "report.json").read_bytes())
    assert present(document.pooled) and present(document.crossovers)
    (one,), (kept,) = document.pooled, written.together.pooled
    assert one.members[0].run_id == kept.members[0].run_id
    assert one.change_pct == pytest.approx(kept.change_pct, rel=1e-8)
    assert present(document.kept_apart) and document.kept_apart == ()


def test_an_early_document_is_read_and_says_nothing_of_it(results: Path) -> None:
    early = ReportFile(format="ecocompute-report-file/1", runs=reports(results), unreadable=())
    data = early.model_dump(mode="json", exclude={"pooled", "kept_apart", "crossovers"})
    read = ReportFile.model_validate(data, strict=False)
    assert isinstance(read.pooled, Absent) and isinstance(read.crossovers, Absent)


# Over size


def sized(report: Report, sizes: list[tuple[float, float]]) -> list[Report]:
    """The run as if of other models: size and log ratio."""
    found = []
    for size, change in sizes:
        fp16, nf4 = report.arms
        assert present(nf4.by_session)
        session = nf4.by_session[0].model_copy(
            update={"pairs_pct": (change, change + 1, change - 1)}
        )
        name = {"model": f"m{size}", "params_b": size}
        arms = (
            fp16.model_copy(update=name),
            nf4.model_copy(update={**name, "by_session": (session,)}),
        )
        found.append(report.model_copy(update={"arms": arms, "run_id": f"run-{size}"}))
    return found


def test_runs_of_several_sizes_make_one_curve_that_crosses(results: Path) -> None:
    first, _ = reports(results)
    sizes = [(0.5, 40.0), (1.5, 20.0), (3.0, 10.0), (7.0, -20.0)]
    found = merged(sized(first, sizes))
    (curve,) = found.crossovers
    assert curve.crossover.status == "crosses" and len(curve.runs) == 4
    assert present(curve.crossover.size_b) and 3.0 < curve.crossover.size_b < 7.0
    assert "model_sha256" not in curve.keys and curve.keys["board"] == "Scripted board"
    assert f"{curve.crossover.size_b:.3g}B" in merged_text(found)
    assert merged(reversed(sized(first, sizes))) == found


def test_sizes_of_other_stacks_make_curves_of_their_own(results: Path) -> None:
    first, _ = reports(results)
    runs = sized(first, [(0.5, 40.0), (1.5, 20.0), (3.0, 10.0), (7.0, -20.0)])
    found = merged([*runs[:3], with_cpu(runs[3], "Another CPU")])
    assert sorted(len(curve.crossover.points) for curve in found.crossovers) == [1, 3]
    assert found.kept_apart == ()  # no arm was measured twice


def test_published_sessions_have_curves_beside_ours() -> None:
    curves = {_named(curve): curve.crossover for curve in published_curves()}
    both = curves["NVIDIA GeForce RTX 5090", "NF4", "2.14.0"]
    assert both.status == "crosses" and both.unit == "sessions"
    assert {curve.weights for curve in published_curves()} == {("original",)}


def _named(curve: SizeCurve) -> tuple[str, str, str]:
    return curve.keys["board"], curve.precision, curve.keys.get("torch", "")


# Recorded on a board


def test_recorded_runs_natively_and_in_the_container_are_pooled() -> None:
    (one,) = read_results(H200 / "container").together.pooled
    assert (one.n, one.unit, one.verdict) == (6, "sessions", "higher")


def test_what_runs_say_together_stands_first_on_the_page_and_in_the_summary(
    results: Path, tmp_path: Path
) -> None:
    written = write_report(results, tmp_path, lambda _: None)
    (one,) = written.together.pooled
    (sentence,) = pooled_words(written.together.pooled)
    assert present(one.interval_pct)
    low, high = one.interval_pct.low, one.interval_pct.high
    assert f"{signed(one.change_pct)} %, 95% interval {signed(low)} to {signed(high)} %" in sentence
    assert "n = 2 sessions on 1 board" in sentence
    page, summary = ((tmp_path / name).read_text() for name in ("report.html", "summary.md"))
    assert page.index(sentence) < page.index("Does quantizing")
    assert summary.index(sentence) < summary.index("Does quantizing")


def test_bars_are_filled_where_runs_that_agree_make_two_sessions(results: Path) -> None:
    found = read_results(results)
    arms = shown_arms(found.reports, found.together.pooled)
    assert {each.replicates for each in arms} == {2}  # the arm, and what it is held against
    assert all("together with other runs 2 sessions" in each.basis for each in arms)
    chart = energy_chart(arms)
    assert chart is not None
    assert all(bar["replicated"] for bar in chart.spec["data"]["values"])  # type: ignore[index]  # a dict
    alone = shown_arms(found.reports)
    assert {each.replicates for each in alone} == {1}


def test_recorded_runs_by_other_windows_are_kept_apart_and_alike_ones_taken_together() -> None:
    found = read_results(H200 / "runs").together
    (one,) = found.pooled
    assert (one.arm.precision, one.arm.runtime, one.n, one.unit) == ("NF4", "graph", 2, "sessions")
    assert {key.key for apart in found.kept_apart for key in apart.differs} == {"window"}


# One journal a run id


def test_copies_of_a_journal_and_of_its_beginning_count_once(results: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(results, tmp_path / "results")
    first = sorted(folder.glob("*/"))[0]
    shutil.copytree(first, folder / "copy")
    cut = shutil.copytree(first, folder / "begun") / JOURNAL_NAME
    cut.write_bytes(b"".join(cut.read_bytes().splitlines(keepends=True)[:-4]) + b'{"seq"')
    found = read_results(folder)
    assert found.reports == reports(results)
    assert found.together == read_results(results).together
    told = f"a copy of run {first.name} or of its beginning"
    assert sorted(found.unreadable) == [f"begun: {told}", f"{_other(found.unreadable)}: {told}"]


def _other(unreadable: tuple[str, ...]) -> str:
    (name,) = {line.partition(":")[0] for line in unreadable} - {"begun"}
    return name


def test_journals_that_claim_one_run_and_differ_are_named_and_not_heard(
    results: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(results, tmp_path / "results")
    first, second = sorted(folder.glob("*/"))
    forged = shutil.copytree(first, folder / "forged") / JOURNAL_NAME
    facts = read_journal(forged).records
    forged.unlink()
    write_journal(forged, facts[:-2])  # other times, another chain
    found = read_results(folder)
    assert [report.run_id for report in found.reports] == [second.name]
    told = f"another journal also claims to be run {first.name}"
    assert sorted(found.unreadable) == sorted([f"{first.name}: {told}", f"forged: {told}"])


def test_nothing_but_disputed_journals_is_nothing_to_report(results: Path, tmp_path: Path) -> None:
    first = sorted(results.glob("*/"))[0]
    shutil.copytree(first, tmp_path / "a")
    forged = shutil.copytree(first, tmp_path / "b") / JOURNAL_NAME
    facts = read_journal(forged).records
    forged.unlink()
    write_journal(forged, facts)
    with pytest.raises(UsageError, match="another journal also claims"):
        read_results(tmp_path)


# Cut anywhere


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_journal_cut_at_any_byte_is_reported_or_named_and_its_neighbour_stays(
    data: st.DataObject, results: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = shutil.copytree(results, tmp_path_factory.mktemp("cut") / "results")
    second = sorted(folder.glob("*/"))[1]
    journal = second / JOURNAL_NAME
    whole = journal.read_bytes()
    cut = data.draw(st.integers(0, len(whole)), label="bytes kept")
    journal.write_bytes(whole[:cut])
    found = read_results(folder)
    assert found.reports[0] == reports(results)[0]
    if whole[:cut].count(b"\n") == 0:
        assert len(found.reports) == 1 and found.unreadable[0].startswith(f"{second.name}: ")
    else:
        torn = cut - (whole[:cut].rfind(b"\n") + 1)
        assert found.reports[1].evidence.torn_bytes == torn and found.unreadable == ()
    write_report(folder, folder.parent / "report", lambda _: None)
