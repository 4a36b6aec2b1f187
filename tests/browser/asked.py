"""Random questions for estimator, parser and optimizer, good and bad, and what Python says."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ecocompute_cube.analysis.cards import ARCHES, CARDS
from ecocompute_cube.analysis.curves import library
from ecocompute_cube.analysis.estimator import answer
from ecocompute_cube.analysis.optimizer import Limits, Prices, optimize
from ecocompute_cube.analysis.query import RUNTIMES, query
from ecocompute_cube.analysis.question import understand
from ecocompute_cube.analysis.shapes import BITS
from ecocompute_cube.errors import UsageError

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

Json: TypeAlias = Any

_BATCHES: Final = (1, 1, 1, 2, 8, 32, 4096)
_CONTEXTS: Final = (266, 266, 266, 1, 267, 400, 512, 2048, 8192, 131_072)
_MEASURED: Final = tuple(
    (gpu, precision, runtime, knot.params_b)
    for (gpu, precision, runtime), curve in library().ratios.items()
    for knot in (*curve.sizes, *curve.knots)
)
_ODD: Final[tuple[Json, ...]] = (0, -1, 1.5, 1e12, "", "x", "7", True, [], "Ⅷ", "rtx 4095")
_OBJECTIVES: Final = ("energy", "min_latency", "throughput", "vram", "cost", "min_carbon", "joy")


def estimate_question(draw: random.Random) -> dict[str, Json]:
    """Half of them about what was measured, or nearly; one in twenty is bad."""
    size = math.exp(draw.uniform(math.log(0.01), math.log(2000)))
    asked: dict[str, Json] = {
        "params_b": draw.choice([size, round(size, 1) or 1, draw.uniform(0.3, 16)]),
        "precision": draw.choice([*BITS, "NF4", "NF4", "INT8", "int-8", "8-bit"]),
        "runtime": draw.choice([*RUNTIMES, "eager", "eager", "eager", "Graph"]),
        "batch": draw.choice(_BATCHES),
        "context": draw.choice([*_CONTEXTS, draw.randrange(1, 5000)]),
    }
    if draw.random() < 0.5:
        gpu, precision, runtime, measured = draw.choice(_MEASURED)
        asked |= {"gpu": gpu, "precision": precision, "runtime": runtime}
        asked["params_b"] = measured * draw.choice([1, 1, 0.985, 1.021, 0.7, 1.3])
        asked |= {"batch": 1, "context": 266} if draw.random() < 0.8 else {}
    elif draw.random() < 0.3:
        asked["arch"] = draw.choice([*ARCHES, "Ada"])
    else:
        card = draw.choice(CARDS)
        asked["gpu"] = draw.choice([card.name, *card.also])
    if draw.random() < 0.05:
        asked[draw.choice([*asked, "arch"])] = draw.choice(_ODD)
    return asked


def sentence(draw: random.Random) -> str:
    """Words that the rules know, and some that nobody does, in any order."""
    card = draw.choice(CARDS)
    n = draw.choice(
        [draw.randrange(1, 40), draw.randrange(1, 9000), "1.5", "2.5", "0.5", "٣", "12"]
    )
    parts = [
        f"{n}{draw.choice(['B', 'b', ' billion', 'M', ' m params', '-bn', 'b parameters'])}",
        f"{draw.choice(['on', 'ON', 'with', 'auf', 'on an'])} "
        f"{draw.choice([card.name, *card.also, *ARCHES, card.name.replace(' ', '-')])}",
        draw.choice(["int8", "INT8 T0", "nf4", "4-bit", "q4", "nf4 double quant", "fp8-wo", "fp8"]),
        f"{draw.choice(['batch', 'bs', 'batch size', 'batch-size of'])} {n}",
        f"{n}{draw.choice(['k', '', ' k'])} {draw.choice(['context', 'ctx', 'tokens of context'])}",
        f"{draw.choice(['context', 'ctx', 'sequence length:'])} {n}{draw.choice(['k', ''])}",
        draw.choice(["eager", "as a CUDA graph", "torch.compile", "static", "compiled"]),
        draw.choice(
            ["RTX 4095", "mi300x", "H300", "5 bananas", "v2.1", "naïve", "Straße", "8×", ""]
        ),
    ]
    chosen = draw.sample(parts, draw.randrange(1, len(parts)))
    if draw.random() < 0.7 and parts[0] not in chosen:
        chosen.append(parts[0])
    return draw.choice([", ", " ", ",", "; ", "\t"]).join(chosen)


def optimum_question(draw: random.Random) -> dict[str, Json]:
    """With limits that some keep to, and prices."""
    card = draw.choice(CARDS)
    asked: dict[str, Json] = {
        "params_b": round(math.exp(draw.uniform(math.log(0.2), math.log(100))), 3),
        "gpu": card.name,
        "objective": draw.choice(_OBJECTIVES),
    }
    several: dict[str, Json] = {
        "context": draw.choice([266, 4096]),
        "batch": draw.choice([1, 4, 0]),
        "max_latency_ms": draw.uniform(1, 100),
        "max_vram_gb": draw.uniform(0.5, 100),
        "min_throughput": draw.uniform(1, 3000),
        "max_perplexity_pct": draw.uniform(0, 15),
        "price_per_kwh": 0.3,
        "price_per_hour": 2,
        "grams_per_kwh": draw.choice([390, -1]),
        "precisions": draw.choice([["NF4-DQ", "nf4"], ["INT8-T0", "FP16", "FP8-WO"], []]),
        "runtimes": draw.choice([["eager", "graph"], ["static"]]),
        "batches": [1, 2, 3],
    }
    return asked | dict(draw.sample(sorted(several.items()), draw.randrange(0, 6)))


# What Python says, in the form in which the page is asked


def _refused(error: UsageError) -> dict[str, Json]:
    return {"refused": error.cause.partition(":")[0]}


def _plain(value: object) -> Json:
    return json.loads(json.dumps(value))


def estimated(asked: Mapping[str, Json]) -> Json:
    """Every field; of the anchors, how many."""
    try:
        found = answer(query(**asked))._asdict()
    except UsageError as error:
        return _refused(error)
    said = found["mechanism"]
    found |= {"anchors": len(found["anchors"]), "mechanism": said and said._asdict()}
    return _plain(found)


def understood(text: str) -> Json:
    """The values, and what was not understood."""
    try:
        return _plain(understand(text)._asdict())
    except UsageError as error:
        return {"refused": error.cause, "fix": error.fix}


def optimum(asked: Mapping[str, Json]) -> Json:
    """Every field."""
    given = dict(asked)
    limits = Limits(**{name: given.pop(name, None) for name in Limits._fields})
    prices = Prices(
        *(given.pop(name, None) for name in ("price_per_kwh", "price_per_hour", "grams_per_kwh"))
    )
    try:
        found = optimize(**given, limits=limits, prices=prices)._asdict()
    except UsageError as error:
        return _refused(error)
    for name in ("alternatives", "pareto"):
        found[name] = [each._asdict() for each in found[name]]
    if found["recommended"] is not None:
        found["recommended"] = found["recommended"]._asdict()
    if (nearest := found["closest_infeasible"]) is not None:
        blocked = [each._asdict() for each in nearest.blocked_by]
        found["closest_infeasible"] = {"config": nearest.config._asdict(), "blocked_by": blocked}
    return _plain(found)


def differing(ours: Json, theirs: Json, place: str = "") -> str | None:
    """The first place where two answers differ: numbers by more than 10⁻⁹ of themselves."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        pairs = [(ours[key], theirs[key], f"{place}.{key}") for key in ours]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = [(a, b, f"{place}.{n}") for n, (a, b) in enumerate(zip(ours, theirs, strict=True))]
    else:
        number = isinstance(ours, int | float) and isinstance(theirs, int | float)
        same = math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9) if number else ours == theirs
        return None if same else f"{place or 'answer'}: {ours!r} is not {theirs!r}"
    return next((told for each in pairs if (told := differing(*each))), None)
