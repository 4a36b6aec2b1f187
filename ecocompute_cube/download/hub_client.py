"""Asking the hub, with huggingface_hub: which files a commit has, and their bytes.

Files are streamed here and not by the library's own download function: that one starts a file anew
after it was killed, draws its own progress bars, and may hand large files to hf_xet, which cannot
be followed byte by byte. Plain HTTP is offered for the same files; what arrives is checked by hash.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from ecocompute_cube import __version__
from ecocompute_cube.download.hub_errors import (
    Asking,
    ended_early,
    in_our_words,
    no_hub,
    public_address,
    refusal,
    unreachable,
)
from ecocompute_cube.download.hub_files import HubFile, Listing
from ecocompute_cube.download.source import require_libraries
from ecocompute_cube.errors import HubRefused, UsageError
from ecocompute_cube.model.base import Absent, MaybeStr
from ecocompute_cube.model.hub_reference import is_git_hash

if TYPE_CHECKING:
    import httpx
    from huggingface_hub import ModelInfo
    from huggingface_hub.hf_api import RepoSibling

HUB: Final = "https://huggingface.co"
_TIMEOUT_S: Final = 10.0  # huggingface_hub's own default
_TRUE: Final = frozenset({"1", "ON", "YES", "TRUE"})  # what huggingface_hub takes for yes
_ADDRESS: Final = re.compile(r"https?://([^\s/@]*@)?([\w.-]+|\[[0-9a-fA-F:.]+\])(:\d+)?(/\S*)?")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")  # all that a header may hold
_NAME: Final = re.compile(r"[\w.+-]+", re.ASCII)  # of a file in a repository's top folder


@dataclass(frozen=True)
class HubSettings:
    """Where models of the hub come from: read from the environment once, and handed on."""

    cache: Path
    endpoint: str = HUB
    offline: bool = False
    #: None: what huggingface_hub finds; False: none
    token: str | Literal[False] | None = field(default=None, repr=False)
    timeout_s: float = _TIMEOUT_S  #: without a byte, until a connection counts as broken
    pause: Callable[[float], None] = time.sleep  #: between attempts, in seconds

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, cache: Path | None = None
    ) -> HubSettings:
        """As huggingface_hub reads the same variables, but now and not when it was imported.

        Raises UsageError for a cache that was named and is not there.
        """
        offline = environment.get("HF_HUB_OFFLINE") or environment.get("TRANSFORMERS_OFFLINE") or ""
        if cache is not None and not cache.is_dir():
            raise UsageError(
                f"There is no hub cache '{cache}'.",
                "Name a folder that huggingface_hub has filled with --hub_cache.",
            )
        return cls(
            endpoint=(environment.get("HF_ENDPOINT") or HUB).rstrip("/"),
            offline=offline.upper() in _TRUE,
            cache=cache or _cache_of(environment),
            timeout_s=_timeout_of(environment),
        )


def _cache_of(environment: Mapping[str, str]) -> Path:
    named = environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE")
    base = environment.get("XDG_CACHE_HOME") or "~/.cache"
    home = environment.get("HF_HOME") or f"{base}/huggingface"
    return Path(os.path.expandvars(os.path.expanduser(named or f"{home}/hub")))


def _timeout_of(environment: Mapping[str, str]) -> float:
    """In whole seconds; what huggingface_hub cannot read is refused when it is loaded."""
    named = environment.get("HF_HUB_DOWNLOAD_TIMEOUT", "").strip()
    return float(named) if named.isdecimal() and int(named) else _TIMEOUT_S


class HubClient:
    """One hub, asked with one token."""

    def __init__(self, settings: HubSettings) -> None:
        if not _ADDRESS.fullmatch(settings.endpoint):
            raise UsageError(
                f"HF_ENDPOINT is '{public_address(settings.endpoint)}', which is no address.",
                f"Write it as {HUB}, or unset it.",
            )
        _require_library()
        self._settings = settings

    @cached_property
    def _token(self) -> str | None:
        """The token that is sent: never said, and nothing that a header could not hold."""
        try:
            given = self._settings.token
            token = _own_token() if given is None else given or None
        except Exception as error:  # a token file without permission, a failed exchange in CI, …
            raise HubRefused(
                f"The token for the hub cannot be had ({type(error).__name__}).",
                "Check HF_TOKEN, or the file that `hf auth login` wrote.",
            ) from None
        if token and not _TOKEN.fullmatch(token):
            raise HubRefused(
                "The token for the hub holds a space or another character that no token has.",
                "Set HF_TOKEN to the token alone, as the hub showed it.",
            )
        return token

    @cached_property
    def _headers(self) -> Mapping[str, str]:
        """Ours: to name itself, the library would ask the hub what runs it, and cache that."""
        from huggingface_hub import __version__ as library

        headers = {"User-Agent": f"ecocompute-cube/{__version__}; hf_hub/{library}"}
        return headers | ({"Authorization": f"Bearer {self._token}"} if self._token else {})

    def asking(self, repository: str, revision: str) -> Asking:
        """What is asked for, for sentences about the answer."""
        settings = self._settings
        return Asking(settings.endpoint, repository, revision, self._token, settings.timeout_s)

    def listing(self, repository: str, revision: str) -> Listing:
        """The commit behind a revision, and its files.

        Raises HubRefused, HubBusy or HubUnreachable.
        """
        from huggingface_hub import ModelInfo

        asking = self.asking(repository, revision)
        at = f"api/models/{repository}/revision/{quote(revision, safe='')}"
        with in_our_words(asking), _quiet():
            answer = _session(asking).get(
                f"{self._settings.endpoint}/{at}",
                params={"blobs": "true"},  # with sizes and hashes
                headers=self._headers,
                timeout=self._settings.timeout_s,
            )
        if answer.is_error:
            raise refusal(answer, asking)
        try:
            info = ModelInfo(**answer.json())  # type: ignore[no-untyped-call]  # theirs
            return _as_listing(info)
        except (ValueError, TypeError, KeyError, AttributeError):  # an answer, but not the hub's
            raise no_hub(asking) from None

    @contextlib.contextmanager
    def reading(
        self, repository: str, commit: str, name: str, start: int
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """A file's bytes, and the place that they begin at: ``start``, or 0 if the hub insists.

        Raises HubRefused, HubBusy or HubUnreachable, here and while bytes are taken.
        """
        from huggingface_hub import hf_hub_url

        asking = self.asking(repository, commit)
        url = hf_hub_url(repository, name, revision=commit, endpoint=self._settings.endpoint)
        # Unpacked: the place to begin at is one in the file.
        headers = {**self._headers, "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        timeout = self._settings.timeout_s
        with (
            in_our_words(asking),
            _quiet(),
            _session(asking).stream("GET", url, headers=headers, timeout=timeout) as answer,
        ):
            if answer.status_code == 416:  # noqa: PLR2004 (RFC 9110: there is nothing from there on)
                raise ended_early(asking, name, start)
            if answer.is_error:
                raise refusal(answer, asking)
            goes_on = answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            yield start if start and goes_on else 0, answer.iter_bytes()


def _require_library() -> None:
    """Make sure that huggingface_hub is there and understands its environment.

    Raises ModelError, UsageError.
    """
    require_libraries(("huggingface_hub",), "fetch models from the hub")
    try:
        import huggingface_hub.constants  # noqa: F401 (which reads the environment)
    except ValueError as error:
        raise UsageError(
            f"huggingface_hub does not understand a variable of its own ({error}).",
            "Correct or unset HF_HUB_DOWNLOAD_TIMEOUT and HF_HUB_ETAG_TIMEOUT: whole seconds.",
        ) from None


def _own_token() -> str | None:
    """What huggingface_hub finds in the environment, or in the file of its log-in."""
    from huggingface_hub import constants, get_token

    return None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()


def _session(asking: Asking) -> httpx.Client:
    """The library's client, with the user's proxies and certificates. Raises HubUnreachable."""
    from huggingface_hub import get_session

    try:
        return get_session()
    except (ImportError, OSError, ValueError) as error:  # proxies or certificates that are none
        raise unreachable(asking, f"the client cannot start: {asking.clean(str(error))}") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Our own lines say what there is to say; the library's warnings would stand between them."""
    from huggingface_hub.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # theirs
    try:
        yield
    finally:
        logging.set_verbosity(level)


def _as_listing(info: ModelInfo) -> Listing:
    if not is_git_hash(info.sha or "") or info.siblings is None:
        raise ValueError
    files = (_as_file(each) for each in info.siblings if _NAME.fullmatch(each.rfilename))
    return Listing(str(info.sha), {file.name: file for file in files}, _license(info))


def _as_file(sibling: RepoSibling) -> HubFile:
    if sibling.size is None or not (sibling.lfs or sibling.blob_id):
        raise ValueError
    sha256 = sibling.lfs.sha256 if sibling.lfs else None
    return HubFile(sibling.rfilename, sibling.size, sha256, None if sha256 else sibling.blob_id)


def _license(info: ModelInfo) -> MaybeStr:
    card: Any = info.card_data or {}
    named = card.get("license")
    if named == "other":
        named = card.get("license_name") or named
    if isinstance(named, list):
        named = ", ".join(map(str, named))
    if isinstance(named, str) and named:
        return named
    return Absent(reason="The model's card names no licence.")
