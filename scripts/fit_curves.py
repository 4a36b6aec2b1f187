"""Write ecocompute_cube/published/curves.json from what was measured, or find that it differs.

    python scripts/fit_curves.py [--check] [--quiet]

Reads the packaged published table and ``data``; prints how sessions scatter and how often a
session, or a size, that was left out lay in the range of the others. The same measurements give the
same bytes. With ``--check`` nothing is written, and the status is 1 where the committed file is not
what they give.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from curve_fit import (
    CONFIDENCE,
    Coverage,
    Spread,
    Value,
    curve,
    session_coverage,
    size_coverage,
    spread,
)
from curve_sessions import UNFITTED, Row, rows
from ecocompute_cube.analysis.curves import FILE, FORMAT, Curve, Knot
from ecocompute_cube.model.base import present
from ecocompute_cube.model.files import write_whole
from ecocompute_cube.model.published import published
from ecocompute_cube.units import percent
from fit_mechanism import captured, checks, eager, fitted, level_errors, misses, ratio_errors

Document = dict[str, Any]
_DIGITS: Final = 6
_LINES: Final = (  # what begins a line of the file
    '{"gpu"',
    '"knots"',
    '"sizes"',
    '"anchors"',
    '{"N"',
    '"ratios"',
    '"levels"',
    '{"precision"',
    '"quality"',
    '"mechanism"',
    '"checks"',
)


def document(found: Sequence[Row]) -> Document:
    """All curves, with what they were fitted to."""
    ratios = _grouped((row.precision, row.runtime, row.log_ratio, row) for row in found)
    levels = _grouped(("FP16", row.runtime, math.log(row.fp16_mj), row) for row in found)
    return {
        "format": FORMAT,
        "confidence": CONFIDENCE,
        "license": "CC-BY-4.0",
        "scatter": [_scatter(*key, values) for key, values in {**ratios, **levels}.items()],
        "ratios": [
            _entry(gpu, *key, fitted, [row for row in found if _of(row) == (gpu, *key)])
            for key, values in ratios.items()
            for gpu, fitted in _curves(found, key, values)
        ],
        "levels": [
            _entry(gpu, *key, fitted, ())
            for key, values in levels.items()
            for gpu, fitted in _curves(found, None, values)
        ],
        "quality": _quality(),
        **_mechanism(found),
    }


def _quality() -> Document:
    """Changes of perplexity as published, a model once."""
    found: dict[str, dict[tuple[float, str], float]] = defaultdict(dict)
    for row in published():
        if present(row.perplexity) and present(row.fp16_perplexity):
            change = percent(row.perplexity / row.fp16_perplexity)
            model = row.model.rpartition("/")[2]
            found[row.precision][row.params_b, model] = _rounded(change) or 0.0
    return {
        precision: [[size, change, model] for (size, model), change in sorted(models.items())]
        for precision, models in sorted(found.items())
    }


def _of(row: Row) -> tuple[str, str, str]:
    return row.gpu, row.precision, row.runtime


def _grouped(
    found: Iterable[tuple[str, str, float, Row]],
) -> dict[tuple[str, str], list[Value]]:
    groups: dict[tuple[str, str], list[Value]] = defaultdict(list)
    for precision, runtime, log, row in found:
        if not row.remarks & UNFITTED:
            value = Value(row.gpu, row.params_b, row.session, row.stack, log, row.doubtful)
            groups[precision, runtime].append(value)
    return dict(sorted(groups.items()))


def _curves(
    found: Sequence[Row], key: tuple[str, str] | None, values: Sequence[Value]
) -> Iterable[tuple[str, Curve]]:
    """Of every board; one that has nothing to fit has its anchors."""
    scatter = spread(values)
    boards = {value.gpu for value in values}
    if key is not None:
        boards |= {row.gpu for row in found if (row.precision, row.runtime) == key}
    for gpu in sorted(boards):
        fitted = curve([value for value in values if value.gpu == gpu], scatter)
        yield gpu, fitted or _UNFITTED


_UNFITTED: Final = Curve(
    sizes=(),
    knots=(),
    refused="idle power was subtracted, which no other measurement does",
    sessions=(),
    doubtful=True,
    crossing=(None, None, None),
    anchors=(),
)


def _mechanism(found: Sequence[Row]) -> Document:
    """Parameters and errors, without a board's or an error's field names; and every check."""
    known = eager(found)
    by = captured(fitted(known).model)
    sessions, boards = misses(known, boards=False), misses(known, boards=True)
    sizes = [row.params_b for row in known]
    by = by._replace(
        sizes_b=(min(sizes), max(sizes)),
        seen=ratio_errors(sessions, boards=False),
        unseen=ratio_errors(boards, boards=True),
        seen_level=level_errors(sessions, boards=False),
        unseen_level=level_errors(boards, boards=True),
    )
    boards_of = {name: board[:3] for name, board in sorted(by.boards.items())}
    parameters = {**by._asdict(), "boards": boards_of}
    return {
        "mechanism": {name: _plain(value) for name, value in parameters.items()},
        "checks": [_plain(each._asdict()) for each in checks(sessions, boards, found, by)],
    }


def _plain(value: object) -> object:
    """Four digits: what a least-squares fit gives alike on every processor."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _scatter(precision: str, runtime: str, values: Sequence[Value]) -> Document:
    scatter = spread(values) or Spread(math.nan, 0)
    return {
        "precision": precision,
        "runtime": runtime,
        "log_sd": _rounded(scatter.log) if scatter.degrees else None,
        "degrees": scatter.degrees,
        "left_out_sessions": list(session_coverage(values)),
        "left_out_sizes": list(size_coverage(values)),
    }


