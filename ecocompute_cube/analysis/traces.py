"""Reading a side sampler's trace and integrating power over a span."""

from __future__ import annotations

import gzip
import io
import math
import zlib
from bisect import bisect_left, bisect_right
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import Absent, sha256_hex
from ecocompute_cube.model.journal import TRACE_COLUMNS
from ecocompute_cube.units import Joule, nanoseconds, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from ecocompute_cube.model.journal import TraceStored
    from ecocompute_cube.model.readings import Span

_HEADS: Final = (TRACE_COLUMNS, TRACE_COLUMNS[:5])
_GAP_PERIODS: Final = 5  # of the trace's own, beyond which a sampler was held up
_HARMLESS_GAP_S: Final = 0.1  # no sensor seen refreshes faster than that by much
_LONGEST_GAP_S: Final = 0.5  # five refreshes of the slowest sensor seen
_MOST_BYTES: Final = 256 * 2**20  # two days at 50 Hz; a damaged or foreign file may expand to more
_PIECE_BYTES: Final = 2**20


class Trace(NamedTuple):
    """Samples with a power reading, in time order; temperatures where they were taken."""

    t_ns: tuple[int, ...]
    power_w: tuple[float, ...]
    temperature_c: tuple[tuple[int, float], ...]
    event_reasons: tuple[tuple[int, frozenset[str]], ...] = ()

    def reasons_in(self, span: Span) -> frozenset[str] | Absent:
        """Every event reason seen within ``span``; a reason when none was read there."""
        seen = [names for at, names in self.event_reasons if span.start_ns <= at <= span.end_ns]
        if not seen:
            return Absent(reason="no event reasons were read during the work")
        return frozenset().union(*seen)


def read_trace(folder: Path, stored: TraceStored, most_bytes: int = _MOST_BYTES) -> Trace | Absent:
    """The trace file beside a journal, if it is there and is the one that was stored."""
    packed = _packed(folder / stored.file)
    if isinstance(packed, Absent):
        return packed
    if sha256_hex(packed) != stored.sha256:
        return Absent(reason="the trace file is not the one the journal names (sha256 differs)")
    try:
        with gzip.open(io.BytesIO(packed)) as file:
            return _parse(_lines(file, most_bytes))
    except _TooMuchError:
        return Absent(reason=f"the trace file holds more than {most_bytes >> 20} MiB of text")
    except (OSError, EOFError, zlib.error, ValueError) as error:
        return Absent(reason=f"the trace file is damaged ({error})")


class _TooMuchError(Exception):
    """A file expands to more than anybody would have recorded."""


def _lines(file: gzip.GzipFile, most_bytes: int) -> Iterator[str]:
    """A file's lines, never more of them in memory than one piece holds."""
    rest, read = b"", 0
    while piece := file.read(_PIECE_BYTES):
        read += len(piece)
        if read > most_bytes:
            raise _TooMuchError
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > _PIECE_BYTES:
            raise ValueError("a line is longer than any sample")
        yield from (line.decode("ascii") for line in lines)
    if rest:
        yield rest.decode("ascii")


def _packed(path: Path) -> bytes | Absent:
    try:
        if path.exists() and not path.is_file():  # a pipe or a device might never end
            return Absent(reason="the trace is not a regular file")
        return path.read_bytes()
    except OSError as error:
        return Absent(reason=f"the trace file cannot be read ({error.strerror})")
    except ValueError as error:  # a name with a NUL
        return Absent(reason=f"the trace file cannot be read ({error})")


def parse_trace(text: str) -> Trace:
    """A trace from CSV text with the sampler's columns.

    Raises ValueError for a bad number, a line cut short, or times that run backwards.
    """
    return _parse(iter(text.strip().splitlines()))


def _parse(lines: Iterator[str]) -> Trace:
    head = tuple(next(lines, "").split(","))
    if head not in _HEADS:
        raise ValueError("the first line names other columns")
    times: list[int] = []
    power: list[float] = []
    warm: list[tuple[int, float]] = []
    events: list[tuple[int, frozenset[str]]] = []
    last = -1
    for line in lines:
        row = line.split(",")
        if len(row) != len(head):
            raise ValueError("a line has too few or too many cells")
        t = int(row[0])
        if t < last:
            raise ValueError("time runs backwards")
        last = t
        if row[1]:
            times.append(t)
            power.append(_finite(row[1]))
        if row[2]:
            warm.append((t, _finite(row[2])))
        if row[5:] and row[5]:
            events.append((t, frozenset(row[5].split("+")) - {"-"}))
    return Trace(tuple(times), tuple(power), tuple(warm), tuple(events))


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no reading")
    return value


