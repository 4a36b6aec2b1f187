"""How many requests a client may make: a token bucket each, and not too many clients."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MOST_CLIENTS: Final = (
    10_000  # the one unseen for longest is forgotten: its bucket was full, mostly
)
_S_PER_MIN: Final = 60.0


class RateLimit:
    """So many requests a minute, and a minute's worth at once."""

    def __init__(self, per_minute: int, now: Callable[[], float]) -> None:
        self._per_s = per_minute / _S_PER_MIN
        self._most = float(per_minute)
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, when

    def wait_s(self, client: str) -> int:
        """0 if the client may go on (and that is counted), else whole seconds until it may."""
        now = self._now()
        left, seen = self._left.pop(client, (self._most, now))
        left = min(self._most, left + (now - seen) * self._per_s)
        allowed = left >= 1
        self._left[client] = (left - 1 if allowed else left, now)
        if len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
        return 0 if allowed else math.ceil((1 - left) / self._per_s)


def client_of(peer: str, forwarded: Iterable[bytes], proxies: int) -> str:
    """Who asks: the peer, or with ``proxies`` in front whom the outermost of them saw.

    Each proxy adds whom it saw to the right of ``X-Forwarded-For``; what stands further left is
    whatever the client wrote, and is not believed.
    """
    if not proxies:
        return peer
    told = [part.strip() for line in forwarded for part in line.decode("latin-1").split(",")]
    return told[-proxies] if len(told) >= proxies and told[-proxies] else peer
