"""How a plan names a model on the Hugging Face hub: ``hub:OWNER/NAME@REVISION``."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ecocompute_cube.errors import PlanError
from ecocompute_cube.model.base import printable, sha256_hex

HUB_PREFIX: Final = "hub:"
MAIN: Final = "main"  #: the branch that is meant where none is named

_FORM: Final = "Write hub:OWNER/NAME or hub:OWNER/NAME@REVISION, as the model's page names it."
#: The hub's own rule: letters, digits, '-', '_' and '.', at most 96, neither '-' nor '.' at an end.
_PART: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?")
#: Git's rule for names of branches and tags (git-check-ref-format), less what no shell likes.
_REVISION: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.+/-]{0,126}[A-Za-z0-9_+-])?")
_NO_REVISION: Final = re.compile(r"\.\.|//|/\.|\./|\.lock(/|$)")
_GIT_HASH: Final = re.compile(r"[0-9a-f]{40}")  # Git's SHA-1
_SHORT: Final = 12  # digits of a commit that tell it from any other of a repository
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9]|[A-Za-z0-9]")
_LONGEST: Final = 100  # characters: with workload and precision it stays a file name (255)

#: Other ways of saying the same, which are answered with the right one.
_OTHER_PREFIX: Final = re.compile(r"(?:hub|hf|huggingface):(?://)?(.*)", re.IGNORECASE)
_ADDRESS: Final = re.compile(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/"
    r"([^/?#]+(?:/[^/?#]+)?)(?:/(?:tree|blob|resolve)/([^?#]+?))?/?(?:[?#].*)?",
    re.IGNORECASE,
)


class HubReference(NamedTuple):
    """A repository of the hub and what is asked of its history."""

    repository: str  #: OWNER/NAME, or NAME alone for the oldest ones
    revision: str = MAIN  #: a branch, a tag or a whole commit

    def __str__(self) -> str:
        at = "" if self.revision == MAIN else f"@{self.revision}"
        return f"{HUB_PREFIX}{self.repository}{at}"

    @property
    def commit(self) -> str | None:
        """The revision where it is a commit, which never moves."""
        return self.revision if is_git_hash(self.revision) else None

    @property
    def slug(self) -> str:
        """A name of its own that is safe in paths: letters, digits, dot and hyphen.

        No repository holds ``--``, so that ``--`` can stand for the slash and ``---`` for the @.
        """
        at = "" if self.revision == MAIN else f"---{self._short}"
        text = f"hub-{self.repository.replace('/', '--')}{at}"
        if _PLAIN.fullmatch(text) and len(text) <= _LONGEST and not self._mistakable:
            return text
        kept = re.sub(r"[^A-Za-z0-9.-]", "-", text)[:_LONGEST]
        return f"{kept}---{sha256_hex(str(self).encode())[:_SHORT]}"

    @property
    def name(self) -> str:
        """For people: the repository, and the revision with a commit cut short."""
        return f"{self.repository}@{self._short}"

    @property
    def _short(self) -> str:
        return self.commit[:_SHORT] if self.commit else self.revision

    @property
    def _mistakable(self) -> bool:
        """Whether a branch or tag looks like a commit cut short, or like what tells names apart."""
        return self.commit is None and re.search(r"---|^[0-9a-f]{12}$", self.revision) is not None


def is_git_hash(text: str) -> bool:
    """Whether a text is a whole hash of Git's: the name of a commit, or of a file's content."""
    return _GIT_HASH.fullmatch(text) is not None


def parse_hub(text: str) -> HubReference:
    """What ``hub:OWNER/NAME@REVISION`` names.

    Raises PlanError, saying what is wrong with it.
    """
    repository, at, revision = text.removeprefix(HUB_PREFIX).partition("@")
    if fault := _repository_fault(repository):
        raise _malformed(text, fault, repository)
    if not at:
        return HubReference(repository)
    revision = revision.lower() if is_git_hash(revision.lower()) else revision
    if not revision:
        raise _malformed(text, "there is no revision behind the @")
    if not _REVISION.fullmatch(revision) or _NO_REVISION.search(revision):
        raise _malformed(text, f"'{revision[:60]}' is no branch, tag or commit")
    return HubReference(repository, revision)


def meant_hub(text: str) -> str | None:
    """The reference that was probably meant by an address or another prefix, or None."""
    other = _OTHER_PREFIX.fullmatch(text)
    found = _ADDRESS.fullmatch(other[1] if other else text)
    if found:
        return _whole(found[1] + (f"@{found[2]}" if found[2] else ""))
    return _whole(other[1]) if other else None


def meant_by_path(text: str) -> str | None:
    """The reference for ``OWNER/NAME`` where a path was expected, or None."""
    return _whole(text) if text.count("/") == 1 else None


def _whole(text: str) -> str | None:
    try:
        return str(parse_hub(HUB_PREFIX + text))
    except PlanError:
        return None


def _repository_fault(repository: str) -> str | None:
    parts = repository.split("/")
    if not all(parts):
        return "a name is missing"
    if len(parts) > 2:  # noqa: PLR2004 (owner and name)
        return "there is more than one slash"
    if not all(_PART.fullmatch(part) for part in parts):
        return (
            "a name there has letters, digits, '-', '_' and '.', at most 96, and begins and "
            "ends with a letter or digit"
        )
    if "--" in repository or ".." in repository or repository.endswith(".git"):
        return "no name there holds '--' or '..', or ends with '.git'"
    return None


def _malformed(text: str, fault: str, repository: str = "") -> PlanError:
    meant = meant_hub(repository)
    return PlanError(
        f"'{printable(text)[:160]}' is no model of the hub: {fault}.",
        f"Did you mean {meant}?" if meant else _FORM,
    )
