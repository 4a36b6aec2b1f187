"""A small journal made by hand: one run, one session, two blocks without arms' facts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.journal import (
    BlockClosed,
    BlockOpened,
    Fact,
    RunOpened,
    SessionOpened,
)
from ecocompute_cube.model.journal_file import JournalWriter
from ecocompute_cube.model.plan import Plan

UTC = "2026-01-02T03:04:05Z"


def utc_now() -> str:
    return UTC


def run_opened() -> RunOpened:
    plan = Plan(name="small", models=("random:smollm2-135m",), arms=("FP16", "NF4"))
    return RunOpened(
        run_id="r",
        tool_version="0",
        plan=plan,
        plan_sha256=plan.sha256,
        models=(),
        text_sha256=Absent(reason="no text"),
        rehearsal=False,
    )


def session_opened(session: int = 0) -> SessionOpened:
    host = {"platform": "p", "cpu": "c", "cores": 1, "memory_mib": 1}
    absent = {"reason": "made by hand"}
    return SessionOpened.model_validate(
        {
            "session": session,
            "board": absent,
            "tick": absent,
            "host": {**host, "boot_sha256": f"{session:064x}", "container": absent},
            "python": "3",
            "packages": {},
            "resident": True,
        }
    )


def block_facts(block: int, order: tuple[str, ...] = ()) -> Iterator[Fact]:
    yield BlockOpened(session=0, group=0, block=block, order=order)
    yield BlockClosed(session=0, group=0, block=block, complete=True, reason="all arms visited")


def small_facts() -> tuple[Fact, ...]:
    return (run_opened(), session_opened(), *block_facts(0), *block_facts(1))


def write_journal(path: Path, facts: tuple[Fact, ...]) -> bytes:
    """Write a journal and return its bytes."""
    with JournalWriter.create(path, utc_now, sync=lambda _: None) as journal:
        for fact in facts:
            journal.append(fact)
    return path.read_bytes()
