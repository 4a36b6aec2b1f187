"""A journal survives crashes, refuses tampering, and never loses a fact it has promised."""

from __future__ import annotations

import errno
import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecocompute_cube.errors import DiskFull, JournalBroken, OutputError
from ecocompute_cube.model.base import sha256_hex
from ecocompute_cube.model.journal import Resumed, RunOpened
from ecocompute_cube.model.journal_file import JournalWriter, read_journal

from .facts import block_facts, run_opened, small_facts, utc_now, write_journal

FACTS = small_facts()
calm = settings(deadline=None, max_examples=150)
RESUMED = Resumed(tool_version="0", torn_bytes=0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_journal(tmp_path_factory.mktemp("whole") / "journal.jsonl", FACTS)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place that is written over by every example."""
    return tmp_path_factory.mktemp("journal") / "journal.jsonl"


def no_sync(descriptor: int) -> None:
    del descriptor


def interrupt(descriptor: int) -> None:
    raise KeyboardInterrupt


def fail(number: int) -> Callable[[int], None]:
    def sync(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    return sync


# Reading back


def test_a_journal_reads_back_as_it_was_written(whole: bytes, path: Path) -> None:
    path.write_bytes(whole)
    journal = read_journal(path)
    assert journal.records == FACTS
    assert journal.torn == b""
    assert journal.head == sha256_hex(whole.splitlines()[-1])
    assert [line.seq for line in journal.lines] == list(range(len(FACTS)))


def test_a_journal_cut_at_any_byte_gives_exactly_its_whole_lines(whole: bytes, path: Path) -> None:
    path.write_bytes(whole)
    first = whole.index(b"\n") + 1
    for size in range(len(whole), first - 1, -1):
        os.truncate(path, size)
        journal = read_journal(path)
        kept = whole[:size].count(b"\n")
        assert journal.records == FACTS[:kept]
        assert journal.torn == whole[:size].rpartition(b"\n")[2]


def test_a_journal_cut_within_its_first_line_holds_nothing(whole: bytes, path: Path) -> None:
    for size in range(whole.index(b"\n") + 1):
        path.write_bytes(whole[:size])
        with pytest.raises(JournalBroken, match="no whole line"):
            read_journal(path)


@calm
@given(data=st.data())
def test_a_changed_byte_breaks_the_chain_at_its_line(
    data: st.DataObject, whole: bytes, path: Path
) -> None:
    last = whole[:-1].rindex(b"\n")
    place = data.draw(st.integers(0, last), label="place")
    other = data.draw(st.integers(0, 255).filter(lambda b: b != whole[place]), label="byte")
    path.write_bytes(whole[:place] + bytes([other]) + whole[place + 1 :])
    line = whole[:place].count(b"\n") + 1
    with pytest.raises(JournalBroken, match=rf"line ({line}|{line + 1})\b") as caught:
        read_journal(path)
    assert caught.value.exit_status == 6


@calm
@given(data=st.data())
def test_a_changed_byte_in_the_last_line_changes_the_head(
    data: st.DataObject, whole: bytes, path: Path
) -> None:
    """Nothing follows the last line; the reports' ``journal_sha256`` binds it."""
    last = whole[:-1].rindex(b"\n") + 1
    place = data.draw(st.integers(last, len(whole) - 2), label="place")
    other = data.draw(st.integers(0, 255).filter(lambda b: b != whole[place]), label="byte")
    path.write_bytes(whole[:place] + bytes([other]) + whole[place + 1 :])
    try:
        head = read_journal(path).head
    except JournalBroken as broken:
        head = str(broken)
        named = re.search(r"line (\d+)", head)
        changed = named is not None and int(named[1]) in (len(FACTS), len(FACTS) + 1)
    else:
        changed = head != sha256_hex(whole[last:-1])
    assert changed, head


@pytest.mark.parametrize("number", range(len(FACTS) - 1))
def test_a_dropped_line_is_missed(whole: bytes, path: Path, number: int) -> None:
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
    with pytest.raises(JournalBroken, match=f"line {number + 1} does not follow"):
        read_journal(path)


@pytest.mark.parametrize("number", range(len(FACTS) - 1))
def test_swapped_lines_are_noticed(whole: bytes, path: Path, number: int) -> None:
    lines = whole.splitlines(keepends=True)
    lines[number], lines[number + 1] = lines[number + 1], lines[number]
    path.write_bytes(b"".join(lines))
    with pytest.raises(JournalBroken, match=f"line {number + 1} does not follow"):
        read_journal(path)


@pytest.mark.parametrize("number", range(len(FACTS)))
def test_a_line_given_twice_is_noticed(whole: bytes, path: Path, number: int) -> None:
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: number + 1] + lines[number:]))
    with pytest.raises(JournalBroken, match=f"line {number + 2} does not follow"):
        read_journal(path)


