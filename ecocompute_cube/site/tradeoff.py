"""Accuracy against energy: published sessions that have both, as the publisher measured them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import present
from ecocompute_cube.model.published import published
from ecocompute_cube.report.charts.spec import Chart, Spec, number, vega_lite
from ecocompute_cube.report.measured import Cell
from ecocompute_cube.report.table import three_digits
from ecocompute_cube.site.curves import short_name
from ecocompute_cube.units import kwh, signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ecocompute_cube.model.published import Published

#: What the publisher itself took for something else than a session of its own.
_ASIDE: Final = frozenset({"replicate", "retry", "trial_run"})
HEAD: Final = (
    "model",
    "arm",
    "board",
    "kWh per 1M tokens",
    "against FP16, %",
    "perplexity, FP16",
    "perplexity",
    "its change, %",
    "tokens/s",
    "session",
)


class Point(NamedTuple):
    """One arm of one session."""

    model: str
    arm: str
    precision: str
    board: str
    session: str
    kwh: float
    change: float
    plain: float  #: perplexity of FP16
    perplexity: float
    delta: float  #: of perplexity, in percent
    tokens_per_s: float | None
    best: bool  #: FP16 and no other arm of the model and session beats it in both


def points() -> tuple[Point, ...]:
    """By model, board and session; FP16 is at (0, 0)."""
    found = [each for row in published() if (each := _point(row)) is not None]
    marked = (each._replace(best=not _beaten(each, found)) for each in found)
    return tuple(sorted(marked, key=lambda p: (p.model, p.board, p.session, p.arm)))


def _point(row: Published) -> Point | None:
    if not present(row.perplexity) or not present(row.fp16_perplexity) or _ASIDE & {*row.remarks}:
        return None
    rate = row.tokens_per_s
    return Point(
        model=row.model.rpartition("/")[2],
        arm=f"{row.precision} {row.runtime}",
        precision=row.precision,
        board=short_name(row.gpu),
        session=row.session,
        kwh=kwh(row.energy_per_token_mj),
        change=row.vs_fp16_energy_pct,
        plain=row.fp16_perplexity,
        perplexity=row.perplexity,
        delta=100 * (row.perplexity / row.fp16_perplexity - 1),
        tokens_per_s=rate if present(rate) else None,
        best=True,
    )


def _beaten(point: Point, others: Iterable[Point]) -> bool:
    mine = (point.change, point.delta)
    rivals = [(0.0, 0.0)]  # FP16
    rivals += [
        (other.change, other.delta)
        for other in others
        if (other.model, other.session) == (point.model, point.session)
    ]
    return any(a <= mine[0] and b <= mine[1] and (a, b) != mine for a, b in rivals)


def tradeoff_chart(found: Sequence[Point]) -> Chart:
    """Change of perplexity over change of energy."""
    return Chart(
        name="tradeoff",
        title="Energy against accuracy",
        says="Change of energy per token against change of perplexity, both against FP16 of the "
        "same session, an arm of a session a point. Down and left is better; filled points are "
        "beaten in both neither by FP16 nor by another arm of their model and session.",
        spec=_spec(found),
        head=("model", "arm", "board", "change of energy, %", "change of perplexity, %"),
        rows=tuple((p.model, p.arm, p.board, number(p.change), number(p.delta)) for p in found),
    )


def _spec(found: Sequence[Point]) -> Spec:
    names = ("model", "arm", "board", "session", "change", "delta")
    x = {"field": "change", "type": "quantitative", "title": "change of energy, %"}
    y = {"field": "delta", "type": "quantitative", "title": "change of perplexity, %"}
    legend = {"orient": "top", "columns": 3, "symbolOpacity": 1}
    colour = {"field": "precision", "type": "nominal", "title": None, "legend": legend}
    shape = {"field": "board", "type": "nominal", "title": None, "legend": legend}
    zero = {"type": "rule", "strokeDash": [6, 4]}
    shown = [
        {name: _brief(each._asdict()[name]) for name in (*names, "precision", "best")}
        for each in found
    ]
    return vega_lite(
        width=560,
        height=340,
        layer=[
            {"data": {"values": [{"delta": 0}]}, "mark": zero, "encoding": {"y": y}},
            {"data": {"values": [{"change": 0}]}, "mark": zero, "encoding": {"x": x}},
            *(
                {
                    "data": {"values": [each for each in shown if each["best"] is best]},
                    "mark": {"type": "point", "size": 90, "opacity": 1, **look},
                    "encoding": {
                        "x": x,
                        "y": y,
                        "color": colour,
                        "shape": shape,
                        "tooltip": [{"field": name} for name in names],
                    },
                }
                for best, look in ((True, {"filled": True}), (False, {"strokeWidth": 2}))
            ),
        ],
    )


def _brief(value: object) -> object:
    return number(value) if isinstance(value, float) else value


def tradeoff_rows(found: Sequence[Point]) -> tuple[tuple[Cell, ...], ...]:
    """In the order of ``HEAD``."""
    return tuple(
        (
            Cell(p.model, p.model),
            Cell(p.arm, p.arm),
            Cell(p.board, p.board),
            Cell(f"{p.kwh:.3g}", number(p.kwh, 9)),
            Cell(signed(p.change), number(p.change, 9)),
            Cell(f"{p.plain:.2f}", p.plain),
            Cell(f"{p.perplexity:.2f}", p.perplexity),
            Cell(signed(p.delta), number(p.delta, 9)),
            Cell("–")
            if p.tokens_per_s is None
            else Cell(three_digits(p.tokens_per_s), p.tokens_per_s),
            Cell(p.session, p.session),
        )
        for p in found
    )
