"""The words that several commands understand, and how mistakes in them are told."""

from __future__ import annotations

import argparse
import difflib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from ecocompute_cube.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

PLAN: Final = Path("workspace/config/protocol.yaml")
MODELS: Final = Path("workspace/models")
RESULTS: Final = Path("workspace/results")
REPORT: Final = Path("workspace/report")
_MOST_MINUTES: Final = 1e6  # two years; more is a slip of the pen


class Parser(argparse.ArgumentParser):
    """argparse with our manners: mistakes are UsageErrors that name what was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Tell what argparse found. Raises UsageError."""
        raise UsageError(f"{message[0].upper()}{message[1:]}.", f"See: {self.prog} --help.")

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Say that nobody knows the first of these words. Raises UsageError."""
        name = words[0].partition("=")[0]
        if not name.startswith("-"):
            raise UsageError(
                f"{self.prog} takes no '{name}' there.",
                f"Write files and folders after their option, as {self.prog} --help shows.",
            )
        close = difflib.get_close_matches(name, self._option_string_actions, n=1)
        meant = f"Did you mean {close[0]}?" if close else f"See: {self.prog} --help."
        raise UsageError(f"{self.prog} has no option {name}.", meant)


if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[Parser]


def add(
    commands: Commands,
    name: str,
    what: str,
    command: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    """A command with its one line of help, and what it does."""
    parser = commands.add_parser(name, help=what, description=what, allow_abbrev=False)
    parser.set_defaults(command=command, parser=parser)
    return parser


def path(text: str) -> Path:
    """A path that can be named in a document and in a sentence."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"the path {text!a} is not in UTF-8") from None
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def folder(parser: argparse.ArgumentParser, name: str, default: Path, what: str) -> None:
    """A folder with a default."""
    parser.add_argument(
        name, type=path, default=default, metavar="DIR", help=f"{what} (default {default})"
    )


def plan_file(parser: argparse.ArgumentParser) -> None:
    """The plan."""
    parser.add_argument(
        "--parameters_file",
        type=path,
        default=PLAN,
        metavar="FILE",
        help=f"the plan, in YAML (default {PLAN})",
    )


def hub_cache(parser: argparse.ArgumentParser) -> None:
    """A cache to take model files from."""
    parser.add_argument(
        "--hub_cache",
        type=path,
        metavar="DIR",
        help="a Hugging Face hub cache to take files from, in place of the user's own; only read",
    )


def measuring(parser: argparse.ArgumentParser) -> None:
    """What may be said of a measurement besides its plan."""
    parser.add_argument(
        "--rehearse", action="store_true", help="decode on the CPU; measure no energy"
    )
    parser.add_argument(
        "--max_minutes",
        type=_minutes,
        metavar="M",
        help="start no block that would not end in time; run again to go on",
    )
    parser.add_argument(
        "--quality_text",
        type=path,
        metavar="FILE",
        help="a text of yours to score perplexity on, in place of the plan's",
    )


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of minutes")
    return value


def signers(parser: argparse.ArgumentParser) -> None:
    """Who must have signed a journal."""
    parser.add_argument(
        "--signers",
        type=path,
        metavar="FILE",
        help="allowed signers, as ssh-keygen knows them: every journal must be signed by one",
    )
