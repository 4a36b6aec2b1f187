"""The ``ecocompute`` command: finds the command that is meant, and turns errors into statuses."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import math
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from ecocompute_cube import __version__
from ecocompute_cube.commands.archiving import add_bundle, add_submit, add_upload
from ecocompute_cube.commands.assisting import add_mcp
from ecocompute_cube.commands.checking import add_compare, add_doctor, add_validate
from ecocompute_cube.commands.estimating import add_estimate, add_optimize
from ecocompute_cube.commands.gating import add_gate
from ecocompute_cube.commands.linting import add_lint
from ecocompute_cube.commands.measuring import (
    add_download,
    add_measure,
    add_plan,
    add_report,
    add_run,
)
from ecocompute_cube.commands.serving import add_serve
from ecocompute_cube.commands.site import add_site
from ecocompute_cube.commands.terminal import say, write
from ecocompute_cube.commands.words import Parser
from ecocompute_cube.errors import EcoError, UsageError, unforeseen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ecocompute_cube.commands.words import Commands
    from ecocompute_cube.measure import Equipment

#: A signal to the group and one that docker or an init passes on are one wish to stop.
_ECHO_S: Final = 2.0

_EPILOG: Final = """\
exit status: 0 done; 1 checked and found wanting; 2 usage or bad input; 3 no usable GPU or power
reading; 4 model missing or corrupt; 5 measured but invalid; 6 document fails its schema; 7 disk or
output folder; 8 a service that keeps records; 130 interrupted. Options may be written with _ or -.
"""

_COMMANDS: Final[dict[str, Callable[[Commands], None]]] = {
    "run": add_run,
    "download": add_download,
    "measure": add_measure,
    "report": add_report,
    "plan": add_plan,
    "doctor": add_doctor,
    "validate": add_validate,
    "bundle": add_bundle,
    "upload": add_upload,
    "submit": add_submit,
    "compare": add_compare,
    "gate": add_gate,
    "estimate": add_estimate,
    "optimize": add_optimize,
    "serve": add_serve,
    "mcp": add_mcp,
    "site": add_site,
    "lint": add_lint,
}


def main(
    arguments: Sequence[str] | None = None,
    equipment: Callable[[bool, int], Equipment] | None = None,
) -> int:
    """Run one command; its exit status. ``equipment`` replaces this machine's own."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # an odd locale costs no table
    with _signals_as_interrupt():
        return _ended(arguments, equipment)


def _ended(
    arguments: Sequence[str] | None, equipment: Callable[[bool, int], Equipment] | None
) -> int:
    try:
        options = _parsed(_underscored(sys.argv[1:] if arguments is None else arguments))
        options.equipment = equipment
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except EcoError as error:
        return _told(error)
    except OSError as error:
        told = unforeseen(error)
        if told is None:
            raise
        return _told(told)
    except KeyboardInterrupt:
        say("stopped")
        return 130


def _told(error: EcoError) -> int:
    from ecocompute_cube.model.base import printable

    say(f"error: {printable(error.cause)}\n{printable(error.fix)}")
    return error.exit_status


@contextlib.contextmanager
def _signals_as_interrupt() -> Iterator[None]:
    """SIGTERM and a closed terminal stop a command as Ctrl-C does; what ``nohup`` ignores stays so.

    The first process of a container must have handlers: the system drops its signals otherwise.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python gives signals to the main thread alone
        return
    last = -math.inf

    def interrupt(number: int, frame: object) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _ECHO_S:
            last = now
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    heeded = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    for number in heeded:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, old in heeded.items():
            signal.signal(number, old)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    first = next(iter(arguments), "--help")
    if not first.startswith("-"):
        _check_command(first)
    elif first.partition("=")[0] not in parser._option_string_actions:
        parser.refuse([first])
    try:
        options, unknown = parser.parse_known_args(arguments)
    finally:
        write("")  # what --help printed is flushed here, where a closed pipe is no fault
    if unknown:
        options.parser.refuse(unknown)
    return options


def _check_command(name: str) -> None:
    if name not in _COMMANDS:
        close = difflib.get_close_matches(name, _COMMANDS, n=1)
        meant = f"Did you mean {close[0]}?" if close else f"Commands: {', '.join(_COMMANDS)}."
        raise UsageError(f"There is no command '{name}'.", meant)


def _underscored(arguments: Sequence[str]) -> list[str]:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [*map(_option, arguments[:end]), *arguments[end:]]


def _option(text: str) -> str:
    if not text.startswith("--"):
        return text
    name, equals, value = text.partition("=")
    return f"--{name[2:].replace('-', '_')}{equals}{value}"


def _parser() -> Parser:
    parser = Parser(
        prog="ecocompute",
        description="Does quantizing a language model save energy on this GPU, by how much, and at "
        "what cost in quality?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ecocompute {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in _COMMANDS.values():
        add(commands)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
