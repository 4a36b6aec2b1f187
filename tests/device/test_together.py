"""Several boards for one run: which, and that they are held together or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ecocompute_cube.device.lock import Claim, claim
from ecocompute_cube.device.together import take_together
from ecocompute_cube.device.visible import Candidate, Seen, candidates
from ecocompute_cube.errors import BoardBusy, NoDevice, NoGpu, VirtualGpu
from ecocompute_cube.model.base import Absent

from .conftest import Stub

UUIDS = ["GPU-cccc", "GPU-aaaa", "GPU-bbbb"]  # whose order is not that of the PCI bus
BOARDS = [Candidate(n, uuid, "NVIDIA Stub", None) for n, uuid in enumerate(UUIDS)]
SEEN = [Seen(uuid, "NVIDIA Stub") for uuid in UUIDS]


class Counter:
    """Takes boards, some of which cannot be had, and knows which are held."""

    def __init__(self, *, lost: dict[str, NoDevice] | None = None) -> None:
        self.lost, self.asked = lost or {}, list[str]()
        self.claims: dict[str, Claim] = {}

    def __call__(self, board: Candidate) -> Claim:
        self.asked.append(board.uuid)
        if board.uuid in self.lost:
            raise self.lost[board.uuid]
        self.claims[board.uuid] = Claim(os.open(os.devnull, os.O_RDONLY))
        return self.claims[board.uuid]

    @property
    def held(self) -> list[str]:
        return [u for u, each in self.claims.items() if each.trouble is None]

    def let_go(self) -> None:
        for each in self.claims.values():
            each.close()


def busy(uuid: str) -> dict[str, NoDevice]:
    return {uuid: BoardBusy(f"Board {uuid} is being measured by another run.", "Wait.")}


@pytest.fixture
def take() -> Iterator[Counter]:
    counter = Counter()
    yield counter
    counter.let_go()


def test_boards_come_in_their_own_order_and_are_taken_in_that_of_their_uuids(
    take: Counter,
) -> None:
    found = take_together(BOARDS, 2, take)
    assert [board.uuid for board, _ in found] == ["GPU-cccc", "GPU-aaaa"]
    assert take.asked == ["GPU-aaaa", "GPU-cccc"]


def test_a_board_that_is_busy_is_passed_over_where_there_are_more(take: Counter) -> None:
    take.lost = busy("GPU-cccc")
    found = take_together(BOARDS, 2, take)
    assert [board.uuid for board, _ in found] == ["GPU-aaaa", "GPU-bbbb"]
    assert sorted(take.held) == ["GPU-aaaa", "GPU-bbbb"]


def test_with_too_few_that_can_be_had_none_is_held(take: Counter) -> None:
    take.lost = busy("GPU-cccc") | busy("GPU-bbbb")
    with pytest.raises(BoardBusy, match="asks for 2 boards, and of 3 here 1 can be had") as refused:
        take_together(BOARDS, 2, take)
    assert "GPU-cccc is being measured" in refused.value.cause
    assert take.held == []


def test_a_board_that_no_waiting_would_help_is_told_as_it_is(take: Counter) -> None:
    take.lost = {"GPU-aaaa": VirtualGpu("It is a vGPU.", "Go elsewhere.")}
    with pytest.raises(VirtualGpu):
        take_together(BOARDS[:2], 2, take)
    assert take.held == []


def test_ctrl_c_while_boards_are_taken_leaves_none_behind(take: Counter) -> None:
    def interrupted(board: Candidate) -> Claim:
        if board.uuid == "GPU-cccc":
            raise KeyboardInterrupt
        return take(board)

    with pytest.raises(KeyboardInterrupt):
        take_together(BOARDS, 2, interrupted)
    assert take.held == []


@pytest.mark.parametrize("orders", [UUIDS[:2], UUIDS[1::-1]])
def test_two_runs_that_want_the_same_boards_never_hold_one_each(
    tmp_path: Path, orders: list[str]
) -> None:
    """The first to have the lowest UUID has both; the other has nothing."""
    (tmp_path / "dev/shm").mkdir(parents=True)
    others: list[Claim] = []

    def take(board: Candidate) -> Claim:
        held = claim(board.uuid, tmp_path)
        if held is None:
            raise BoardBusy("taken", "")
        if not others:  # another run comes between our first board and our second
            with pytest.raises(BoardBusy):
                take_together([next(b for b in BOARDS if b.uuid == u) for u in orders], 2, second)
            others.append(held)
        return held

    def second(board: Candidate) -> Claim:
        held = claim(board.uuid, tmp_path)
        if held is None:
            raise BoardBusy("taken", "")
        return held

    found = take_together(BOARDS[:2], 2, take)
    assert len(found) == 2
    for _, held in found:
        held.close()


# CUDA_VISIBLE_DEVICES


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        ("2,0", ["GPU-bbbb", "GPU-cccc"]),
        ("2,0,1", ["GPU-bbbb", "GPU-cccc"]),
        ("GPU-a,0", ["GPU-aaaa", "GPU-cccc"]),
        ("1,-1,0", ["GPU-aaaa"]),  # the list ends at the first entry that names nothing
        ("1,9,0", ["GPU-aaaa"]),
        ("1,GPU-ffff,0", ["GPU-aaaa"]),
    ],
)
def test_the_first_entries_name_the_boards(visible: str, uuids: list[str]) -> None:
    found = candidates(SEEN, {"CUDA_VISIBLE_DEVICES": visible}, 2)
    assert [board.uuid for board in found] == uuids


@pytest.mark.parametrize("visible", ["0,GPU-cccc", "GPU-aaaa,1"])
def test_a_board_named_in_two_ways_is_one_board(visible: str) -> None:
    with pytest.raises(NoGpu, match="names a board twice"):
        candidates(SEEN, {"CUDA_VISIBLE_DEVICES": visible}, 2)


def test_unset_every_board_that_answers_may_be_one_of_them() -> None:
    lost = Absent(reason="NVML: GPU is lost")
    found = candidates([Seen(lost, lost), *SEEN], {}, 2)
    assert [board.uuid for board in found] == UUIDS


# Through the driver's library


THREE = ",".join(UUIDS)


def test_so_many_boards_are_locked_through_nvml(stub: Stub) -> None:
    assert stub.ask("together=2", boards=THREE) == ["GPU-cccc", "GPU-aaaa"]
    assert len(list((stub.root / "dev/shm").glob("ecocompute-*.lock"))) == 2


def test_too_few_visible_boards_are_told_with_both_numbers(stub: Stub) -> None:
    for script, words in (
        ({"CUDA_VISIBLE_DEVICES": "1"}, "CUDA_VISIBLE_DEVICES=1 shows 1 (3 installed)"),
        ({"CUDA_VISIBLE_DEVICES": "1,7"}, "CUDA_VISIBLE_DEVICES=1,7 shows 1 (3 installed)"),
    ):
        told = stub.ask("together=2", boards=THREE, **script)
        assert (told["error"], told["status"]) == ("too_few_boards", 3)
        assert "asks for 2 boards" in told["cause"] and words in told["cause"]
    told = stub.ask("require=4", boards=THREE)
    assert "asks for 4 boards, and this machine shows 3" in told["cause"]


def test_a_board_that_another_run_has_leaves_the_other_free(stub: Stub) -> None:
    held = claim("GPU-cccc", stub.root)
    assert held is not None
    named = {"CUDA_VISIBLE_DEVICES": "0,1"}
    told, again = stub.ask_all("together=2", "together=2", boards=THREE, **named)
    assert told["error"] == again["error"] == "board_busy"
    assert "Board 0 (NVIDIA Stub) is being measured by another run" in told["cause"]
    free = claim("GPU-aaaa", stub.root)
    assert free is not None and free.trouble is None
    held.close()
    free.close()
