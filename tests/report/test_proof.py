"""What a page shows beside its numbers: what was loaded, and the blocks as they went."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecocompute_cube.model.base import Absent, present
from ecocompute_cube.model.journal import BlockClosed, BlockOpened, Fact, Refused, WindowMeasured
from ecocompute_cube.model.journal_file import JOURNAL_NAME, read_journal
from ecocompute_cube.model.report import ArmReport, Report
from ecocompute_cube.report.html import as_html
from ecocompute_cube.report.proof import BLOCKS, LOADED, block_rows, loaded_rows
from ecocompute_cube.report.schedule import schedule
from ecocompute_cube.report.write import read_results

RUNS = Path(__file__).parents[2] / "data/h200/runs"
VERDICT = "20261130T221648Z-verdict"


@pytest.fixture(scope="module")
def facts() -> tuple[Fact, ...]:
    return read_journal(RUNS / VERDICT / JOURNAL_NAME).records


@pytest.fixture(scope="module")
def report() -> Report:
    return read_results(RUNS / VERDICT).reports[0]


def test_every_block_that_began_stands_in_the_schedule(facts: tuple[Fact, ...]) -> None:
    opened = [fact for fact in facts if isinstance(fact, BlockOpened)]
    told = schedule(facts)
    assert [(each.session, each.block, each.order) for each in told] == [
        (fact.session, fact.block, fact.order) for fact in opened
    ]
    assert all(each.counts and each.measured == each.order for each in told)


def test_a_block_that_was_cut_short_does_not_count(facts: tuple[Fact, ...]) -> None:
    first_window = next(i for i, fact in enumerate(facts) if isinstance(fact, WindowMeasured))
    (cut,) = schedule(facts[: first_window + 1])
    assert (cut.counts, cut.why, len(cut.measured)) == (False, "it was never closed", 1)


def test_a_refusal_stands_in_its_block_with_its_reason(facts: tuple[Fact, ...]) -> None:
    opened = next(fact for fact in facts if isinstance(fact, BlockOpened))
    arm = opened.order[0]
    refused = Refused(
        arm=arm, session=0, stage="load", reason="out_of_memory", cause="Too large.", fix="Less."
    )
    closed = BlockClosed(session=0, group=0, block=0, complete=False, reason="an arm is missing")
    (block,) = schedule([opened, refused, closed])
    assert [(each.arm, each.reason) for each in block.refused] == [(arm, "out_of_memory")]
    assert block.why == "an arm is missing"


def test_a_page_shows_each_certificate_and_each_block(report: Report) -> None:
    rows = loaded_rows(report)
    assert len(rows) == len(report.arms) and {len(row) for row in rows} == {len(LOADED)}
    assert rows[0][1] == "100.0% (FP16 357,826,560)"
    blocks = block_rows(report)
    assert present(report.schedule)
    assert len(blocks) == len(report.schedule) and {len(row) for row in blocks} == {len(BLOCKS)}
    page = as_html([report])
    for cell in (*rows[0], *blocks[0]):
        assert cell in page


def without(report: Report) -> Report:
    """As an early version wrote it."""

    def early(arm: ArmReport) -> ArmReport:
        reason = Absent(reason="not recorded by early versions")
        return arm.model_copy(update={"certificate": reason, "load_s": reason})

    none = Absent(reason="not recorded by early versions")
    arms = tuple(map(early, report.arms))
    return report.model_copy(update={"arms": arms, "schedule": none})


def test_an_early_document_says_so(report: Report) -> None:
    early = without(report)
    assert {row[1] for row in loaded_rows(early)} == {"not recorded by early versions"}
    assert block_rows(early) == ()
    assert "Schedule:" not in as_html([early])
