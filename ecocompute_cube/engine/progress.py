"""What a journal says is done, and so what is left. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ecocompute_cube.engine.schedule import Block, block_order, groups
from ecocompute_cube.model.around import Cooled
from ecocompute_cube.model.base import present
from ecocompute_cube.model.cost import Calibrated, Profiled
from ecocompute_cube.model.journal import (
    BlockClosed,
    BlockOpened,
    QualityScored,
    QualitySkipped,
    SessionOpened,
    WindowMeasured,
)
from ecocompute_cube.model.stop import AdaptiveStop, Stopped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ecocompute_cube.model.journal import Fact
    from ecocompute_cube.model.plan import Plan


class Progress(NamedTuple):
    """The state of a run, as far as its journal tells."""

    sessions: tuple[SessionOpened, ...]
    complete: frozenset[tuple[int, int, int]]  #: (session, group, block)
    opened: frozenset[tuple[int, int, int]]
    scored: frozenset[tuple[int, str]]  #: (session, arm)
    stopped: frozenset[tuple[int, int]] = frozenset()  #: (session, group), by the adaptive rule

    first_c: tuple[tuple[int, float], ...] = ()  #: (session, its first temperature)
    measured: frozenset[tuple[int, str]] = frozenset()  #: (session, arm), in a complete block
    profiled: frozenset[tuple[int, str]] = frozenset()  #: (session, arm)
    calibrated: frozenset[int] = frozenset()  #: sessions

    def complete_in(self, session: int, group: int) -> int:
        """Complete blocks of a session and group."""
        return sum(key[:2] == (session, group) for key in self.complete)


def progress(facts: Iterable[Fact]) -> Progress:
    """Read a journal's facts."""
    known = tuple(facts)
    complete = frozenset(
        (f.session, f.group, f.block) for f in known if isinstance(f, BlockClosed) and f.complete
    )
    return Progress(
        sessions=tuple(fact for fact in known if isinstance(fact, SessionOpened)),
        complete=complete,
        opened=frozenset(
            (f.session, f.group, f.block) for f in known if isinstance(f, BlockOpened)
        ),
        scored=frozenset(
            (f.session, f.arm) for f in known if isinstance(f, QualityScored | QualitySkipped)
        ),
        first_c=tuple(
            (f.session, f.first_c) for f in known if isinstance(f, Cooled) and present(f.first_c)
        ),
        stopped=frozenset((f.session, f.group) for f in known if isinstance(f, Stopped)),
        measured=frozenset(
            (f.session, f.arm)
            for f in known
            if isinstance(f, WindowMeasured) and (f.session, f.group, f.block) in complete
        ),
        profiled=frozenset((f.session, f.arm) for f in known if isinstance(f, Profiled)),
        calibrated=frozenset(f.session for f in known if isinstance(f, Calibrated)),
    )


def session_like(done: Progress, now: SessionOpened) -> SessionOpened | None:
    """The session that ``now`` continues: same board and settings, driver, boot, software."""
    alike = (old for old in done.sessions if _identity(old) == _identity(now))
    return next(alike, None)


def poolable(a: SessionOpened, b: SessionOpened) -> bool:
    """Whether two sessions may stand in one run: board and its settings, software, container."""
    return _kind(a) == _kind(b)


def _kind(opened: SessionOpened) -> tuple[object, ...]:
    which = tuple((board.name, board.power_limit_w, board.ecc) for board in opened.boards)
    return which, opened.python, opened.packages, *_container(opened)


def _container(opened: SessionOpened) -> tuple[str | None, str | None]:
    """Kind and image; early journals know the kind alone."""
    kind = opened.host.container
    image = opened.isolation.image if present(opened.isolation) else None
    return kind if present(kind) else None, image if image and present(image) else None


def _identity(opened: SessionOpened) -> tuple[object, ...]:
    which = tuple((board.uuid_sha256, board.driver) for board in opened.boards)
    return which, opened.host.boot_sha256, *_kind(opened)


def blocks_left(plan: Plan, done: Progress, session: int) -> Iterator[Block]:
    """What this session still has to do, round by round over the groups.

    By the fixed rule a session holds at most ``blocks`` complete blocks a group; all sessions
    together ``blocks × sessions``. By the adaptive rule a session goes on until it was stopped, and
    as many sessions are stopped as planned; these are then the most blocks that may come. A block
    that was opened and not finished is run again under a new number.
    """
    left = [
        _group_left(plan, done, session, number, arms) for number, arms in enumerate(groups(plan))
    ]
    for round_ in range(max(map(len, left), default=0)):
        for blocks in left:
            if round_ < len(blocks):
                yield blocks[round_]


def _group_left(
    plan: Plan, done: Progress, session: int, group: int, arms: tuple[str, ...]
) -> list[Block]:
    adaptive = isinstance(plan.protocol.stop, AdaptiveStop)
    wanted = (_most_by_rule if adaptive else _wanted)(plan, done, session, group)
    count = max(0, min(wanted, plan.protocol.most_blocks - done.complete_in(session, group)))
    used = [key[2] for key in done.opened if key[:2] == (session, group)]
    first = max(used, default=-1) + 1
    return [block_order(plan, arms, session, group, first + extra) for extra in range(count)]


def _wanted(plan: Plan, done: Progress, session: int, group: int) -> int:
    del session
    complete = sum(key[1] == group for key in done.complete)
    return plan.protocol.blocks * plan.protocol.sessions - complete


def _most_by_rule(plan: Plan, done: Progress, session: int, group: int) -> int:
    stopped = [number for number, which in done.stopped if which == group]
    over = session in stopped or len(stopped) >= plan.protocol.sessions
    return 0 if over else plan.protocol.most_blocks


def finished(plan: Plan, done: Progress) -> bool:
    """Whether every group has all its blocks in enough sessions."""
    protocol = plan.protocol
    if isinstance(protocol.stop, AdaptiveStop):
        wanted, counts = protocol.sessions, Counter(group for _, group in done.stopped)
    else:
        wanted = protocol.blocks * protocol.sessions
        counts = Counter(group for _, group, _ in done.complete)
    return all(counts[group] >= wanted for group in range(len(groups(plan))))
