"""Parameters of ``analysis.mechanism``, fitted to what was measured, checked on what is left out.

One least-squares fit of logarithms: energy and rate of each arm and of FP16 beside it. A board has
a waiting power and an energy a byte, a session a host speed, a precision a ratio of host time and
one of work. What a board without measurements gets is how these follow from the data sheet.
Captured runtimes are by the arms of ``data/h200`` alone.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.optimize import least_squares

from curve_sessions import MEASURED, UNFITTED, Row
from ecocompute_cube.analysis.cards import card
from ecocompute_cube.analysis.mechanism import Board, Error, Model, step
from ecocompute_cube.analysis.shapes import GB, Shape, shape

Floats = npt.NDArray[np.float64]

PRECISIONS: Final = ("NF4", "NF4-DQ", "INT8", "INT8-T0", "FP8-DYN")
CONFIDENCE: Final = 0.95
LEAST_LEFT_OUT: Final = 3  # boards or sessions: fewer say nothing of the next one
_NOISE: Final = 0.1  # of a measured logarithm: sessions of one board differ by about so much
_PRIOR: Final = 0.4  # how far a board may be from the rule, a host from the usual one
_TIMED: Final = ("arms-0.5b",)  # runs whose captured arms say what a layer takes on the board

#: Layers of models whose size alone would tell another number (public config.json).
_LAYERS: Final = {"Mistral-7B-v0.1": 32, "Yi-1.5-9B": 48}


class Fit(NamedTuple):
    """A model, and its parameters as logarithms of factors on the starting points."""

    model: Model
    at: dict[str, float]


def eager(found: Iterable[Row]) -> tuple[Row, ...]:
    """Rows that the model speaks of."""
    return tuple(
        row
        for row in found
        if row.runtime == "eager" and row.precision in PRECISIONS and not row.remarks & UNFITTED
    )


def _arms() -> list[dict[str, dict[str, Any]]]:
    folders = [
        path for path in (MEASURED / "h200" / "runs").iterdir() if path.name.endswith(_TIMED)
    ]
    return [
        json.loads(file.read_text())
        for folder in sorted(folders)
        for file in sorted(folder.glob("arms/*/energy.json"))
    ]


def _copy_share() -> float:
    rates = [each["why"]["copy_bytes_per_s"] for each in _arms()]
    return float(median(rates)) / (card("h200").bandwidth_gb_s * GB)


_COPY_SHARE: Final = _copy_share()


def captured(by: Model) -> Model:
    """With what a layer of a captured step takes on the board, and the loop's host time."""
    gaps: dict[str, list[float]] = defaultdict(list)
    loops: dict[str, list[float]] = defaultdict(list)
    for each in _arms():
        work, took_s = each["workload"], 1 / each["results"]["throughput_tokens_per_s"]
        usual, runtime = shape(work["params_b"]), str(work["runtime"])
        if runtime in ("graph", "compiled"):
            read_s = each["why"]["bytes_per_token"] / each["why"]["copy_bytes_per_s"]
            gaps[runtime].append((took_s - read_s) / round(usual.layers))
        elif work["precision"] == "FP16":
            loops[runtime].append(took_s)
    return by._replace(
        runtime_host={"eager": 1.0, "loop": fmean(loops["loop"]) / fmean(loops["eager"])},
        layer_gap_s={runtime: median(found) for runtime, found in sorted(gaps.items())},
    )


def fitted(found: Sequence[Row], near: Fit | None = None) -> Fit:
    """By every row whose figures could be traced; beginning near another fit, if there is one."""
    sound = [row for row in found if "unverified" not in row.remarks]
    names = _names(sound)
    known = near.at if near else {}
    start = np.array([known.get(name, 0.0) for name in names])
    tight = {"xtol": 1e-13, "ftol": 1e-13, "gtol": 1e-13}
    solved = least_squares(lambda at: _residuals(at, names, sound), start, method="lm", **tight)
    at = dict(zip(names, solved.x.tolist(), strict=True))
    return Fit(_model(at, sound), at)


# Parameters are logarithms of factors on these starting points.
_WAIT_SHARE: Final = 0.18
_BYTE_SHARE: Final = 0.8
_HOST_S: Final = 0.5e-3
_OF: Final = ("wait", "byte", "host")


def _names(found: Iterable[Row]) -> tuple[str, ...]:
    rows = list(found)
    gpus = sorted({row.gpu for row in rows})
    sessions = sorted({row.session for row in rows})
    precisions = [name for name in PRECISIONS if any(row.precision == name for row in rows)]
    return (
        *_OF,
        *(f"{what} {gpu}" for gpu in gpus for what in ("wait", "byte")),
        *(f"host {session}" for session in sessions),
        *(f"{what} {name}" for name in precisions for what in ("time", "work")),
    )


def _model(at: dict[str, float], found: Sequence[Row]) -> Model:
    wait_share, byte_share, host_s = (
        start * math.exp(at[name])
        for start, name in zip((_WAIT_SHARE, _BYTE_SHARE, _HOST_S), _OF, strict=True)
    )
    rule = Model(
        {}, wait_share, byte_share, host_s, {}, {}, {}, {}, _COPY_SHARE, (), {}, {}, {}, {}
    )
    of_board: dict[str, list[float]] = defaultdict(list)
    for gpu, session in sorted({(row.gpu, row.session) for row in found}):
        of_board[gpu].append(host_s * math.exp(at[f"host {session}"]))
    known = [name for name in PRECISIONS if f"time {name}" in at]
    return rule._replace(
        boards={gpu: _board(rule, gpu, at, median(hosts)) for gpu, hosts in of_board.items()},
        host_ratio={"FP16": 1.0, **{name: math.exp(at[f"time {name}"]) for name in known}},
        work_ratio={"FP16": 1.0, **{name: math.exp(at[f"work {name}"]) for name in known}},
        runtime_host={"eager": 1.0},
    )


