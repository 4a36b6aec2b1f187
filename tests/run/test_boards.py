"""A model split over two boards: the real runner on two scripted boards whose truth is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ecocompute_cube.errors import BoardLost, JournalBroken, MixedBoards
from ecocompute_cube.model.base import canonical_json, present, sha256_hex
from ecocompute_cube.model.energy import BoardEnergy, EnergyReport, ResultsMeasured
from ecocompute_cube.model.journal import (
    GENESIS,
    BlockClosed,
    Refused,
    SessionOpened,
    TraceStored,
    Warmed,
    WindowMeasured,
)
from ecocompute_cube.model.journal_file import JOURNAL_NAME
from ecocompute_cube.model.report import Report
from ecocompute_cube.report.csv import as_csv
from ecocompute_cube.report.energy_json import energy_reports
from ecocompute_cube.report.recompute import recompute
from ecocompute_cube.report.run import read_run
from ecocompute_cube.report.text import as_text
from ecocompute_cube.report.write import write_energy, write_report
from ecocompute_cube.validate import validate_paths

from .rig import COSTS, IDLE_W, plan
from .two_boards import SECOND, SHARE, TwoBoards

QUICK = {"min_passes": 1, "max_passes": 1, "output_tokens": 2}
PROTOCOL = {"mode": "precise", "iterations": 2, "blocks": 2, "warmup": QUICK}
ASKED = plan(arms=["FP16", "NF4"], workloads=[{"output_tokens": 50}], protocol=PROTOCOL, boards=2)


def written(run: Path) -> tuple[Report, dict[str, EnergyReport]]:
    report = write_energy(run)
    documents = energy_reports(read_run(run), report).values()
    return report, {document.workload.precision: document for document in documents}


def results(document: EnergyReport) -> ResultsMeasured:
    assert isinstance(document.results, ResultsMeasured), document.results
    return document.results


def parts(document: EnergyReport) -> tuple[BoardEnergy, ...]:
    boards = results(document).boards
    assert present(boards)
    return boards


def causes(report: Report, code: str) -> list[str]:
    return [finding.cause for finding in report.findings if finding.code == code]


# What is measured


def test_energy_is_the_sum_of_the_boards_and_each_is_shown_with_its_bound(tmp_path: Path) -> None:
    _, documents = written(TwoBoards(tmp_path).measure(ASKED))
    for precision in ("FP16", "NF4"):
        found = results(documents[precision])
        token_s, power_w = COSTS[precision]
        true_mj = 1e3 * token_s * power_w * (1 + SHARE)
        low, high = found.reading_bound_mj
        assert low <= true_mj <= high
        assert found.energy_per_token_mj == pytest.approx(true_mj, rel=0.02)
        first, second = parts(documents[precision])
        assert first.energy_joules + second.energy_joules == pytest.approx(
            found.total_energy_joules
        )
        for place, ends in enumerate(
            zip(first.reading_bound_joules, second.reading_bound_joules, strict=True)
        ):
            assert sum(ends) == pytest.approx(
                found.reading_bound_mj[place] * found.tokens_generated / 1e3
            )
        assert first.avg_power_watts == pytest.approx(power_w, rel=0.02)
        assert second.avg_power_watts == pytest.approx(SHARE * power_w, rel=0.02)


def test_every_board_is_named_in_the_session_and_the_documents(tmp_path: Path) -> None:
    scene = TwoBoards(tmp_path)
    run = scene.measure(ASKED)
    report, documents = written(run)
    hashes = [scene.board.board().uuid_sha256, scene.second.board().uuid_sha256]
    (session,) = (f for f in read_run(run).journal.records if isinstance(f, SessionOpened))
    assert [board.uuid_sha256 for board in session.boards] == hashes
    document = documents["NF4"]
    assert document.system_under_test.accelerator_count == 2
    assert document.system_under_test.boards_sha256 == tuple(sorted(hashes))
    assert [board.board_sha256 for board in parts(document)] == hashes
    assert "2 x Scripted board" in as_text(report)
    assert "2 x Scripted board" in as_csv([report])
    write_report(scene.output, tmp_path / "pages", scene.lines.append)
    assert "2 x Scripted board" in (tmp_path / "pages" / "report.html").read_text()


def test_the_share_of_the_weights_on_each_board_is_told(tmp_path: Path) -> None:
    _, documents = written(TwoBoards(tmp_path).measure(ASKED))
    certificate = documents["FP16"].certificate
    assert present(certificate)
    assert certificate.device_bytes == {"scripted:0": 1000, "scripted:1": 1000}
    assert [board.weight_bytes for board in parts(documents["FP16"])] == [1000, 1000]


def test_the_trace_of_each_board_is_kept_and_their_integrals_stand_beside_the_sum(
    tmp_path: Path,
) -> None:
    run = TwoBoards(tmp_path).measure(ASKED)
    stored = [f for f in read_run(run).journal.records if isinstance(f, TraceStored)]
    assert [trace.board for trace in stored] == [0, 1] * 4
    assert {path.name for path in (run / "traces").iterdir()} == {
        Path(trace.file).name for trace in stored
    }
    _, documents = written(run)
    check = documents["FP16"].measurement.cross_check
    assert present(check) and abs(check.difference_pct) < 3
    trace = documents["FP16"].power_trace
    assert present(trace)
    assert [file.board for file in trace.files] == [0, 1, 0, 1]


def test_idle_power_and_net_energy_are_those_of_both_boards(tmp_path: Path) -> None:
    run = TwoBoards(tmp_path).measure(ASKED)
    _, documents = written(run)
    found = results(documents["FP16"])
    assert present(found.idle_power)
    assert found.idle_power.before_w == pytest.approx(2 * IDLE_W, rel=0.01)
    token_s, power_w = COSTS["FP16"]
    assert found.net_energy_per_token_mj == pytest.approx(
        1e3 * token_s * (power_w * (1 + SHARE) - 2 * IDLE_W), rel=0.05
    )


# What a sceptic can check


def test_the_journal_gives_the_documents_again(tmp_path: Path) -> None:
    run = TwoBoards(tmp_path).measure(ASKED)
    write_energy(run)
    checked = validate_paths([run], recompute=recompute)
    assert len(checked) == 2
    for each in checked:
        assert not each.findings and not each.schema_errors
        assert any("split over 2 boards" in note.text for note in each.notes)


def test_a_sum_that_the_journal_does_not_give_is_found(tmp_path: Path) -> None:
    run = TwoBoards(tmp_path).measure(ASKED)
    write_energy(run)
    path = next(run.glob("arms/*FP16*/energy.json"))
    document = json.loads(path.read_text())
    document["results"]["boards"][1]["energy_joules"] *= 0.5
    path.write_text(json.dumps(document))
    (checked,) = validate_paths([path], recompute=recompute)
    assert any("results.boards.1.energy_joules" in finding.cause for finding in checked.findings)


@pytest.mark.parametrize(("kind", "field"), [("window", "others"), ("warmed", "others_idle")])
def test_a_journal_without_a_boards_readings_is_broken(
    tmp_path: Path, kind: str, field: str
) -> None:
    run = TwoBoards(tmp_path).measure(ASKED)
    journal = run / JOURNAL_NAME
    head, lines = GENESIS, []
    for line in map(json.loads, journal.read_text().splitlines()):
        if line["record"]["kind"] == kind:
            del line["record"][field]
        raw = canonical_json({**line, "prev": head})
        head = sha256_hex(raw.encode())
        lines.append(raw + "\n")
    journal.write_text("".join(lines))
    with pytest.raises(JournalBroken, match="fewer boards than its session"):
        read_run(run)


# What goes wrong on one board


def test_a_counter_that_stands_still_on_one_board_invalidates_the_windows(tmp_path: Path) -> None:
    report, documents = written(
        TwoBoards(tmp_path, SECOND._replace(stuck_after_s=5.0)).measure(ASKED)
    )
    assert documents["FP16"].results.basis == "unavailable"
    (cause,) = {c.split(" (")[0] for c in causes(report, "counter_stuck")}
    assert cause.startswith("Board 2 of 2: ")


def test_a_foreign_process_on_the_second_board_is_somebody_elses_energy(tmp_path: Path) -> None:
    report, documents = written(TwoBoards(tmp_path, SECOND._replace(foreign=1)).measure(ASKED))
    assert documents["FP16"].results.basis == "unavailable"
    assert causes(report, "foreign_process")[0].startswith("Board 2 of 2: ")


def test_a_board_that_slows_down_lowers_the_tier(tmp_path: Path) -> None:
    second = SECOND._replace(reasons=("hw_thermal",))
    report, documents = written(TwoBoards(tmp_path, second).measure(ASKED))
    assert causes(report, "slowed_down")[0].startswith("Board 2 of 2: ")
    assert documents["FP16"].environment.event_reasons == ("hw_thermal",)


def test_a_board_that_goes_away_costs_its_block(tmp_path: Path) -> None:
    calm = TwoBoards(tmp_path / "calm")
    began = calm.clock.now_ns()
    facts = read_run(calm.measure(ASKED)).journal.records
    work = [fact.work for fact in facts if isinstance(fact, WindowMeasured)][2]
    at_s = (work.start_ns - began) / 1e9
    scene = TwoBoards(tmp_path, SECOND._replace(silent_s=(at_s, at_s + 4)))
    run = scene.measure(ASKED)
    closed = [f.complete for f in read_run(run).journal.records if isinstance(f, BlockClosed)]
    assert closed == [True, False, True]
    report, _ = written(run)
    assert [arm.blocks for arm in report.arms] == [2, 2]


def test_a_board_that_stays_away_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(BoardLost, match="energy counter"):
        TwoBoards(tmp_path, SECOND._replace(silent_s=(20.0, 1e9))).measure(ASKED)


def test_the_hottest_board_decides_whether_warm_up_has_settled(tmp_path: Path) -> None:
    run = TwoBoards(tmp_path, SECOND._replace(temperature_c=71.0)).measure(ASKED)
    warmed = [f for f in read_run(run).journal.records if isinstance(f, Warmed)]
    assert {c for fact in warmed for c in fact.temperatures_c} == {71.0}
    _, documents = written(run)
    assert documents["FP16"].thermal.temperature_peak_c == 71.0
    assert documents["FP16"].thermal.temperature_start_c == 40.0  # of the first board


# What is refused


@pytest.mark.parametrize("other", [{"limit_w": 350.0}, {"memory_mib": 81_559}])
def test_boards_of_two_kinds_are_refused_and_nothing_is_written(
    tmp_path: Path, other: dict[str, object]
) -> None:
    scene = TwoBoards(tmp_path, SECOND._replace(**other))  # type: ignore[arg-type]
    with pytest.raises(MixedBoards, match="not of one kind") as refused:
        scene.measure(ASKED)
    assert refused.value.exit_status == 3
    assert not list(scene.output.glob("*/journal.jsonl"))


def test_what_does_not_fit_over_the_boards_is_refused_with_what_is_needed_and_there(
    tmp_path: Path,
) -> None:
    scene = TwoBoards(tmp_path, SECOND._replace(memory_mib=1000), memory_mib=1000, used_mib=512)
    run = scene.measure(ASKED)
    refused = [f for f in read_run(run).journal.records if isinstance(f, Refused)]
    assert {(f.reason, f.stage) for f in refused} == {("boards_too_small", "load")}
    (told,) = (f.cause for f in refused if "FP16" in f.arm)
    assert told == (
        "FP16 needs at least 1.6 GiB (weights 0.3, cache 0.0, the rest for CUDA); 2 boards have "
        "1.5 GiB available."
    )
    report, _ = written(run)
    assert causes(report, "boards_too_small")


def test_another_second_board_is_another_session(tmp_path: Path) -> None:
    asked = ASKED.model_copy(update={"protocol": ASKED.protocol.model_copy(update={"sessions": 2})})
    run = TwoBoards(tmp_path).measure(asked)
    assert TwoBoards(tmp_path, SECOND._replace(name="third")).measure(asked) == run
    sessions = [f for f in read_run(run).journal.records if isinstance(f, SessionOpened)]
    assert [session.session for session in sessions] == [0, 1]
    _, documents = written(run)
    assert len(documents["FP16"].system_under_test.boards_sha256) == 3
    assert len(parts(documents["FP16"])) == 3
