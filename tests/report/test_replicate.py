"""``ecocompute compare``: whether another report, or what was published, finds the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from ecocompute_cube.analysis.pooling import groups
from ecocompute_cube.cli import main
from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.replication import Replication
from ecocompute_cube.model.report import ArmReport, Report, ReportFile
from ecocompute_cube.report.replicate import Findings, as_text, compare_reports
from ecocompute_cube.report.write import document_text, read_results, write_report

from .stage import HOSTILE, measured, quick, scene

H200: Final = Path(__file__).parents[2] / "data" / "h200"

Told = tuple[int, str, str]
Typed = Callable[..., Told]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    set_up = scene(tmp_path_factory.mktemp("one"))
    measured(set_up, quick())
    return set_up.output


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    def run(*arguments: object) -> Told:
        status = main(["compare", *map(str, arguments)])
        return (status, *capsys.readouterr())

    return run


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str, Report], Path]:
    """A report.json of one run."""

    def save(name: str, report: Report) -> Path:
        document = ReportFile(format="ecocompute-report-file/1", runs=(report,), unreadable=())
        path = tmp_path / f"{name}.json"
        path.write_text(document_text(document))
        return path

    return save


def shifted(report: Report, factor: float) -> Report:
    """NF4 with its ratio to FP16 times this."""

    def shift(arm: ArmReport) -> ArmReport:
        if not present(arm.by_session) or not present(arm.vs_baseline):
            return arm
        (session,) = arm.by_session
        pairs = tuple(100 * ((1 + each / 100) * factor - 1) for each in session.pairs_pct)
        changed = session.model_copy(update={"pairs_pct": pairs})
        return arm.model_copy(update={"by_session": (changed,)})

    return report.model_copy(update={"arms": tuple(map(shift, report.arms)), "run_id": "shifted"})


def the_run(results: Path) -> Report:
    (report,) = read_results(results).reports
    return report


# Two reports


def test_a_report_agrees_with_itself_from_a_folder_or_a_file(
    results: Path, tmp_path: Path, typed: Typed
) -> None:
    write_report(results, tmp_path, lambda _: None)
    for there in (results, tmp_path, tmp_path / "report.json"):
        status, out, err = typed(results, there)
        assert (status, err) == (0, "")
        assert "  0.0 %" in out and "  same" in out and "differs:" not in out
        assert "is on both sides, and agrees with itself" in out
        assert out.rstrip().endswith(
            "agree in 1 arm, as far as their intervals tell; 1 arm is of the same run on both "
            "sides, which is no second measurement."
        )


def test_a_difference_beyond_the_threshold_is_told_and_ends_with_one(
    results: Path, saved: Callable[[str, Report], Path], typed: Typed
) -> None:
    other = saved("theirs", shifted(the_run(results), 1.1))
    status, out, _ = typed(results, other, "--json")
    found = Replication.model_validate_json(out)
    (one,) = found.compared
    assert status == found.exit_status == 1
    assert one.finding == "different" and one.difference_pct == pytest.approx(100 / 1.1 - 100)
    assert present(one.interval_pct) and one.interval_pct.unit == "blocks"
    assert "sessions can differ by more" in one.says and "itself" not in one.says
    assert one.points == pytest.approx(one.here.change_pct - one.there.change_pct, rel=1e-6)
    assert "Not consistent" in typed(results, other)[1]


def test_what_differs_between_the_stacks_is_named(
    results: Path, saved: Callable[[str, Report], Path], typed: Typed
) -> None:
    report = the_run(results)
    (session,) = report.sessions
    changed = session.model_copy(update={"python": "3.99"})
    other = saved("theirs", report.model_copy(update={"sessions": (changed,)}))
    status, out, _ = typed(results, other)
    assert status == 0
    assert f"differs: python {session.python} | 3.99" in out


def test_an_arm_that_only_one_has_is_named(typed: Typed) -> None:
    runs = H200 / "runs"
    first, second = runs / "20261130T161943Z-embedded-protocol", "20261130T191634Z-weights-matter"
    status, out, _ = typed(first, runs / second)
    assert status == 0 and "INT8 eager b1-p10-o256" in out.partition("only in ")[2]
    assert "differs: window protocol-v1.1 | precise, 20 s" in out


def test_native_and_container_agree_by_their_sessions(typed: Typed) -> None:
    shelf = H200 / "container"
    status, out, _ = typed(shelf / "native", shelf / "cube", "--json")
    (one,) = json.loads(out)["compared"]
    assert status == 0 and one["interval_pct"]["unit"] == "sessions"
    assert one["interval_pct"]["degrees"] == 4 and one["differs"] == []


def test_single_blocks_are_undecided_and_end_with_one(
    results: Path, saved: Callable[[str, Report], Path], typed: Typed
) -> None:
    report = the_run(results)
    arms = []
    for arm in report.arms:
        assert present(arm.by_session)
        (session,) = arm.by_session
        one = session.model_copy(update={"pairs_pct": session.pairs_pct[:1]})
        arms.append(arm.model_copy(update={"by_session": (one,)}))
    single = saved("single", report.model_copy(update={"arms": tuple(arms)}))
    status, out, _ = typed(single, single)
    assert status == 1 and "Undecided" in out and "no spread" in out


# Published


def as_published(report: Report, change_pct: float) -> Report:
    """The run as if of a board and a model that were published."""
    (session,) = report.sessions
    assert present(session.board)
    board = session.board.model_copy(update={"name": "NVIDIA GeForce RTX 5090"})
    workload = report.arms[0].workload.model_copy(update={"output_tokens": 256})
    arms = []
    for arm in report.arms:
        named = arm.model_copy(
            update={"model": "Qwen/Qwen2-7B", "params_b": 7.6, "workload": workload}
        )
        assert present(arm.by_session)
        pairs = (change_pct,) * 3 if arm.by_session[0].pairs_pct else ()
        session_change = arm.by_session[0].model_copy(update={"pairs_pct": pairs})
        arms.append(named.model_copy(update={"by_session": (session_change,)}))
    sessions = (session.model_copy(update={"board": board}),)
    return report.model_copy(update={"arms": tuple(arms), "sessions": sessions})


@pytest.mark.parametrize(("change", "status"), [(-31.8, 0), (-15.0, 1)])
def test_a_report_is_held_against_published_sessions_of_its_board(
    change: float,
    status: int,
    results: Path,
    saved: Callable[[str, Report], Path],
    typed: Typed,
) -> None:
    ours = saved("ours", as_published(the_run(results), change))
    ended, out, _ = typed(ours, "--against", "published", "--json")
    (one,) = json.loads(out)["compared"]
    assert ended == status
    assert one["there"]["runs"] == ["rtx5090-2026-09-20-A", "rtx5090-2026-09-20-B"]
    assert one["there"]["change_pct"] == pytest.approx(-31.8, abs=0.3)
    assert one["interval_pct"]["degrees"] == 1 + 7  # its own two sessions, and all of NF4
    assert {each["key"] for each in one["differs"]} >= {"driver", "transformers"}


def test_a_board_that_nobody_published_is_no_comparison(typed: Typed) -> None:
    status, out, err = typed(H200 / "runs", "--against", "published")
    assert (status, out) == (2, "")
    assert "Nothing was published of NVIDIA H200." in err and "RTX 5090" in err


# What cannot be compared


@pytest.mark.parametrize(
    ("content", "status", "word"),
    [
        ("", 6, "Invalid JSON"),
        ("[]", 6, "the document"),
        ('{"format": "ecocompute-report-file/1"}', 6, "runs"),
        ('{"format": "ecocompute-report-file/1", "runs": NaN}', 6, "runs"),
        ('{"format": "ecocompute-report-file/1", "runs": [], "unreadable": []}', 2, "in common"),
    ],
)
def test_a_document_that_is_no_report_is_an_error(
    content: str, status: int, word: str, results: Path, tmp_path: Path, typed: Typed
) -> None:
    (tmp_path / "odd.json").write_text(content)
    ended, out, err = typed(results, tmp_path / "odd.json")
    assert (ended, out) == (status, "")
    assert word in err and err.startswith("error: ") and err.count("\n") == 2


def test_a_change_that_leaves_no_energy_is_no_report(
    results: Path, saved: Callable[[str, Report], Path], typed: Typed
) -> None:
    file = saved("odd", the_run(results))
    document = json.loads(file.read_text())
    for arm in document["runs"][0]["arms"]:
        for session in arm["by_session"] if isinstance(arm["by_session"], list) else []:
            session["pairs_pct"] = [-100.0 for _ in session["pairs_pct"]]
    file.write_text(json.dumps(document))
    status, out, err = typed(results, file)
    assert (status, out) == (6, "") and "pairs_pct" in err


def test_an_empty_folder_is_the_users_mistake(results: Path, tmp_path: Path, typed: Typed) -> None:
    status, _, err = typed(results, tmp_path)
    assert status == 2 and "holds no readable journal" in err
    assert "Give a report.json" in err and "--results_dir" not in err


def test_a_rehearsal_has_nothing_to_compare(tmp_path: Path, typed: Typed) -> None:
    set_up = scene(tmp_path)
    measured(set_up, quick(), rehearse=True)
    status, _, err = typed(set_up.output, set_up.output)
    assert status == 2 and "no arm in common" in err


def test_a_broken_neighbour_is_named_and_the_others_compared(
    results: Path, tmp_path: Path, typed: Typed
) -> None:
    folder = shutil.copytree(results, tmp_path / "results")
    (folder / "foreign").mkdir()
    (folder / "foreign" / "journal.jsonl").write_text("not ours\n")
    status, _, err = typed(folder, results)
    assert status == 0 and err.startswith("not read: foreign: ")


def test_names_cannot_speak_to_the_terminal(results: Path) -> None:
    report = the_run(results)
    arms = tuple(arm.model_copy(update={"model": HOSTILE}) for arm in report.arms)
    found = Findings(HOSTILE, groups([report.model_copy(update={"arms": arms})]))
    told = as_text(compare_reports(found, found))
    assert {c for c in told if not c.isprintable() and c != "\n"} == set()


def test_absent_keys_are_told_as_such(
    results: Path, saved: Callable[[str, Report], Path], typed: Typed
) -> None:
    report = the_run(results)
    (session,) = report.sessions
    host = session.host.model_copy(update={"cpu": Absent(reason="hidden")})
    changed = session.model_copy(update={"host": host})
    other = saved("theirs", report.model_copy(update={"sessions": (changed,)}))
    assert "| not told" in typed(results, other)[1]