def test_a_model_that_this_version_does_not_know_breaks_the_line_not_the_program(
    whole: bytes, path: Path
) -> None:
    path.write_bytes(whole.replace(b"random:smollm2-135m", b"random:smollm9-135m", 1))
    with pytest.raises(JournalBroken, match="line 1: Unknown architecture"):
        read_journal(path)


@pytest.mark.parametrize("number", [2**64, 10**400])
def test_a_number_that_no_clock_or_counter_can_show_breaks_its_line(
    tmp_path: Path, number: int
) -> None:
    file = tmp_path / "journal.jsonl"
    written = write_journal(file, FACTS[:1])
    file.write_bytes(written.replace(b'"run_id":"r"', f'"run_id":"r,{10**30}"'.encode()))
    assert len(read_journal(file).lines) == 1, "the digits of a name are no number"
    file.write_bytes(written.replace(b'"seed":0', f'"seed":{number}'.encode()))
    with pytest.raises(JournalBroken, match="line 1: a number is longer"):
        read_journal(file)


@calm
@given(st.binary(max_size=200))
def test_foreign_bytes_are_a_broken_journal(path: Path, foreign: bytes) -> None:
    path.write_bytes(foreign)
    with pytest.raises(JournalBroken):
        read_journal(path)


# Going on


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_resuming_sets_a_torn_end_aside_and_goes_on_with_an_intact_chain(
    data: st.DataObject, whole: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first = whole.index(b"\n") + 1
    size = data.draw(st.integers(first, len(whole)), label="size")
    journal_path = tmp_path_factory.mktemp("resume") / "journal.jsonl"
    journal_path.write_bytes(whole[:size])
    journal, old = JournalWriter.resume(journal_path, utc_now, no_sync)
    with journal:
        journal.append(RESUMED)
    kept = whole[:size].count(b"\n")
    assert old.torn == whole[:size].rpartition(b"\n")[2]
    assert read_journal(journal_path).records == (*FACTS[:kept], RESUMED)
    aside = [p.read_bytes() for p in journal_path.parent.iterdir() if p != journal_path]
    assert aside == ([old.torn] if old.torn else [])


def test_a_second_torn_end_does_not_replace_the_first(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    whole = write_journal(path, FACTS)
    for torn in (b"one", b"two"):
        path.write_bytes(whole + torn)
        JournalWriter.resume(path, utc_now)[0].close()
    aside = sorted(p.read_bytes() for p in tmp_path.iterdir() if p != path)
    assert aside == [b"one", b"two"]


def test_a_broken_journal_is_not_gone_on_with(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(whole.replace(b'"small"', b'"smell"', 1) + b"torn")
    with pytest.raises(JournalBroken):
        JournalWriter.resume(path, utc_now)
    assert [p.name for p in tmp_path.iterdir()] == ["journal.jsonl"]


def test_a_new_journal_never_continues_an_old_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    whole = write_journal(path, FACTS)
    with pytest.raises(OutputError):
        JournalWriter.create(path, utc_now)
    assert path.read_bytes() == whole


def test_a_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"open journal\.jsonl"):
        JournalWriter.create(tmp_path / "nowhere" / "journal.jsonl", utc_now)


# What append promises


def test_a_fact_is_whole_in_the_file_when_it_is_synced_and_synced_before_append_returns(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.jsonl"
    seen: list[int] = []

    def sync(descriptor: int) -> None:
        del descriptor
        seen.append(len(read_journal(path).lines))  # a second reader, at the moment of the sync

    with JournalWriter.create(path, utc_now, sync) as journal:
        for number, fact in enumerate(FACTS, start=1):
            journal.append(fact)
            assert seen[-1] == number and len(seen) == number


@pytest.mark.parametrize("number", range(1, len(FACTS)))
def test_an_interrupt_during_the_sync_leaves_a_journal_that_can_be_appended_to(
    tmp_path: Path, number: int
) -> None:
    """Ctrl-C mostly arrives there; the runner then writes that the block was interrupted."""
    path = tmp_path / "journal.jsonl"
    calls = itertools.count()
    journal = JournalWriter.create(
        path, utc_now, lambda fd: interrupt(fd) if next(calls) == number else None
    )
    for fact in FACTS[:number]:
        journal.append(fact)
    with pytest.raises(KeyboardInterrupt):
        journal.append(FACTS[number])
    journal.append(RESUMED)
    assert read_journal(path).records == (*FACTS[: number + 1], RESUMED)


@pytest.mark.parametrize("lost", [1, 7])
def test_a_write_that_was_cut_short_is_trimmed_before_the_next_fact(
    tmp_path: Path, lost: int
) -> None:
    path = tmp_path / "journal.jsonl"
    with JournalWriter.create(path, utc_now) as journal:
        journal.append(FACTS[0])
        with path.open("ab") as other:
            other.write(b'{"seq":1'[:lost])
        journal.append(FACTS[1])
    assert read_journal(path).records == FACTS[:2]


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EFBIG, DiskFull),
        (errno.EIO, OutputError),
    ],
)
def test_a_failed_sync_is_named_by_its_cause(
    tmp_path: Path, number: int, kind: type[OutputError]
) -> None:
    path = tmp_path / "journal.jsonl"
    write_journal(path, FACTS)
    journal, _ = JournalWriter.resume(path, utc_now, fail(number))
    with journal, pytest.raises(kind) as caught:
        journal.append(RESUMED)
    assert type(caught.value) is kind
    assert caught.value.exit_status == 7
    assert read_journal(path).torn == b""


