"""Who stands behind a run: a detached signature over its journal, made and checked by OpenSSH.

    ssh-keygen -Y sign -f ~/.ssh/id_ed25519 -n ecocompute RUN/journal.jsonl

leaves ``journal.jsonl.sig``. The journal holds the hash of every trace and of every model file, and
every document is computed from it, so its signature covers all of them (ssh-keygen(1), SIGNATURES).
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from ecocompute_cube.errors import UsageError

NAMESPACE: Final = "ecocompute"  #: so that a signature made for something else is none
SUFFIX: Final = ".sig"
_TIMEOUT_S: Final = 30.0


class Signature(NamedTuple):
    """Whose signature stands under a journal, or why nobody's does."""

    principal: str | None  #: as the file of allowed signers names them
    trouble: str | None  #: a sentence


def is_signed(journal: Path) -> bool:
    """Whether a signature lies beside a journal."""
    return _signature_of(journal).is_file()


def check_signature(journal: Path, signers: Path, program: str = "ssh-keygen") -> Signature:
    """Who of the allowed signers has signed this journal as it is.

    ``signers`` is in the form of ssh-keygen(1), ALLOWED SIGNERS. Raises UsageError when the file or
    ``ssh-keygen`` is not there.
    """
    if not signers.is_file():
        raise UsageError(
            f"There is no file of allowed signers '{signers}'.",
            "Write one line a person: NAME ssh-ed25519 AAAA… (ssh-keygen(1), ALLOWED SIGNERS).",
        )
    if not is_signed(journal):
        return Signature(None, "Nobody has signed the journal.")
    given = ["-s", str(_signature_of(journal).absolute()), "-f", str(signers.absolute())]
    found = _ask(program, ["find-principals", *given], journal)
    if found.returncode != 0 or not found.stdout.strip():
        return Signature(None, "The journal's signature is by none of the allowed signers.")
    principal = found.stdout.decode("utf-8", "replace").splitlines()[0]
    checked = _ask(program, ["verify", *given, "-I", principal, "-n", NAMESPACE], journal)
    if checked.returncode != 0:
        return Signature(None, "The journal is not as it was when it was signed.")
    return Signature(principal, None)


def _signature_of(journal: Path) -> Path:
    return journal.with_name(journal.name + SUFFIX)


def _ask(program: str, words: list[str], journal: Path) -> subprocess.CompletedProcess[bytes]:
    try:
        with journal.open("rb") as message:
            return subprocess.run(  # noqa: S603 (OpenSSH, and arguments of our own)
                [program, "-Y", *words],
                stdin=message,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
    except FileNotFoundError:
        raise UsageError(
            f"'{program}' is not here, and signatures are checked with it.",
            "Install OpenSSH's client, or leave --signers out.",
        ) from None
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"'{program}' did not answer within {_TIMEOUT_S:.0f} s.", "Try it by hand."
        ) from None
