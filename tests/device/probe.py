"""Asks a board in a process of its own and prints the answers as JSON: ``probe.py STEP…``.

A step is a word, or a word and its argument: ``choose`` (and hold what is chosen until the end),
``require`` (a board, and hold none),
``board``, ``capabilities``, ``power``, ``energy``, ``telemetry``, ``telemetry=7,8``,
``touch=FILE`` (makes the file that the stub's board vanishes at). The machine's folders lie
below ``STUB_ROOT``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ecocompute_cube.device.nvml import (
    Chosen,
    NvmlBoard,
    choose_board,
    choose_boards,
    require_boards,
)
from ecocompute_cube.errors import EcoError
from ecocompute_cube.model.base import Absent, Record


class Asked:
    """The board that is asked: opened at the first question."""

    def __init__(self) -> None:
        self._board: NvmlBoard | None = None
        self._root = Path(os.environ["STUB_ROOT"])
        self._held: list[Chosen] = []

    def choose(self) -> Chosen:
        chosen = choose_board(os.environ, self._root)
        self._held.append(chosen)
        return chosen

    @property
    def board(self) -> NvmlBoard:
        if self._board is None:
            self._board = NvmlBoard(self.choose().uuid, root=self._root)
        return self._board

    def answer(self, step: str) -> object:
        word, _, argument = step.partition("=")
        if word == "choose":
            chosen = self.choose()
            return {"uuid": chosen.uuid, "remark": chosen.remark}
        if word == "require":
            require_boards(int(argument or 1), os.environ, self._root)
            return None
        if word == "together":
            several = choose_boards(int(argument), os.environ, self._root)
            self._held += several
            return [chosen.uuid for chosen in several]
        return self._of_a_board(word, argument)

    def _of_a_board(self, word: str, argument: str) -> object:
        if word == "touch":
            return Path(argument).write_text("gone")
        if word == "telemetry":
            return self.board.telemetry(frozenset(int(pid) for pid in argument.split(",") if pid))
        if word == "kind":
            return self.board.power
        return {
            "board": self.board.board,
            "capabilities": self.board.capabilities,
            "power": self.board.power_w,
            "energy": self.board.energy_mj,
            "close": self.board.close,
        }[word]()


def plain(answer: object) -> object:
    if isinstance(answer, Absent):
        return {"absent": answer.reason}
    return answer.model_dump(mode="json") if isinstance(answer, Record) else answer


def told(error: EcoError) -> dict[str, object]:
    return {
        "error": error.code,
        "status": error.exit_status,
        "cause": error.cause,
        "fix": error.fix,
    }


def main(steps: list[str]) -> None:
    asked, answers = Asked(), []
    for step in steps:
        try:
            answers.append(plain(asked.answer(step)))
        except EcoError as error:
            answers.append(told(error))
    print(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1:])