FULL = """
import resource, sys
from pathlib import Path
from ecocompute_cube.errors import DiskFull
from ecocompute_cube.model.journal import Resumed
from ecocompute_cube.model.journal_file import JournalWriter
path, room = Path(sys.argv[1]), int(sys.argv[2])
size = path.stat().st_size + room
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
journal, _ = JournalWriter.resume(path, lambda: "2026-01-02T03:04:05Z")
try:
    for _ in range(1000):
        journal.append(Resumed(tool_version="0", torn_bytes=0))
except DiskFull as error:
    print(error)
    raise SystemExit(error.exit_status)
"""


@pytest.mark.parametrize("room", [1, 1000])
def test_a_full_disk_ends_with_status_7_and_a_whole_journal(tmp_path: Path, room: int) -> None:
    path = tmp_path / "journal.jsonl"
    size = len(write_journal(path, FACTS))
    ended = subprocess.run(
        [sys.executable, "-c", FULL, str(path), str(room)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 7, ended.stderr
    assert "No room left" in ended.stdout
    journal = read_journal(path)
    assert journal.torn == b""
    assert journal.records[: len(FACTS)] == FACTS
    assert path.stat().st_size <= size + room
    assert set(journal.records[len(FACTS) :]) <= {RESUMED}


CUT = """
import resource, signal, sys
from pathlib import Path
from ecocompute_cube.model.journal import Resumed
from ecocompute_cube.model.journal_file import JournalWriter
path = Path(sys.argv[1])
journal, _ = JournalWriter.resume(path, lambda: "2026-01-02T03:04:05Z")
size = path.stat().st_size + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # now the kernel kills at that byte
for _ in range(1000):
    journal.append(Resumed(tool_version="0", torn_bytes=0))
"""


@pytest.mark.parametrize("room", [1, 100, 500])
def test_a_process_killed_within_a_line_leaves_a_torn_end_that_is_set_aside(
    tmp_path: Path, room: int
) -> None:
    path = tmp_path / "journal.jsonl"
    write_journal(path, FACTS)
    ended = subprocess.run([sys.executable, "-c", CUT, str(path), str(room)], check=False)
    assert ended.returncode == -signal.SIGXFSZ
    journal, old = JournalWriter.resume(path, utc_now)
    with journal:
        journal.append(RESUMED)
    assert old.records[: len(FACTS)] == FACTS
    assert old.torn
    assert read_journal(path).records == (*old.records, RESUMED)


KILLED = """
import os, signal, sys
from pathlib import Path
from ecocompute_cube.model.journal import Resumed
from ecocompute_cube.model.journal_file import JournalWriter
journal, _ = JournalWriter.resume(Path(sys.argv[1]), lambda: "2026-01-02T03:04:05Z")
for number in range(3):
    journal.append(Resumed(tool_version=str(number), torn_bytes=0))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_facts_of_a_killed_process_are_read_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write_journal(path, FACTS)
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(path)], check=False)
    assert ended.returncode == -9
    journal, old = JournalWriter.resume(path, utc_now)
    with journal:
        journal.append(RESUMED)
    assert len(old.records) == len(FACTS) + 3
    assert read_journal(path).lines[-1].seq == len(FACTS) + 3


def test_what_a_line_says_does_not_depend_on_who_reads_it(tmp_path: Path) -> None:
    """The bytes are canonical: sorted keys, no spaces, UTF-8 kept."""
    run = run_opened()
    odd = RunOpened.model_validate_json(
        run.model_copy(update={"run_id": "é\u2028"}).model_dump_json()
    )
    line = write_journal(tmp_path / "journal.jsonl", (odd, *block_facts(0))).splitlines()[0]
    assert b'"run_id":"\xc3\xa9\xe2\x80\xa8"' in line
    assert b": " not in line.replace(b"no text", b"")
    assert read_journal(tmp_path / "journal.jsonl").records[0] == odd
