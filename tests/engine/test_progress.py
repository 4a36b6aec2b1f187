"""What is left follows from the journal alone, however often the work was interrupted."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ecocompute_cube.engine.progress import (
    Progress,
    blocks_left,
    finished,
    poolable,
    progress,
    session_like,
)
from ecocompute_cube.engine.schedule import Block, groups
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.journal import (
    BlockClosed,
    BlockOpened,
    Fact,
    Isolation,
    QualitySkipped,
    SessionOpened,
)
from ecocompute_cube.model.plan import Plan
from ecocompute_cube.model.readings import EARLY
from ecocompute_cube.model.stop import Stopped

from ..model.facts import run_opened, session_opened
from ..run.rig import plan


def opened(block: Block) -> BlockOpened:
    return BlockOpened(
        session=block.session, group=block.group, block=block.block, order=block.order
    )


def closed(block: Block, *, complete: bool = True) -> BlockClosed:
    return BlockClosed(
        session=block.session, group=block.group, block=block.block, complete=complete, reason="-"
    )


def left(asked: Plan, facts: list[Fact], session: int = 0) -> list[Block]:
    return list(blocks_left(asked, progress(facts), session))


class Runs(RuleBasedStateMachine):
    """Sessions that begin, work, tear blocks and end in any order."""

    @initialize(blocks=st.integers(1, 3), sessions=st.integers(1, 3), models=st.integers(1, 2))
    def begin(self, blocks: int, sessions: int, models: int) -> None:
        self.plan = plan(
            models=["random:smollm2-135m", "random:qwen2-0.5b"][:models],
            protocol={"blocks": blocks, "sessions": sessions},
        )
        self.facts: list[Fact] = [run_opened(), session_opened()]
        self.session = 0
        self.complete: set[Block] = set()
        self.seen: set[Block] = set()

    def next_block(self) -> Block | None:
        return next(iter(left(self.plan, self.facts, self.session)), None)

    @rule()
    def another_machine(self) -> None:
        self.session += 1
        self.facts.append(session_opened(self.session))

    @precondition(lambda self: self.next_block())
    @rule(ending=st.sampled_from(["complete", "complete", "torn", "interrupted"]))
    def work(self, ending: str) -> None:
        block = self.next_block()
        assert block is not None
        assert block not in self.seen, "a torn block keeps its number for itself"
        self.seen.add(block)
        self.facts.append(opened(block))
        if ending == "complete":
            self.complete.add(block)
        if ending != "torn":
            self.facts.append(closed(block, complete=ending == "complete"))

    @invariant()
    def no_session_does_more_than_its_share(self) -> None:
        per_session = Counter((block.session, block.group) for block in self.complete)
        assert all(count <= self.plan.protocol.blocks for count in per_session.values())
        total = Counter(block.group for block in self.complete)
        wanted = self.plan.protocol.blocks * self.plan.protocol.sessions
        assert all(count <= wanted for count in total.values())
        done = progress(self.facts)
        assert done.complete == {block[:3] for block in self.complete}
        assert finished(self.plan, done) == all(
            total[group] == wanted for group in range(len(groups(self.plan)))
        )
        if finished(self.plan, done):
            assert left(self.plan, self.facts, self.session) == []

    @invariant()
    def a_new_session_can_always_go_on_until_all_is_done(self) -> None:
        if not finished(self.plan, progress(self.facts)):
            fresh = left(self.plan, self.facts, self.session + 1)
            assert fresh
            assert len(set(fresh)) == len(fresh)


TestRuns = Runs.TestCase
TestRuns.settings = settings(deadline=None, max_examples=40, stateful_step_count=20)


def test_rounds_go_over_the_groups_in_turn() -> None:
    asked = plan(models=["random:smollm2-135m", "random:qwen2-0.5b"], protocol={"blocks": 2})
    assert [(b.group, b.block) for b in left(asked, [])] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_a_torn_block_is_done_again_under_a_new_number() -> None:
    asked = plan(protocol={"blocks": 2})
    first, second = left(asked, [])
    facts: list[Fact] = [opened(first), closed(first), opened(second)]
    (again,) = left(asked, facts)
    assert (again.session, again.group, again.block) == (0, 0, 2)


def test_an_interrupted_block_does_not_count() -> None:
    asked = plan(protocol={"blocks": 1})
    (block,) = left(asked, [])
    facts: list[Fact] = [opened(block), closed(block, complete=False)]
    assert not finished(asked, progress(facts))
    assert [b.block for b in left(asked, facts)] == [1]


def test_what_another_session_left_undone_is_done_here() -> None:
    asked = plan(protocol={"blocks": 3, "sessions": 2})
    facts: list[Fact] = []
    for block in left(asked, facts, 0)[:2]:
        facts += [opened(block), closed(block)]
    assert len(left(asked, facts, 0)) == 1
    for block in left(asked, facts, 1):
        facts += [opened(block), closed(block)]
    assert len(left(asked, facts, 2)) == 1  # six in all, never four in one session


def test_scores_belong_to_a_session() -> None:
    facts: list[Fact] = [session_opened(1), QualitySkipped(arm="b", session=1, reason="r")]
    done = progress(facts)
    assert done.scored == {(1, "b")}
    assert done == Progress((session_opened(1),), frozenset(), frozenset(), done.scored)


# The adaptive rule

ADAPTIVE = {"stop": {"rule": "adaptive", "max_blocks": 10}}


def done_blocks(asked: Plan, session: int, count: int) -> list[Fact]:
    facts: list[Fact] = []
    for _ in range(count):
        block = left(asked, facts, session)[0]
        facts += [opened(block), closed(block)]
    return facts


def stopped(session: int = 0, group: int = 0) -> Stopped:
    nothing = Absent(reason="-")
    return Stopped(session=session, group=group, blocks=8, reason="maximum", widest_pct=nothing)


def test_a_session_goes_on_until_it_was_stopped() -> None:
    asked = plan(protocol=ADAPTIVE)
    facts = done_blocks(asked, 0, 8)
    assert [block.block for block in left(asked, facts)] == [8, 9]
    assert not finished(asked, progress(facts))
    facts.append(stopped())
    assert left(asked, facts) == []
    assert finished(asked, progress(facts))


def test_no_session_goes_beyond_the_most_blocks() -> None:
    asked = plan(protocol=ADAPTIVE)
    facts = done_blocks(asked, 0, 10)
    assert left(asked, facts) == []
    assert not finished(asked, progress(facts)), "the rule has still to be asked"


def test_each_group_is_stopped_by_itself() -> None:
    asked = plan(models=["random:smollm2-135m", "random:qwen2-0.5b"], protocol=ADAPTIVE)
    facts: list[Fact] = [stopped(group=1)]
    assert {block.group for block in left(asked, facts)} == {0}
    assert not finished(asked, progress(facts))


def test_as_many_sessions_are_stopped_as_planned() -> None:
    asked = plan(protocol={**ADAPTIVE, "sessions": 2})
    facts: list[Fact] = [*done_blocks(asked, 0, 3), *done_blocks(asked, 1, 8), stopped(1)]
    assert not finished(asked, progress(facts)), "three blocks that nothing ended are no session"
    assert len(left(asked, facts, 0)) == 7
    facts.append(stopped(2))
    assert finished(asked, progress(facts))
    assert left(asked, facts, 3) == []


# Which session a machine belongs to


def known(*sessions: SessionOpened) -> Progress:
    return progress(sessions)


@pytest.mark.parametrize(
    "change",
    [
        {"python": "4"},
        {"packages": {"torch": "9"}},
        {"host": session_opened(1).host},
    ],
)
def test_another_boot_or_software_is_another_session(change: dict[str, object]) -> None:
    here = session_opened()
    assert session_like(known(here), here) == here
    assert session_like(known(here), here.model_copy(update=change)) is None


CONTAINER = Isolation(
    container="docker",
    host_ipc=True,
    host_pids=False,
    shm_mib=64,
    image="0.1.0+abcdef0",
    board_lock="host",
)


def in_container(isolation: Isolation | Absent = CONTAINER) -> SessionOpened:
    """A session in a container; early versions did not record more than its kind."""
    here = session_opened()
    host = here.host.model_copy(update={"container": "docker"})
    return here.model_copy(update={"host": host, "isolation": isolation})


def started(**change: object) -> SessionOpened:
    """The same image, started otherwise."""
    return in_container(CONTAINER.model_copy(update=change))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (session_opened(), in_container()),
        (session_opened(), in_container(EARLY)),
        (in_container(), started(image="0.1.0+1234567")),
    ],
    ids=["a container and none", "as early versions told it", "two images"],
)
def test_what_ran_in_different_surroundings_is_not_pooled(
    one: SessionOpened, other: SessionOpened
) -> None:
    assert not poolable(one, other) and not poolable(other, one)
    assert session_like(known(one), other) is None


@pytest.mark.parametrize("change", [{"host_ipc": False}, {"shm_mib": 128}, {"host_pids": True}])
def test_how_the_same_image_was_started_does_not_matter(change: dict[str, object]) -> None:
    assert poolable(in_container(), started(**change))
    assert session_like(known(in_container()), started(**change)) is not None


def test_coming_back_to_a_machine_goes_on_with_its_session() -> None:
    first, second = session_opened(0), session_opened(1)
    now = first.model_copy(update={"session": 2, "resident": False})
    assert session_like(known(first, second), now) == first
    assert session_like(known(), now) is None


def test_a_rehearsal_is_not_told_apart_by_its_reason() -> None:
    here = session_opened()
    assert isinstance(here.board, Absent)
    again = here.model_copy(update={"board": Absent(reason="another word")})
    assert session_like(known(here), again) == here
