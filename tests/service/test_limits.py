"""How many requests a client may make."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecocompute_cube.service.limits import RateLimit, client_of
from tests.service.asking import ask

PER_MINUTE: Final = 6


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@given(st.lists(st.floats(0, 30), max_size=80))
def test_no_minute_has_more_than_two_minutes_worth(pauses: list[float]) -> None:
    clock, allowed = Clock(), []
    limit = RateLimit(PER_MINUTE, clock)
    for pause in pauses:
        clock.now_s += pause
        if not limit.wait_s("a"):
            allowed.append(clock.now_s)
    for start in allowed:  # a full bucket, and what drips in meanwhile
        assert sum(start <= at < start + 60 for at in allowed) <= 2 * PER_MINUTE


@given(st.integers(0, 40))
def test_who_waits_as_long_as_told_may_go_on(before: int) -> None:
    clock = Clock()
    limit = RateLimit(PER_MINUTE, clock)
    for _ in range(before):
        limit.wait_s("a")
    wait_s = limit.wait_s("a")
    clock.now_s += wait_s
    assert limit.wait_s("a") == 0 or wait_s == 0


def test_clients_do_not_share_a_bucket() -> None:
    limit = RateLimit(1, Clock())
    assert [limit.wait_s("a"), limit.wait_s("a"), limit.wait_s("b")] == [0, 60, 0]


def test_who_asks_too_often_is_told_when_to_come_back() -> None:
    limit = RateLimit(1, Clock())
    assert ask("GET", "/health", limit=limit).status_code == 200
    found = ask("GET", "/health", limit=limit)
    assert (found.status_code, found.headers["retry-after"]) == (429, "60")
    assert found.json()["error"]


@pytest.mark.parametrize(
    ("forwarded", "proxies", "client"),
    [
        ([b"6.6.6.6"], 0, "peer"),
        ([], 1, "peer"),
        ([b"1.2.3.4"], 1, "1.2.3.4"),
        ([b"6.6.6.6, 1.2.3.4"], 1, "1.2.3.4"),
        ([b"6.6.6.6", b"1.2.3.4, 10.0.0.1"], 2, "1.2.3.4"),
        ([b"10.0.0.1"], 2, "peer"),
        ([b"1.2.3.4, "], 1, "peer"),
    ],
)
def test_only_proxies_that_are_said_to_be_there_are_believed(
    forwarded: list[bytes], proxies: int, client: str
) -> None:
    assert client_of("peer", forwarded, proxies) == client


def test_behind_a_proxy_clients_are_told_apart() -> None:
    limit = RateLimit(1, Clock())
    first, other = ({"x-forwarded-for": f"6.6.6.6, 1.2.3.{n}"} for n in (4, 5))
    found = [
        ask("GET", "/health", limit=limit, proxies=1, headers=headers).status_code
        for headers in (first, other, first)
    ]
    assert found == [200, 200, 429]
