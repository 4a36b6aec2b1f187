"""What a command writes to its terminal, where nobody may be reading."""

from __future__ import annotations

import contextlib
import os
import sys

from ecocompute_cube.errors import output_error


def write(text: str) -> None:
    """Write to standard output; a reader who has seen enough (``| head``) is no fault.

    Raises DiskFull or OutputError.
    """
    if sys.stdout is None:  # closed by whoever started us
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout.fileno())
    except OSError as error:
        _discard(sys.stdout.fileno())
        raise output_error(error, "write to standard output") from None


def say(line: str) -> None:
    """Write to standard error; that nobody reads along must not end a measurement."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr.fileno())


def _discard(descriptor: int) -> None:
    """So that what is still buffered does not complain at the exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