def _entry(
    gpu: str, precision: str, runtime: str, fitted: Curve, anchors: Sequence[Row]
) -> Document:
    return {
        "gpu": gpu,
        "precision": precision,
        "runtime": runtime,
        "sizes": [_knot(knot) for knot in fitted.sizes],
        "knots": [_knot(knot) for knot in fitted.knots],
        "refused": fitted.refused,
        "sessions": list(fitted.sessions),
        "doubtful": fitted.doubtful,
        "crossover_b": [_rounded(size) for size in fitted.crossing],
        "anchors": [_anchor(row) for row in sorted(anchors, key=lambda r: (r.params_b, r.session))],
    }


def _knot(knot: Knot) -> list[float | None]:
    return [_rounded(value) for value in knot]


def _anchor(row: Row) -> Document:
    return {
        "N": _rounded(row.params_b),
        "dE": round(100 * math.expm1(row.log_ratio), 2),
        "model": row.model,
        "gpu": row.gpu,
        "n": 1,
        "session": row.session,
        "mj_per_token": _rounded(row.mj),
        "fp16_mj_per_token": _rounded(row.fp16_mj),
        "tokens_per_s": _rounded(row.tokens_per_s),
        "stack": row.stack,
        "source": row.source,
        "remarks": sorted(row.remarks),
    }


def _rounded(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else float(f"{value:.{_DIGITS}g}")


def text(found: Document) -> str:
    """The file: a line for each curve's list, so that a change can be read."""
    written = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for mark in _LINES:
        written = written.replace(mark, f"\n{mark}")
    return f"{written}\n"


def told(found: Document) -> str:
    """How sessions scatter, for people."""
    lines = [f"{'':18} {'sd of a session':>16} {'sessions left out':>19} {'sizes left out':>16}"]
    for each in found["scatter"]:
        sd = each["log_sd"]
        lines.append(
            f"{each['precision'] + '/' + each['runtime']:18} "
            f"{'–' if sd is None else f'{100 * math.expm1(sd):.1f} %':>16} "
            f"{_share(Coverage(*each['left_out_sessions'])):>19} "
            f"{_share(Coverage(*each['left_out_sizes'])):>16}"
        )
    return "".join(f"{line}\n" for line in lines)


def _share(found: Coverage) -> str:
    return f"{found.held} of {found.of}" if found.of else "–"


def main(arguments: Sequence[str]) -> int:
    """Write, or compare."""
    made = document(rows())
    sys.stdout.write("" if "--quiet" in arguments else told(made))
    written = text(made)
    if "--check" in arguments:
        same = FILE.is_file() and FILE.read_text(encoding="utf-8") == written
        sys.stdout.write("" if same else f"{FILE.name} differs: python scripts/fit_curves.py\n")
        return 0 if same else 1
    write_whole(FILE, written.encode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