class Bound(NamedTuple):
    """Between what an energy lies."""

    low: Joule
    high: Joule

    def wider(self, by: float) -> Bound:
        """The same, by so many joules further at either end."""
        return Bound(Joule(self.low - by), Joule(self.high + by))


def integrate(trace: Trace, span: Span) -> Joule | Absent:
    """Energy over ``span`` by trapezoids, power at the edges interpolated between samples.

    A reason when the samples do not cover the span, or leave a gap in it of more than five periods
    of the trace (0.1 s at least, 0.5 s at most).
    """
    times = trace.t_ns
    if span.end_ns <= span.start_ns:
        return Absent(reason="the window has no length")
    if not times or times[0] > span.start_ns or times[-1] < span.end_ns:
        return Absent(reason="the trace does not cover the window")
    inside = range(bisect_right(times, span.start_ns), bisect_left(times, span.end_ns))
    knots = [(span.start_ns, _power_at(trace, span.start_ns))]
    knots += [(times[n], trace.power_w[n]) for n in inside]
    knots.append((span.end_ns, _power_at(trace, span.end_ns)))
    gap = max(seconds(b[0] - a[0]) for a, b in pairwise(knots))
    held_up_s = _GAP_PERIODS * _period_s(times[n] for n in inside)
    if gap > min(max(held_up_s, _HARMLESS_GAP_S), _LONGEST_GAP_S):
        return Absent(reason=f"the trace has a gap of {gap:.2f} s in the window")
    return Joule(sum(seconds(b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(knots)))


def _period_s(times: Iterable[int]) -> float:
    """Median time between samples; without any, infinite."""
    steps = [seconds(b - a) for a, b in pairwise(times)]
    return median(steps) if steps else math.inf


def integral_bound(trace: Trace, span: Span, stale_s: float) -> Bound:
    """Between what the energy of a span lies that ``integrate`` has an energy for.

    A reading shows power as of a moment up to ``stale_s`` ago. So power at t is shown by readings
    of t until t + stale_s, and the assumption is that it lies between the lowest and the highest
    of these, the last before t and the first after t + stale_s among them. Then

        low  = Σ dt · lowest        high = Σ dt · highest

    over the pieces dt between two samples, cut at the span's ends: the trapezoids lie between
    them, gaps and edges widen them by themselves. The assumption holds for power that stays in one
    place, or moves one way, for as long as a reading takes to show it. Faster changes, and what a
    sensor does not see that averages over a part of its period, cannot be known from the samples.
    """
    times, power = trace.t_ns, trace.power_w
    first = max(0, bisect_right(times, span.start_ns) - 1)
    last = bisect_left(times, span.end_ns)
    low = high = 0.0
    for n in range(first, last):
        shown = bisect_left(times, times[n + 1] + nanoseconds(stale_s), n + 1)
        readings = power[n : shown + 1]
        dt = seconds(min(times[n + 1], span.end_ns) - max(times[n], span.start_ns))
        low += dt * min(readings)
        high += dt * max(readings)
    return Bound(Joule(low), Joule(high))


def _power_at(trace: Trace, at_ns: int) -> float:
    after = bisect_left(trace.t_ns, at_ns)
    before = max(after - 1, 0)
    t0, t1 = trace.t_ns[before], trace.t_ns[after]
    if t1 == t0:
        return trace.power_w[after]
    share = (at_ns - t0) / (t1 - t0)
    return trace.power_w[before] + share * (trace.power_w[after] - trace.power_w[before])


def rate_hz(times: Sequence[int], span: Span) -> float | Absent:
    """Samples a second within ``span``."""
    inside = [t for t in times if span.start_ns <= t <= span.end_ns]
    if len(inside) < 2:  # noqa: PLR2004 (a rate needs two)
        return Absent(reason="fewer than two samples in the window")
    if inside[-1] == inside[0]:
        return Absent(reason="all samples of the window at one moment")
    return (len(inside) - 1) / seconds(inside[-1] - inside[0])
