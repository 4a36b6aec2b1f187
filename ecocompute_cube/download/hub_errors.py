"""What the hub's refusals and silences mean, in our words. No sentence here holds a token."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ecocompute_cube.errors import HubBusy, HubRefused, HubUnreachable, ModelCorrupt, ModelError
from ecocompute_cube.model.base import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

_KEPT: Final = "run the same command again: what has arrived is kept"
_LONGEST: Final = 160  # characters of somebody else's words
_RESET: Final = re.compile(r";\s*t\s*=\s*(\d+)")  # seconds, in the hub's ratelimit header


@dataclass(frozen=True)
class Asking:
    """What the hub was asked for, for sentences about its answer."""

    endpoint: str
    repository: str
    revision: str
    token: str | None
    timeout_s: float

    def __repr__(self) -> str:
        return f"Asking({self.repository}@{self.revision})"

    @property
    def host(self) -> str:
        """The hub's address without a name or password in it."""
        return public_address(self.endpoint)

    @property
    def page(self) -> str:
        """The model's page."""
        return f"{self.host}/{self.repository}"

    def clean(self, text: str) -> str:
        """Somebody else's words on one line, without the token, and not too many."""
        if self.token:
            text = text.replace(self.token, "…")
        return printable(" ".join(text.split()))[:_LONGEST].rstrip(".")


def public_address(endpoint: str) -> str:
    """An address without the name and password that it may hold."""
    return re.sub("//[^/]*@", "//", endpoint)


@contextlib.contextmanager
def in_our_words(asking: Asking) -> Iterator[None]:
    """Turn whatever the client raises into an error of ours.

    Raises HubUnreachable; an OSError of the disk passes.
    """
    import httpx
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        yield
    except OfflineModeIsEnabled:
        raise unreachable(asking, "the client was told to stay offline") from None
    except httpx.ReadTimeout:
        raise stalled(asking) from None
    except (httpx.ReadError, httpx.RemoteProtocolError) as error:
        raise broke_off(asking, _silence(error, asking)) from None
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        raise unreachable(asking, _silence(error, asking)) from None


def refusal(response: httpx.Response, asking: Asking) -> ModelError:
    """What an answer of status 400 or more means."""
    status = response.status_code
    if status == 429:  # noqa: PLR2004 (RFC 6585: too many requests)
        return _busy(response.headers, asking)
    if status >= 500:  # noqa: PLR2004 (RFC 9110: the server's own fault)
        return HubUnreachable(
            f"The hub at {asking.host} failed by itself (status {status}).",
            f"Wait a while and {_KEPT}; another hub can be named with HF_ENDPOINT.",
        )
    return _denied(response, asking)


def _denied(response: httpx.Response, asking: Asking) -> HubRefused:
    status, code = response.status_code, response.headers.get("X-Error-Code", "")
    if status == 401 and asking.token:  # noqa: PLR2004 (RFC 9110: who are you?)
        return HubRefused(
            f"The hub at {asking.host} does not accept the token that was sent with the request.",
            "Set HF_TOKEN to a valid token with the right to read, or take the invalid one out of "
            "HF_TOKEN and of the file that `hf auth login` wrote.",
        )
    if code == "GatedRepo":
        return _gated(asking)
    if code == "RevisionNotFound":
        return HubRefused(
            f"{asking.repository} has no branch, tag or commit '{asking.revision}' on the hub.",
            f"See {asking.page}/tree/main for those it has.",
        )
    if status == 404 or code == "RepoNotFound" or status == 401:  # noqa: PLR2004 (RFC 9110)
        return _not_found(asking, code)
    words = response.headers.get("X-Error-Message", "")
    said = f": {asking.clean(words)}" if words else ""
    return HubRefused(
        f"The hub does not hand out {asking.repository} (status {status}{said}).",
        f"See {asking.page}, and whether the token, if there is one, has the right to read it.",
    )


def unreachable(asking: Asking, why: str) -> HubUnreachable:
    """The hub cannot be asked."""
    return HubUnreachable(
        f"The hub at {asking.host} cannot be reached ({why}).",
        f"Check the network and {_KEPT}. A mirror is named with HF_ENDPOINT; with "
        "HF_HUB_OFFLINE=1 models come from the local hub cache alone.",
    )