def _board(rule: Model, gpu: str, at: dict[str, float], host_s: float) -> Board:
    plain = rule.board(card(gpu))
    return Board(
        wait_w=plain.wait_w * math.exp(at[f"wait {gpu}"]),
        joule_per_byte=plain.joule_per_byte * math.exp(at[f"byte {gpu}"]),
        host_s=host_s,
        fitted=True,
    )


def like(row: Row) -> Shape:
    """The shape of a row's model."""
    usual = shape(row.params_b)
    return usual._replace(layers=_LAYERS.get(row.model, round(usual.layers)))


def _residuals(values: Floats, names: Sequence[str], found: Sequence[Row]) -> Floats:
    at = dict(zip(names, values.tolist(), strict=True))
    by = _model(at, found)
    off = []
    for row in found:
        board = by.boards[row.gpu]._replace(host_s=by.host_s * math.exp(at[f"host {row.session}"]))
        quantized = step(by, board, card(row.gpu), like(row), row.precision, row.runtime)
        plain = step(by, board, card(row.gpu), like(row), "FP16", row.runtime)
        pairs = [
            (quantized.mj_per_token, row.mj),
            (plain.mj_per_token, row.fp16_mj),
            (quantized.tokens_per_s, row.tokens_per_s),
            (plain.tokens_per_s, row.fp16_tokens_per_s),
        ]
        off += [math.log(said / true) / _NOISE for said, true in pairs if true]
    # All but a precision's host time is held near the rule, for where data are few.
    free = [value for name, value in at.items() if " " in name and name[:4] != "time"]
    return np.array([*off, *(value / _PRIOR for value in free)])


# How well it predicts


class Miss(NamedTuple):
    """One row of what was left out: logarithms modelled less measured."""

    row: Row
    ratio: float
    level: float  #: of the energy itself
    plain: float  #: of FP16's beside it


def misses(found: Sequence[Row], *, boards: bool) -> tuple[Miss, ...]:
    """Each board, or each session of a board that has others, predicted from all the rest."""
    whole = fitted(found)
    off: list[Miss] = []
    units = sorted({(row.gpu, "" if boards else row.session) for row in found})
    for gpu, session in units:
        out = [row for row in found if row.gpu == gpu and session in ("", row.session)]
        rest = [row for row in found if row not in out]
        by = fitted(rest, whole).model
        if boards or gpu in by.boards:
            off += [_miss(by, row) for row in out if row.precision in by.host_ratio]
    return tuple(off)


def _miss(by: Model, row: Row) -> Miss:
    board, on = by.board(card(row.gpu)), card(row.gpu)
    said = step(by, board, on, like(row), row.precision, row.runtime).mj_per_token
    plain = step(by, board, on, like(row), "FP16", row.runtime).mj_per_token
    return Miss(
        row,
        ratio=math.log(said / plain) - row.log_ratio,
        level=math.log(said / row.mj),
        plain=math.log(plain / row.fp16_mj),
    )


def ratio_errors(found: Iterable[Miss], *, boards: bool) -> dict[str, Error]:
    """Of the change, by precision."""
    return _errors(((miss.row, miss.ratio) for miss in found), boards=boards)


def level_errors(found: Iterable[Miss], *, boards: bool) -> dict[str, Error]:
    """Of mJ/token, by precision; without rows whose figures could not be traced to runs."""
    traced = [miss for miss in found if "unverified" not in miss.row.remarks]
    arms = [(miss.row, miss.level) for miss in traced]
    arms += [(miss.row._replace(precision="FP16"), miss.plain) for miss in traced]
    return _errors(arms, boards=boards)


def _errors(found: Iterable[tuple[Row, float]], *, boards: bool) -> dict[str, Error]:
    """None of a precision that too few were left out of."""
    squares: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row, off in found:
        squares[row.precision][row.gpu if boards else row.session].append(off**2)
    return {
        precision: _error([fmean(each) for each in units.values()])
        for precision, units in sorted(squares.items())
        if len(units) >= LEAST_LEFT_OUT
    }


def _error(squares: Sequence[float]) -> Error:
    rms = math.sqrt(fmean(squares))
    quantile = float(special.stdtrit(len(squares), 0.5 + CONFIDENCE / 2))
    return Error(rms, len(squares), quantile * rms)


# By dataset


class Check(NamedTuple):
    """How far off the mechanism is on the rows of one board and arm; roots of mean squares."""

    gpu: str
    arm: str
    left_out: str  #: what the fit had not seen
    rows: int
    change_log: float
    level_log: float


def checks(
    sessions: Iterable[Miss], boards: Iterable[Miss], found: Iterable[Row], by: Model
) -> list[Check]:
    """Of every dataset: its sessions left out, its board left out, and captured arms."""
    captured_arms = [
        _miss(by, row)
        for row in found
        if row.runtime in by.layer_gap_s and row.precision in by.host_ratio
    ]
    groups: dict[tuple[str, str, str], list[Miss]] = defaultdict(list)
    for name, misses_ in (("session", sessions), ("board", boards), ("nothing", captured_arms)):
        for miss in misses_:
            arm = f"{miss.row.precision}/{miss.row.runtime}"
            groups[miss.row.gpu, arm, name].append(miss)
    return [
        Check(
            *key,
            len(each),
            _rms([miss.ratio for miss in each]),
            _rms([miss.level for miss in each]),
        )
        for key, each in sorted(groups.items())
    ]


def _rms(values: Sequence[float]) -> float:
    return math.sqrt(fmean([value**2 for value in values]))
