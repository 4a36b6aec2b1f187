"""Putting a side sampler's record beside the journal, small and hashed."""

from __future__ import annotations

import gzip
import io
from array import array
from contextlib import contextmanager
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from ecocompute_cube.errors import output_error
from ecocompute_cube.model.base import Absent, MaybeFloat, sha256_hex, without_paths
from ecocompute_cube.model.files import write_whole
from ecocompute_cube.model.journal import TraceLost, TraceStored
from ecocompute_cube.units import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ecocompute_cube.device.base import RawTrace, Tracer
    from ecocompute_cube.engine.orders import Place

FOLDER = "traces"


@contextmanager
def traced(
    tracers: Sequence[Tracer], run: Path, keep: Callable[[int, RawTrace | Absent], None]
) -> Iterator[None]:
    """Keep a trace of each board meanwhile, unless there are none.

    ``keep`` is given each with its board's place in the end, unless an exception came first. Their
    files lie below ``run`` for so long. Raises DiskFull or OutputError when they cannot.
    """
    files = [run / FOLDER / f".current{board or ''}.csv" for board in range(len(tracers))]
    try:
        if files:
            (run / FOLDER).mkdir(exist_ok=True)
    except OSError as error:
        raise output_error(error, "make the folder of traces") from error
    try:
        for tracer, file in zip(tracers, files, strict=True):
            tracer.start(file)
        try:
            yield
        finally:
            kept = [tracer.stop() for tracer in tracers]
        for board, raw in enumerate(kept):
            keep(board, raw)
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def store_trace(
    raw: RawTrace | Absent,
    folder: Path,
    arm: str,
    place: Place,
    phases: dict[str, int],
    board: int = 0,
) -> TraceStored | TraceLost:
    """Compress a visit's trace into ``folder``/traces and describe it; a damaged one is lost.

    Raises DiskFull or OutputError when the file cannot be written.
    """
    if isinstance(raw, Absent):
        return _lost(arm, place, board, raw.reason)
    try:
        data = raw.file.read_bytes()
        times = _times(data)
    except (OSError, ValueError) as error:
        why = f"the side sampler's file cannot be used ({_why(error)})"
        return _lost(arm, place, board, why)
    if len(times) < 2:  # noqa: PLR2004 (a rate needs two)
        return _lost(arm, place, board, "the side sampler wrote fewer than two samples")
    packed = gzip.compress(data, mtime=0)  # the same bytes for the same samples
    visit = f"s{place.session}-g{place.group}-b{place.block}"
    name = f"{FOLDER}/{visit}{f'-board{board}' if board else ''}_{arm}.csv.gz"
    write_whole(folder / name, packed)
    raw.file.unlink(missing_ok=True)
    return TraceStored(
        arm=arm,
        file=name,
        sha256=sha256_hex(packed),
        source=raw.source,
        samples=raw.samples,
        failed_samples=raw.failed,
        clock=raw.clock,
        board=board,
        achieved_hz=_rate(times),
        longest_gap_s=max(seconds(b - a) for a, b in pairwise(times)),
        phases=phases,
        session=place.session,
        group=place.group,
        block=place.block,
    )


def _lost(arm: str, place: Place, board: int, reason: str) -> TraceLost:
    return TraceLost(
        arm=arm,
        session=place.session,
        group=place.group,
        block=place.block,
        board=board,
        reason=without_paths(reason),
    )


def _why(error: OSError | ValueError) -> str:
    return str(error.strerror if isinstance(error, OSError) else error)


def _times(data: bytes) -> Sequence[int]:
    """Of the samples of power; of all lines on a board that gives none."""
    powered, others = array("q"), array("q")  # a day of samples is four million
    for line in islice(io.BytesIO(data), 1, None):
        at, *cells = line.split(b",", 2)
        (powered if cells and cells[0] else others).append(int(at))
    return powered or others


def _rate(times: Sequence[int]) -> MaybeFloat:
    span = seconds(times[-1] - times[0])
    return (len(times) - 1) / span if span > 0 else Absent(reason="all samples at one moment")