def broke_off(asking: Asking, why: str) -> HubUnreachable:
    """The hub began to answer, or was about to."""
    return HubUnreachable(
        f"The hub at {asking.host} broke off ({why}).", f"Check the network and {_KEPT}."
    )


def stalled(asking: Asking) -> HubUnreachable:
    """The hub has taken the question, and then there was silence."""
    return HubUnreachable(
        f"The hub at {asking.host} broke off (nothing came for {asking.timeout_s:g} s).",
        f"Check the network and {_KEPT}; HF_HUB_DOWNLOAD_TIMEOUT sets how many seconds are waited.",
    )


def no_hub(asking: Asking) -> HubUnreachable:
    """Something answers, but not in the hub's way."""
    return HubUnreachable(
        f"What answers at {asking.host} is no Hugging Face hub.",
        "Check HF_ENDPOINT, and whether a login page of the network answers in its place.",
    )


def stopped(asking: Asking, name: str, have: int, size: int) -> HubUnreachable:
    """A file ended early."""
    return HubUnreachable(
        f"The hub at {asking.host} stopped in the middle of {name}, after {have} of {size} bytes.",
        f"Check the network and {_KEPT}.",
    )


def ended_early(asking: Asking, name: str, size: int) -> ModelCorrupt:
    """A file is shorter than its listing says."""
    return ModelCorrupt(
        f"{name} of {asking.repository} ends after {size} bytes, before the size that the hub at "
        f"{asking.host} promised.",
        f"See {asking.page}, or whether a mirror or a proxy cuts files short.",
    )


def _gated(asking: Asking) -> HubRefused:
    if asking.token:
        return HubRefused(
            f"{asking.repository} is gated, and the account of the token has no access: its "
            "licence is not accepted yet, or its owner has not answered.",
            f"Accept the licence at {asking.page} with that account and run the same command "
            "again; a fine-grained token also needs the right to read gated repositories.",
        )
    return HubRefused(
        f"{asking.repository} is gated: the hub hands it only to accounts that have accepted its "
        "licence, and no token was sent.",
        f"Accept the licence at {asking.page}, set HF_TOKEN to a token of that account, and run "
        "the same command again.",
    )


def _not_found(asking: Asking, code: str) -> HubRefused:
    if code == "EntryNotFound":
        return HubRefused(
            f"A file of {asking.repository} that the hub lists is not there.",
            f"See {asking.page}, and try again later.",
        )
    if asking.token:
        return HubRefused(
            f"The hub at {asking.host} knows no model '{asking.repository}' that the account of "
            "the token may see.",
            f"Check the name at {asking.page} with that account.",
        )
    return HubRefused(
        f"The hub at {asking.host} knows no model '{asking.repository}', or it is private and no "
        "token was sent.",
        f"Check the name at {asking.page}; for a private model set HF_TOKEN.",
    )


def _busy(headers: Mapping[str, str], asking: Asking) -> HubBusy:
    wait = _wait(headers, asking)
    asks = f"asks to wait {wait}" if wait else "does not say how long to wait"
    more = "" if asking.token else "; with a token in HF_TOKEN the hub allows more"
    return HubBusy(
        f"The hub at {asking.host} has had too many requests from here and {asks} (status 429).",
        f"Wait {wait or 'some minutes'} and {_KEPT}{more}.",
    )


def _wait(headers: Mapping[str, str], asking: Asking) -> str | None:
    after = headers.get("Retry-After", "").strip()
    reset = _RESET.search(headers.get("ratelimit", ""))
    if after.isdecimal():
        return f"{int(after)} s"
    if after:  # a date, as RFC 9110 allows
        return f"until {asking.clean(after)}"
    return f"{int(reset[1])} s" if reset else None


def _silence(error: Exception, asking: Asking) -> str:
    """Why no answer came. Only what the network says: a fault of our own may quote a header."""
    import httpx

    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    if isinstance(error, httpx.NetworkError | httpx.ProxyError | httpx.RemoteProtocolError):
        return asking.clean(str(error)) or type(error).__name__
    return type(error).__name__
