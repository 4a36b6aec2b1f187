"""Asking a service that keeps records, over HTTP: what is tried again, and what its answers mean.

    429                       wait as it says, then again
    5xx, a broken connection  wait, then again, but only where doing it twice does no harm
    other 4xx                 its own words, cleaned, and the end

The token stands in one header of one client. No sentence holds it, and no redirect carries it away.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ecocompute_cube import __version__
from ecocompute_cube.archive.words import one_line
from ecocompute_cube.errors import (
    ServiceBusy,
    ServiceError,
    ServiceRefused,
    ServiceUnreachable,
    UsageError,
)

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]
Say = Callable[[str], None]

_TIMEOUT_S: Final = 60.0  # without a byte, until a connection counts as broken
_ATTEMPTS: Final = 6
_MOST_ANSWER: Final = 2**24  # bytes; a record of a hundred files is told in some 100 kB
_LONGEST_ANSWER_S: Final = 300.0
_LONGEST_WAIT_S: Final = 900.0  # Zenodo counts requests by the minute and by the hour
_SUCCESS: Final = range(200, 300)
_NOT_FOUND: Final = 404
_SERVER_FAULT: Final = 500
_TOO_MANY: Final = 429
_UNAVAILABLE: Final = 503
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")  # all that a header may hold
_KEPT: Final = "run the same command again: what has arrived is kept"


class Service(NamedTuple):
    """A service, and where its token is looked for."""

    name: str
    address: str
    variable: str


SANDBOX: Final = Service("Zenodo's sandbox", "https://sandbox.zenodo.org", "ZENODO_SANDBOX_TOKEN")
ZENODO: Final = Service("Zenodo", "https://zenodo.org", "ZENODO_TOKEN")


class Upload(NamedTuple):
    """A body that can be sent again from its beginning."""

    size: int
    pieces: Callable[[], Iterable[bytes]]


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: Json  #: empty where it was none
    headers: Mapping[str, str]


def token_of(service: Service, environment: Mapping[str, str]) -> str:
    """The token, from the environment alone. Raises UsageError."""
    token = environment.get(service.variable, "").strip()
    if not token:
        raise UsageError(
            f"{service.variable} is not set: {service.name} takes nothing without a token.",
            f"Make one at {service.address}/account/settings/applications/tokens/new/ with the "
            f"scopes deposit:write and deposit:actions, and set {service.variable} to it.",
        )
    if not _TOKEN.fullmatch(token):
        raise UsageError(
            f"{service.variable} holds a character that no token has.",
            "Set it to the token alone, as the service showed it.",
        )
    return token


class Client:
    """One service, asked with one token."""

    def __init__(
        self,
        service: Service,
        token: str,
        say: Say,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises UsageError when httpx is not installed, or cannot work in this environment."""
        self.service = service
        self._token = token
        self._say = say
        self._pause = pause
        self._clock = clock
        self._http = _http_client(service.address, token)

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    def get(self, path: str) -> Answer | None:
        """What is there; None for nothing. Raises ServiceError."""
        answer = self._asked("GET", path, again=True, missing=True)
        return None if answer.status == _NOT_FOUND else answer

    def post(self, path: str, body: object = None, *, again: bool = False) -> Answer:
        """Have something made or done. ``again``: twice does no harm. Raises ServiceError."""
        return self._asked("POST", path, body, again=again)

    def put(self, path: str, body: object) -> Answer:
        """Put a document in its place. Raises ServiceError."""
        return self._asked("PUT", path, body, again=True)

    def delete(self, path: str) -> None:
        """Take something away, if it is there. Raises ServiceError."""
        self._asked("DELETE", path, again=True, missing=True)

    def send(self, path: str, upload: Upload) -> Answer:
        """Put a file's bytes in their place. Raises ServiceError."""
        return self._asked("PUT", path, upload=upload, again=True)

    def _asked(
        self,
        method: str,
        path: str,
        body: object = None,
        upload: Upload | None = None,
        *,
        again: bool,
        missing: bool = False,
    ) -> Answer:
        for attempt in range(1, _ATTEMPTS + 1):
            last = attempt == _ATTEMPTS
            try:
                answer = self._once(method, path, body, upload)
            except ServiceUnreachable as error:
                if last or not again:
                    raise
                self._wait(2.0**attempt, error.cause)
                continue
            status = answer.status
            asked_to_wait = status == _TOO_MANY or (status >= _SERVER_FAULT and again)
            if not asked_to_wait or last:
                return self._understood(answer, missing=missing)
            told = _retry_after(answer.headers)
            wait_s = 2.0**attempt if told is None else told
            if wait_s > _LONGEST_WAIT_S:
                raise self._busy(answer)
            self._wait(wait_s, f"{self.service.name} answered with status {status}.")
        raise AssertionError("the last attempt returns or raises")

    def _wait(self, wait_s: float, why: str) -> None:
        self._say(f"{why} Trying again in {wait_s:.0f} s.")
        self._pause(wait_s)

    def _once(self, method: str, path: str, body: object, upload: Upload | None) -> Answer:
        more: Json = {} if body is None else {"json": body}
        if upload is not None:
            kind = "application/octet-stream"
            headers = {"Content-Type": kind, "Content-Length": str(upload.size)}
            more = {"content": upload.pieces(), "headers": headers}
        with self._in_our_words(), self._http.stream(method, path, **more) as response:
            return Answer(response.status_code, _json(self._whole(response)), response.headers)

    def _whole(self, response: httpx.Response) -> bytes:
        """The body, if it comes to an end. Raises ServiceUnreachable."""
        begun, data = self._clock(), b""
        for piece in response.iter_bytes():
            data += piece
            if len(data) > _MOST_ANSWER or self._clock() - begun > _LONGEST_ANSWER_S:
                raise ServiceUnreachable(
                    f"{self.service.name} gives an answer that comes to no end.",
                    f"Wait a while and {_KEPT}.",
                )
        return data

    @contextlib.contextmanager
    def _in_our_words(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            why = self._clean(str(error)).rstrip(".") or type(error).__name__
            raise ServiceUnreachable(
                f"{self.service.name} cannot be reached, or broke off ({why}).",
                f"Check the network and {_KEPT}.",
            ) from None

    def _understood(self, answer: Answer, *, missing: bool) -> Answer:
        status = answer.status
        if status in _SUCCESS or (missing and status == _NOT_FOUND):
            return answer
        if status == _TOO_MANY:
            raise self._busy(answer)
        if status >= _SERVER_FAULT:
            raise ServiceUnreachable(
                f"{self.service.name} failed by itself (status {status}).",
                f"Wait a while and {_KEPT}.",
            )
        raise self._refused(status, answer.body)

    def _busy(self, answer: Answer) -> ServiceBusy:
        told = _retry_after(answer.headers)
        wait = "some minutes" if told is None else f"{told:.0f} s"
        return ServiceBusy(
            f"{self.service.name} wants fewer requests (status {answer.status}).",
            f"Wait {wait} and {_KEPT}.",
        )

    def _refused(self, status: int, body: Json) -> ServiceError:
        if status in (401, 403):
            return ServiceRefused(
                f"{self.service.name} does not accept the token for this (status {status}).",
                f"Set {self.service.variable} to a token of the account that owns the record, with "
                "the scopes deposit:write and deposit:actions.",
            )
        said = "; ".join(self.complaints(body)) or self._clean(str(body.get("message", "")))
        said = said.rstrip(".")
        return ServiceRefused(
            f"{self.service.name} refuses this (status {status}){f': {said}' if said else ''}.",
            "Correct what it names; what has arrived is kept there as a draft.",
        )

    def complaints(self, body: Json) -> list[str]:
        """What the service finds wrong with a document, one text a field."""
        found = body.get("errors")
        told = []
        for each in found if isinstance(found, list) else []:
            if isinstance(each, dict):
                said = each.get("messages", each.get("message", ""))
                text = ", ".join(map(str, said)) if isinstance(said, list) else str(said)
                told.append(self._clean(f"{each.get('field', '')}: {text}"))
        return told

    def _clean(self, text: str) -> str:
        return one_line(text.replace(self._token, "…"), 400)


def _json(data: bytes) -> Json:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):  # of a fault, or where nothing needs to be said
        return {}
    return body if isinstance(body, dict) else {}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from either form of the header; a date is taken against the answer's own clock."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    with contextlib.suppress(ValueError, TypeError):
        until, now = (parsedate_to_datetime(each) for each in (text, headers.get("Date", "")))
        return max(0.0, (until - now).total_seconds())
    return None


def _http_client(address: str, token: str) -> httpx.Client:
    try:
        import httpx
    except ImportError:
        raise UsageError(
            "Nothing can be uploaded: httpx is not installed.",
            "Run make setup, or install the package with its 'upload' extra.",
        ) from None
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json",
        "Accept-Encoding": "identity",  # a small answer that unpacks to a large one
        "User-Agent": f"ecocompute-cube/{__version__}",
    }
    try:
        return httpx.Client(base_url=address, headers=headers, timeout=_TIMEOUT_S)
    except (ImportError, OSError, ValueError, httpx.InvalidURL):  # words may hold a password
        raise UsageError(
            "No connection can be made with the proxy or the certificates of this environment.",
            "Look at HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR; a proxy is "
            "http://HOST:PORT.",
        ) from None
