"""Models that were measured, by board: what each arm took in every session, and what it means."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube import __version__
from ecocompute_cube.analysis.curves import library
from ecocompute_cube.analysis.estimator import estimate
from ecocompute_cube.report.charts.spec import Chart, Spec, number, vega_lite
from ecocompute_cube.report.measured import Cell
from ecocompute_cube.report.table import three_digits
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ecocompute_cube.analysis.curves import Anchor

Data = dict[str, object]

#: What the page opens on.
FIRST: Final = ("NVIDIA GeForce RTX 5090", "Qwen2.5-3B")
HEAD: Final = (
    "model",
    "arm",
    "board",
    "kJ per 1M tokens",
    "FP16's",
    "against FP16, %",
    "tokens/s",
    "session",
    "software",
    "remarks",
)


class Bar(NamedTuple):
    """One arm: the mean of its sessions. A millijoule a token is a kilojoule a million tokens."""

    arm: str
    kj: float
    n: int  #: sessions
    label: str
    end: float  #: of the bar or of its farthest session: where the label begins


class Tested(NamedTuple):
    """One model on one board."""

    gpu: str
    model: str
    params_b: float
    bars: tuple[Bar, ...]
    sessions: tuple[Data, ...]  #: arm, energy and name of each
    says: tuple[str, ...]  #: a sentence an arm
    brief: str  #: to be pasted elsewhere


Arm = tuple[str, str]  # precision and runtime


def tested() -> tuple[Tested, ...]:
    """By board, then by size."""
    found: dict[tuple[str, float, str], dict[Arm, list[Anchor]]] = defaultdict(dict)
    for (gpu, precision, runtime), curve in library().ratios.items():
        for anchor in curve.anchors:
            arms = found[gpu, anchor.N, anchor.model]
            arms.setdefault((precision, runtime), []).append(anchor)
    return tuple(_tested(*key, found[key]) for key in sorted(found))


def _tested(gpu: str, size: float, model: str, arms: dict[Arm, list[Anchor]]) -> Tested:
    ordered = sorted(arms.items(), key=lambda each: (each[0][1] != "eager", each[0][1], each[0][0]))
    bars, sessions = [], []
    for runtime in dict.fromkeys(runtime for (_, runtime), _ in ordered):
        plain = {
            a.session: a.fp16_mj_per_token for (_, r), all_ in ordered if r == runtime for a in all_
        }
        bars.append(_bar(f"FP16 {runtime}", plain.values(), ""))
        sessions += [_session(f"FP16 {runtime}", mj, name) for name, mj in plain.items()]
        for (precision, of), anchors in ordered:
            if of == runtime:
                name = f"{precision} {runtime}"
                energies = [anchor.mj_per_token for anchor in anchors]
                bars.append(_bar(name, energies, f"{signed(_change(anchors))} %"))
                sessions += [_session(name, each.mj_per_token, each.session) for each in anchors]
    says = tuple(_says(gpu, size, arm, anchors) for arm, anchors in ordered)
    sources = sorted({anchor.source for _, anchors in ordered for anchor in anchors})
    return Tested(
        gpu,
        model,
        size,
        tuple(bars),
        tuple(sessions),
        says,
        _brief(gpu, model, bars, says, sources),
    )


def _bar(arm: str, energies: Iterable[float], change: str) -> Bar:
    found = list(energies)
    kj = number(math.exp(fmean(map(math.log, found))))
    label = three_digits(kj) + (f"  ({change})" if change else "")
    return Bar(arm, kj, len(found), label, number(max(kj, *found)))


def _session(arm: str, mj: float, name: str) -> Data:
    return {"arm": arm, "kj": number(mj), "session": name}


def _change(anchors: Sequence[Anchor]) -> float:
    """Geometric mean over sessions, in percent."""
    logs = [math.log(each.mj_per_token / each.fp16_mj_per_token) for each in anchors]
    return 100 * math.expm1(fmean(logs))


def _says(gpu: str, size: float, arm: Arm, anchors: Sequence[Anchor]) -> str:
    precision, runtime = arm
    found = estimate(size, gpu=gpu, precision=precision, runtime=runtime)
    many = f"{len(anchors)} session{'s' if len(anchors) > 1 else ''}"
    head = f"{precision} {runtime}: {signed(_change(anchors))} % in {many}."
    if found.ci is None:
        return f"{head} No range: {found.reason}."
    low, high = found.ci
    advice = found.recommendation.replace("_", " ")
    return (
        f"{head} Another session of this size is expected at {signed(low, 0)} to "
        f"{signed(high, 0)} % ({found.basis}, confidence {found.confidence}): {advice}."
    )


def _brief(
    gpu: str, model: str, bars: Sequence[Bar], says: Sequence[str], sources: Sequence[str]
) -> str:
    lines = [f"{model} on {gpu}: energy per million output tokens, kJ (board)"]
    lines += [f"  {bar.arm}: {bar.label}, n = {bar.n}" for bar in bars]
    return "\n".join(
        [*lines, *says, f"Sources: {', '.join(sources)}. EcoCompute cube {__version__}."]
    )


def tested_chart(first: Tested) -> Chart:
    """Bars of one model on one board, as the page opens; the page lays others in their place."""
    return Chart(
        name="tested",
        title="Energy per million tokens",
        says="Board energy of each arm for a million output tokens. Filled bars are the mean of "
        "two sessions or more, hollow ones are one session; ticks are sessions. In brackets: the "
        "change against FP16 of the same sessions.",
        spec=_spec(first),
        head=("arm", "kJ per 1M tokens", "sessions"),
        rows=tuple((bar.arm, bar.kj, str(bar.n)) for bar in first.bars),
    )


def datasets(each: Tested) -> Data:
    """What the chart shows of one model on one board."""
    return {"bars": [bar._asdict() for bar in each.bars], "sessions": list(each.sessions)}


def _spec(first: Tested) -> Spec:
    title = "kJ per million tokens (board)"
    y = {"field": "arm", "type": "nominal", "sort": None, "title": None}
    x = {
        "field": "kj",
        "type": "quantitative",
        "title": title,
        "axis": {"tickCount": 5, "format": "~s"},
    }
    end = {**x, "field": "end"}
    filled = {"condition": {"test": "datum.n > 1", "value": 0.85}, "value": 0.12}
    return vega_lite(
        width=560,
        height={"step": 34},
        datasets=datasets(first),
        layer=[
            {
                "data": {"name": "bars"},
                "mark": {"type": "bar", "stroke": "#0072b2", "fill": "#0072b2", "height": 20},
                "encoding": {
                    "y": y,
                    "x": x,
                    "fillOpacity": filled,
                    "tooltip": [{"field": name} for name in ("arm", "kj", "n")],
                },
            },
            {
                "data": {"name": "sessions"},
                "mark": {"type": "tick", "thickness": 2, "color": "#e69f00", "size": 26},
                "encoding": {
                    "y": y,
                    "x": x,
                    "tooltip": [{"field": name} for name in ("arm", "session", "kj")],
                },
            },
            {
                "data": {"name": "bars"},
                "mark": {"type": "text", "align": "left", "dx": 8, "fontSize": 12},
                "encoding": {"y": y, "x": end, "text": {"field": "label"}},
            },
            {  # room for the labels
                "data": {"name": "bars"},
                "transform": [{"calculate": "1.3 * datum.end", "as": "room"}],
                "mark": {"type": "point", "opacity": 0, "tooltip": False},
                "encoding": {"y": y, "x": {**end, "field": "room"}},
            },
        ],
    )


def tested_rows() -> tuple[tuple[Cell, ...], ...]:
    """Every session of every arm, by board and size."""
    return tuple(
        _row(gpu, f"{precision} {runtime}", anchor)
        for (gpu, precision, runtime), curve in sorted(library().ratios.items(), key=lambda e: e[0])
        for anchor in sorted(curve.anchors, key=lambda each: (each.N, each.session))
    )


def _row(gpu: str, arm: str, each: Anchor) -> tuple[Cell, ...]:
    def measured(value: float | None) -> Cell:
        return Cell("–") if value is None else Cell(three_digits(value), number(value, 9))

    return (
        Cell(each.model, each.N),
        Cell(arm, arm),
        Cell(gpu, gpu),
        measured(each.mj_per_token),
        measured(each.fp16_mj_per_token),
        Cell(signed(each.dE), number(each.dE, 9)),
        measured(each.tokens_per_s),
        Cell(each.session, each.session),
        Cell(each.stack, each.stack),
        Cell(", ".join(each.remarks).replace("_", " ") or "–"),
    )
