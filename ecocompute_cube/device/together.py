"""Taking several boards for one run: all of them or none, by one order in every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecocompute_cube.errors import BoardBusy, MixedBoards, NoDevice, TooFewBoards
from ecocompute_cube.model.base import present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ecocompute_cube.device.lock import Claim
    from ecocompute_cube.device.visible import Candidate
    from ecocompute_cube.model.readings import Board


def take_together(
    possible: Sequence[Candidate], count: int, take: Callable[[Candidate], Claim]
) -> tuple[tuple[Candidate, Claim], ...]:
    """The first so many boards that can be had, in their order, each held.

    Raises BoardBusy, or what else stands in the way of one: nothing is held then.
    """
    left, refusals = list(possible), list[NoDevice]()
    while len(left) >= count:
        wanted = left[:count]
        try:
            held = _all_or_none(wanted, take)
        except _RefusedError as refused:
            left.remove(refused.board)
            refusals.append(refused.why)
        else:
            return tuple((board, held[board.uuid]) for board in wanted)
    raise not_enough(len(possible), count, refusals)


def not_enough(possible: int, count: int, refusals: Sequence[NoDevice]) -> NoDevice:
    """One word for too many boards that cannot be had."""
    unfit = [each for each in refusals if not isinstance(each, BoardBusy)]
    if unfit and possible == count:
        return unfit[0]  # waiting would not help
    causes = "; ".join(each.cause.rstrip(".") for each in refusals)
    return BoardBusy(
        f"The plan asks for {count} boards, and of {possible} here {possible - len(refusals)} can "
        f"be had: {causes}.",
        "Wait for the others, name other boards with CUDA_VISIBLE_DEVICES, or lower boards in the "
        "plan.",
    )


def check_enough(
    possible: Sequence[Candidate], count: int, environment: Mapping[str, str], installed: int
) -> None:
    """See that so many boards may be seen. Raises TooFewBoards."""
    if len(possible) >= count:
        return
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    shown = "this machine" if visible is None else f"CUDA_VISIBLE_DEVICES={visible}"
    raise TooFewBoards(
        f"The plan asks for {count} boards, and {shown} shows {len(possible)} ({installed} "
        "installed).",
        "Name as many boards in CUDA_VISIBLE_DEVICES, or lower boards in the plan.",
    )


def check_alike(boards: Sequence[Board]) -> None:
    """See that a model is not split over boards of several kinds. Raises MixedBoards."""
    kinds = dict.fromkeys(map(_kind, boards))
    if len(kinds) > 1:
        raise mixed(kinds)


def _kind(board: Board) -> str:
    limit = board.power_limit_w
    told = f"limit {limit:g} W" if present(limit) else "limit unknown"
    return f"{board.name} ({board.memory_mib} MiB, {told})"


def mixed(kinds: Iterable[str]) -> MixedBoards:
    """The refusal of boards of these kinds together."""
    return MixedBoards(
        f"The boards of this run are not of one kind: {', '.join(kinds)}.",
        "Name boards of one kind and power limit with CUDA_VISIBLE_DEVICES.",
    )


class _RefusedError(Exception):
    """One board of those wanted cannot be had."""

    def __init__(self, board: Candidate, why: NoDevice) -> None:
        super().__init__(why.cause)
        self.board, self.why = board, why


def _all_or_none(
    wanted: Sequence[Candidate], take: Callable[[Candidate], Claim]
) -> dict[str, Claim]:
    """By UUID, so that of two runs that want the same one gets all; neither waits for the other."""
    held: dict[str, Claim] = {}
    for board in sorted(wanted, key=lambda each: each.uuid):
        try:
            held[board.uuid] = take(board)
        except BaseException as error:
            for claim in held.values():
                claim.close()
            if isinstance(error, NoDevice):
                raise _RefusedError(board, error) from None
            raise
    return held
