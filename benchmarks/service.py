"""``ecocompute serve`` under load: requests a second, latencies, memory, and whether it grows.

``python -m benchmarks.service [--seconds S]``: 64 connections that stay open ask
``GET /v1/estimate``, each as soon as it has its answer; reach 3,000 requests/s, 60 ms in the 99th
percentile and 150 MB on two cores, of which this program takes its share. ``--minutes M`` asks good
and bad things of every endpoint at half that rate, and ends with 1 at any status that is not
expected, and at more than 5 MB of growth after the first tenth. The server is a process of its own,
started as a user starts it. Every question is another one, so that nothing remembered helps.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

from benchmarks.estimate import questions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

CONNECTIONS: Final = 64
_QUESTIONS: Final = 50_000
_WARM_S: Final = 1.0
_REACH_PER_S: Final = 3000.0
_REACH_P99_MS: Final = 60.0
_REACH_MB: Final = 150.0
_GROWTH_MB: Final = 5.0
_LENGTH: Final = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class Asked(NamedTuple):
    """One request, and the statuses that answer it rightly."""

    request: bytes
    statuses: tuple[int, ...] = (200,)


class Load(asyncio.Protocol):
    """One connection: asks, waits for the whole answer, asks again."""

    def __init__(self, asking: Iterator[Asked], pause_s: Callable[[], float]) -> None:
        self._asking, self._pause_s = asking, pause_s
        self.taken_s: list[float] = []
        self.wrong: Counter[str] = Counter()
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The first question."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """What is there of an answer."""
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self._buffer, 0, end)
        if len(self._buffer) < end + 4 + (int(length[1]) if length else 0):
            return
        self._end(int(self._buffer[9:12]))

    def connection_lost(self, exc: Exception | None) -> None:
        """Not by us, while the load runs."""
        self.wrong["connection lost"] += 1

    def _ask(self) -> None:
        if not self._transport.is_closing():
            self._asked = next(self._asking)
            self._start = time.perf_counter()
            self._transport.write(self._asked.request)

    def _end(self, status: int) -> None:
        self.taken_s.append(time.perf_counter() - self._start)
        if status not in self._asked.statuses:
            self.wrong[f"{status} for {self._asked.request[:80]!r}"] += 1
        self._buffer = b""
        pause = self._pause_s()
        if pause > 0:
            asyncio.get_running_loop().call_later(pause, self._ask)
        else:
            self._ask()


def estimates() -> Iterator[Asked]:
    """Distinct questions, over and over."""
    asked = [_get("/v1/estimate", each) for each in questions(_QUESTIONS, seed=1)]
    return itertools.cycle(asked)


def mixed() -> Iterator[Asked]:
    """Good and bad things, of every endpoint."""
    good = estimates()
    refused = (400,)
    others = [
        _get("/v1/optimize", {"params_b": 7, "gpu": "rtx 4090", "objective": "latency"}),
        _get("/v1/architectures", {}),
        _get("/v1/datasets", {}),
        _get("/health", {}),
        _get("/openapi.json", {}),
        _get("/v1/estimate", {"params_b": "nan", "gpu": "h200"}, refused),
        _get("/v1/estimate", {"params_b": 1e9, "gpu": "h200"}, refused),
        _get("/v1/estimate", {"params_b": 7, "gpu": "rtx 4091"}, refused),
        _get("/v1/estimate", {"params_b": 7, "gpu": "h200", "batch": 0}, refused),
        _get("/v1/estimate", {"q": "\N{SNOWMAN}" * 40}, refused),
        _get("/v1/nothing", {}, (404,)),
        _post("/v1/estimate", b'{"params_b": 7, "gpu": "a100"}'),
        _post("/v1/estimate", b"{" * 1000, refused),
        _post("/v1/estimate", b'{"params_b": NaN}', refused),
        _post("/v1/validate", b'{"schema_version": "x"}'),
        _post("/v1/datasets", b"{}", (405,)),
        _post("/v1/validate", b" " * 65_537, (413,)),
    ]
    for other in itertools.cycle(others):
        yield from itertools.islice(good, 9)
        yield other


def _get(path: str, query: dict[str, object], statuses: tuple[int, ...] = (200,)) -> Asked:
    return Asked(f"GET {path}?{urlencode(query)} HTTP/1.1\r\nhost: x\r\n\r\n".encode(), statuses)


def _post(path: str, body: bytes, statuses: tuple[int, ...] = (200,)) -> Asked:
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    return Asked(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body, statuses)


class Ran(NamedTuple):
    """What one load found."""

    per_s: float
    taken_ms: list[float]  #: sorted
    wrong: Counter[str]
    memory_mb: list[float]  #: at even times
    most_mb: float
    server_us: float  #: of a processor, a request
    own_us: float  #: of this program


async def load(
    port: int, process: int, asking: Iterator[Asked], length_s: float, rate: float | None
) -> Ran:
    """All connections at once; with a rate, no more than that together."""
    begin = time.perf_counter()
    asked = itertools.count()

    def pause_s() -> float:
        return 0.0 if rate is None else begin + next(asked) / rate - time.perf_counter()

    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: Load(asking, pause_s), "127.0.0.1", port)
        for _ in range(CONNECTIONS)
    ]
    await asyncio.sleep(_WARM_S)
    for _, each in made:
        each.taken_s.clear()
    start, memory = time.perf_counter(), []
    used, own = _processor_s(process), time.process_time()
    for _ in range(10):
        await asyncio.sleep(length_s / 10)
        memory.append(_memory_mb(process, "VmRSS"))
    took_s = time.perf_counter() - start
    used, own = _processor_s(process) - used, time.process_time() - own
    taken_ms = sorted(1e3 * taken for _, each in made for taken in each.taken_s)
    wrong = sum((each.wrong for _, each in made), Counter())
    for transport, _ in made:
        transport.abort()
    count = len(taken_ms)
    most = _memory_mb(process, "VmHWM")
    return Ran(count / took_s, taken_ms, wrong, memory, most, 1e6 * used / count, 1e6 * own / count)


def _processor_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mb(process: int, name: str) -> float:
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    found = re.search(rf"{name}:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024 / 1e6


@contextlib.contextmanager
def served() -> Iterator[tuple[int, int]]:
    """A server of its own: its port, its process."""
    command = [sys.executable, "-m", "ecocompute_cube.cli", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        port = re.search(r":(\d+) ", said)
        assert port, said
        try:
            yield int(port[1]), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0


def main(arguments: Sequence[str]) -> int:
    """Print the figures; status 1 when one is out of reach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--minutes", type=float)
    options = parser.parse_args(arguments)
    with served() as (port, process):
        if options.minutes is None:
            ran = asyncio.run(load(port, process, estimates(), options.seconds, None))
        else:
            ran = asyncio.run(load(port, process, mixed(), 60 * options.minutes, _REACH_PER_S / 2))
    p99 = statistics.quantiles(ran.taken_ms, n=100)[98]
    growth = ran.memory_mb[-1] - ran.memory_mb[0]
    sys.stdout.write(
        f"{len(ran.taken_ms)} requests, {CONNECTIONS} connections: {ran.per_s:.0f}/s "
        f"(reach {_REACH_PER_S if options.minutes is None else _REACH_PER_S / 2:.0f}), median "
        f"{statistics.median(ran.taken_ms):.1f} ms, p99 {p99:.1f} ms (reach {_REACH_P99_MS:.0f}), "
        f"memory {ran.most_mb:.0f} MB at most (reach {_REACH_MB:.0f}), grew by {growth:+.1f} MB; "
        f"processor {ran.server_us:.0f} µs a request, and {ran.own_us:.0f} µs here\n"
    )
    for what, count in ran.wrong.most_common(10):
        sys.stdout.write(f"  {count} × {what}\n")
    reached = not ran.wrong and p99 <= _REACH_P99_MS and ran.most_mb <= _REACH_MB
    if options.minutes is None:
        return 0 if reached and ran.per_s >= _REACH_PER_S else 1
    steady = growth <= _GROWTH_MB and ran.per_s >= 0.98 * _REACH_PER_S / 2
    return 0 if reached and steady else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
