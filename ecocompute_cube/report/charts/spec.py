"""What every chart has in common: its look, its table, and how it becomes an SVG."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.model.base import present

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ecocompute_cube.model.base import Absent
    from ecocompute_cube.model.claims import Interval

Spec = dict[str, object]
Cell = str | float | None

#: Okabe and Ito's colours, which people with any kind of colour vision tell apart, less black and
#: yellow: each is seen on white and on near-black.
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
INK: Final = "currentColor"  #: of the page: charts follow its dark mode
_FAINT: Final = "#8886"


class Chart(NamedTuple):
    """A chart with the table that holds the same numbers."""

    name: str  #: of files and anchors
    title: str
    says: str  #: one sentence, for who cannot see it
    spec: Spec
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def vega_lite(**parts: object) -> Spec:
    """A specification in the page's look."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "background": None,
        "padding": {"left": 5, "right": 15, "top": 5, "bottom": 5},
        "config": {
            "font": "sans-serif",
            "view": {"stroke": None},
            "range": {"category": list(COLOURS)},
            "axis": {
                "labelColor": INK,
                "titleColor": INK,
                "domainColor": _FAINT,
                "tickColor": _FAINT,
                "gridColor": _FAINT,
                "labelLimit": 420,  # px: long model names stay whole
                "labelFontSize": 12,
                "labelFlush": False,  # else the last label runs into the one before it
            },
            "legend": {
                "labelColor": INK,
                "titleColor": INK,
                "labelLimit": 420,
                "symbolBaseFillColor": INK,
                "symbolBaseStrokeColor": INK,
            },
            "header": {"labelColor": INK, "titleColor": INK, "labelLimit": 420},
            "text": {"color": INK},
            "rule": {"color": INK},
        },
        **parts,
    }


def as_svg(spec: Spec) -> str:
    """The specification drawn as SVG, without a browser."""
    return _drawn(json.dumps(spec))


@lru_cache(maxsize=8)  # a page and the file beside it show the same
def _drawn(spec: str) -> str:
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(spec)
    return svg


def as_png(spec: Spec) -> bytes:
    """The same at twice the size, on white."""
    import vl_convert

    # Nothing but a page knows what ``currentColor`` is.
    inked = json.dumps({**spec, "background": "white"}).replace(f'"{INK}"', '"#222"')
    png: bytes = vl_convert.vegalite_to_png(inked, scale=2)
    return png


def number(value: float, digits: int = 4) -> float:
    """As many significant digits as a chart can show: less to carry, and to read."""
    return float(f"{value:.{digits}g}")


def spanned(interval: Interval | Absent) -> tuple[float, float] | tuple[None, None]:
    """Its ends, as a chart shows them; none where there is no interval."""
    if not present(interval):
        return None, None
    return number(interval.low), number(interval.high)


def grouped(groups: Iterable[str]) -> Spec:
    """Rows of a facet by model, in the order they come, each with its name above."""
    look = {"labelOrient": "top", "labelAnchor": "start", "labelFontWeight": "bold"}
    return {
        "field": "group",
        "type": "nominal",
        "sort": list(dict.fromkeys(groups)),
        "header": {"title": None, **look},
    }
