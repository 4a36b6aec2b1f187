"""Which precision, runtime and batch of a model serve an aim best, within limits.

Every combination is looked at. Its energy is the estimator's where that has an answer, else the
mechanism's alone, ``modelled``; its decode rate is that of sessions at this size, else modelled.
What is compared is always said, and where the range of a saving holds zero, so is that. Where no
combination is within the limits, the one that misses them least is told, and what blocks it.
"""

from __future__ import annotations

import difflib
import itertools
import math
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

from ecocompute_cube.analysis.curves import SAME_SIZE, library
from ecocompute_cube.analysis.estimator import Estimate, answer
from ecocompute_cube.analysis.mechanism import MEASURED_CONTEXT
from ecocompute_cube.analysis.query import (
    BASELINE,
    MOST_BATCH,
    MOST_CONTEXT,
    Query,
    positive,
    precision_named,
    query,
    runtime_named,
    shown,
    whole,
)
from ecocompute_cube.errors import UsageError
from ecocompute_cube.units import signed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

T = TypeVar("T")

Objective = Literal[
    "min_energy", "min_latency", "max_throughput", "min_vram", "min_cost", "min_carbon"
]

PRECISIONS: Final = ("FP16", "NF4", "INT8")
BATCHES: Final = (1, 2, 4, 8, 16, 32)
RUNTIMES: Final = ("eager",)
_ALTERNATIVES: Final = 3
_NEAR: Final = 2.0  # × in size: models whose perplexity may speak of another's
_MOST_LISTED: Final = 64
_MOST_CONSIDERED: Final = 4096  # combinations: a quarter of a second
_TOKENS: Final = 1e6  # cost and carbon are of a million tokens
_MJ_PER_KWH: Final = 3.6e9
_S_PER_H: Final = 3600.0

_OBJECTIVES: Final[MappingProxyType[str, Objective]] = MappingProxyType(
    {
        "min_energy": "min_energy",
        "energy": "min_energy",
        "min_latency": "min_latency",
        "latency": "min_latency",
        "max_throughput": "max_throughput",
        "throughput": "max_throughput",
        "min_vram": "min_vram",
        "vram": "min_vram",
        "min_cost": "min_cost",
        "cost": "min_cost",
        "min_carbon": "min_carbon",
        "carbon": "min_carbon",
    }
)


class Limits(NamedTuple):
    """What a configuration must keep to; None: whatever it takes."""

    max_latency_ms: float | None = None  #: of a token
    max_vram_gb: float | None = None  #: besides the board's memory
    min_throughput: float | None = None  #: tokens/s of all rows
    max_perplexity_pct: float | None = None  #: above FP16


class Prices(NamedTuple):
    """What is paid; there is no default, for there is no price of everywhere."""

    per_kwh: float | None = None
    per_hour: float | None = None  #: of the machine
    grams_per_kwh: float | None = None  #: CO₂ of the power


NO_LIMITS: Final = Limits()
NO_PRICES: Final = Prices()


class Config(NamedTuple):
    """One way to run the model."""

    precision: str
    runtime: str
    batch: int
    context: int
    energy_mj_per_token: float
    delta_pct: float | None  #: against FP16; None where only the mechanism speaks
    ci: tuple[float, float] | None
    latency_ms: float  #: of a token
    throughput_tps: float  #: of all rows
    vram_gb: float
    perplexity_pct: float | None  #: the most that it cost a model of about this size
    cost_per_million: float | None
    co2_g_per_million: float | None
    basis: dict[str, str]
    confidence: str


class Blocked(NamedTuple):
    """A limit that a configuration breaks."""

    limit: str
    allowed: float
    value: float | None  #: None where it is not known

    @property
    def excess(self) -> float:
        """How far beyond, as a logarithm."""
        if self.value is None or self.allowed <= 0 or self.value <= 0:
            return math.inf
        return abs(math.log(self.value / self.allowed))


class Infeasible(NamedTuple):
    """The configuration that misses the limits least."""

    config: Config
    blocked_by: tuple[Blocked, ...]


class Optimum(NamedTuple):
    """The answer, in the field names of the published tool where it has them."""

    objective: Objective
    recommended: Config | None
    alternatives: tuple[Config, ...]
    pareto: tuple[Config, ...]  #: energy against latency: none is better in both
    feasible_count: int
    considered: int
    closest_infeasible: Infeasible | None
    notes: tuple[str, ...]


def optimize(  # noqa: PLR0913 (the parameters of the published API, and prices)
    params_b: float,
    *,
    gpu: str | None = None,
    arch: str | None = None,
    objective: str = "min_energy",
    limits: Limits = NO_LIMITS,
    prices: Prices = NO_PRICES,
    batch: int | None = None,
    context: int | None = None,
    precisions: Sequence[str] = PRECISIONS,
    runtimes: Sequence[str] = RUNTIMES,
    batches: Sequence[int] = BATCHES,
    contexts: Sequence[int] = (MEASURED_CONTEXT,),
) -> Optimum:
    """Look at every combination. Raises UsageError."""
    aim = _objective(objective)
    asked = query(params_b, gpu=gpu, arch=arch)
    allowed, paid = _limits(limits), _prices(prices, aim)
    rows = (batch,) if batch is not None else batches
    lengths = (context,) if context is not None else contexts
    grid = (
        _listed("precisions", precisions, precision_named),
        _listed("runtimes", runtimes, runtime_named),
        _listed("batches", rows, lambda each: whole("batch", each, MOST_BATCH)),
        _listed("contexts", lengths, lambda each: whole("context", each, MOST_CONTEXT)),
    )
    _check_size(math.prod(len(values) for values in grid))
    asking = [
        asked._replace(precision=precision, runtime=runtime, batch=number, context=length)
        for precision, runtime, number, length in itertools.product(*grid)
    ]
    configs = [found for each in asking if (found := _config(each, paid)) is not None]
    return _best(aim, configs, allowed, asked, len(asking))


# What was asked


def _objective(name: object) -> Objective:
    known = _OBJECTIVES.get(name) if isinstance(name, str) else None
    if known is not None:
        return known
    close = difflib.get_close_matches(str(name)[:40], _OBJECTIVES, n=1) if name else []
    raise UsageError(
        f"objective: {shown(name)} is not known here.",
        f"Did you mean {close[0]}?" if close else f"Known: {', '.join(_OBJECTIVES)}.",
    )


def _limits(limits: Limits) -> Limits:
    return Limits(
        *(
            None if value is None else positive(name, value)
            for name, value in zip(limits._fields, limits, strict=True)
        )
    )


def _prices(prices: Prices, aim: Objective) -> Prices:
    names = ("price_per_kwh", "price_per_hour", "grams_per_kwh")
    found = Prices(
        *(
            None if value is None else positive(name, value)
            for name, value in zip(names, prices, strict=True)
        )
    )
    if aim == "min_cost" and found.per_kwh is None and found.per_hour is None:
        raise UsageError(
            "price_per_kwh: there is no cost without a price.",
            "Give price_per_kwh, price_per_hour of the machine, or both.",
        )
    if aim == "min_carbon" and found.grams_per_kwh is None:
        raise UsageError(
            "grams_per_kwh: there is no carbon figure without a factor.",
            "Give the grams of CO2 of a kWh where the machine stands.",
        )
    return found


def _listed(name: str, values: object, checked: Callable[[object], T]) -> list[T]:
    if not isinstance(values, list | tuple) or not 1 <= len(values) <= _MOST_LISTED:
        raise UsageError(f"{name}: give 1 to {_MOST_LISTED} of them.", f"Or leave {name} out.")
    return list(dict.fromkeys(checked(value) for value in values))


def _check_size(combinations: int) -> None:
    if combinations > _MOST_CONSIDERED:
        raise UsageError(
            f"batches: {combinations} combinations are more than {_MOST_CONSIDERED}.",
            "List fewer batches, contexts, precisions or runtimes.",
        )


# One configuration


def _config(asked: Query, prices: Prices) -> Config | None:
    """None where nothing is known of its energy or its rate."""
    found = answer(asked)
    said = found.mechanism
    if said is None:
        return None
    energy, basis = found.mj_per_token, found.mj_basis
    if energy is None:
        energy, basis = said.mj_per_token, "unavailable"
    rate = _measured_rate(found)
    throughput = rate or said.tokens_per_s
    quality = _perplexity(asked)
    return Config(
        precision=asked.precision,
        runtime=asked.runtime,
        batch=asked.batch,
        context=asked.context,
        energy_mj_per_token=energy,
        delta_pct=found.delta_pct,
        ci=found.ci,
        latency_ms=1e3 * asked.batch / throughput,
        throughput_tps=throughput,
        vram_gb=found.vram_gb,
        perplexity_pct=quality,
        cost_per_million=_cost(energy, throughput, prices),
        co2_g_per_million=None
        if prices.grams_per_kwh is None
        else _kwh(energy) * prices.grams_per_kwh,
        basis={
            "energy": "modelled" if basis == "unavailable" else basis,
            "latency": "measured" if rate else "modelled",
            "vram": "estimated",
            "perplexity": "unavailable" if quality is None else "measured on other models",
        },
        confidence=found.confidence,
    )


def _measured_rate(found: Estimate) -> float | None:
    """Of sessions at this size and batch 1; the anchors are at no other."""
    if found.basis != "measured" or found.precision == BASELINE:
        return None
    rates = [
        anchor.tokens_per_s
        for anchor in found.anchors
        if anchor.tokens_per_s and abs(anchor.N - found.params_b) <= SAME_SIZE * anchor.N
    ]
    return fmean(rates) if rates else None


def _perplexity(asked: Query) -> float | None:
    """The most that this precision cost a published model within a factor of two in size."""
    if asked.precision == BASELINE:
        return 0.0
    near = [
        each.delta_pct
        for each in library().quality.get(asked.precision, ())
        if 1 / _NEAR <= each.params_b / asked.params_b <= _NEAR
    ]
    return max(near) if near else None


def _kwh(mj_per_token: float) -> float:
    """Of a million tokens."""
    return mj_per_token * _TOKENS / _MJ_PER_KWH


def _cost(mj_per_token: float, throughput: float, prices: Prices) -> float | None:
    if prices.per_kwh is None and prices.per_hour is None:
        return None
    hours = _TOKENS / throughput / _S_PER_H
    return _kwh(mj_per_token) * (prices.per_kwh or 0.0) + hours * (prices.per_hour or 0.0)


# The choice


def _key(aim: Objective) -> Callable[[Config], tuple[float, float]]:
    def key(config: Config) -> tuple[float, float]:
        values = {
            "min_energy": config.energy_mj_per_token,
            "min_latency": config.latency_ms,
            "max_throughput": -config.throughput_tps,
            "min_vram": config.vram_gb,
            "min_cost": config.cost_per_million or 0.0,
            "min_carbon": config.co2_g_per_million or 0.0,
        }
        return values[aim], config.energy_mj_per_token

    return key


def _best(
    aim: Objective, configs: Sequence[Config], limits: Limits, asked: Query, considered: int
) -> Optimum:
    blocked = [(config, _blocked(config, limits, asked.card.memory_gb)) for config in configs]
    feasible = sorted((config for config, by in blocked if not by), key=_key(aim))
    chosen = feasible[0] if feasible else None
    nearest = min(
        (Infeasible(config, by) for config, by in blocked if by),
        key=lambda each: (len(each.blocked_by), sum(by.excess for by in each.blocked_by)),
        default=None,
    )
    return Optimum(
        objective=aim,
        recommended=chosen,
        alternatives=tuple(feasible[1 : 1 + _ALTERNATIVES]),
        pareto=_pareto(feasible),
        feasible_count=len(feasible),
        considered=considered,
        closest_infeasible=None if chosen else nearest,
        notes=tuple(_notes(chosen, configs, considered)),
    )


def _blocked(config: Config, limits: Limits, memory_gb: float) -> tuple[Blocked, ...]:
    room = memory_gb if limits.max_vram_gb is None else min(memory_gb, limits.max_vram_gb)
    upper = [
        ("max_vram_gb" if limits.max_vram_gb == room else "memory_gb", room, config.vram_gb),
        ("max_latency_ms", limits.max_latency_ms, config.latency_ms),
        ("max_perplexity_pct", limits.max_perplexity_pct, config.perplexity_pct),
    ]
    found = [
        Blocked(name, most, value)
        for name, most, value in upper
        if most is not None and (value is None or value > most)
    ]
    least = limits.min_throughput
    if least is not None and config.throughput_tps < least:
        found.append(Blocked("min_throughput", least, config.throughput_tps))
    return tuple(found)


def _pareto(configs: Iterable[Config]) -> tuple[Config, ...]:
    front: list[Config] = []
    for config in sorted(configs, key=lambda c: (c.latency_ms, c.energy_mj_per_token)):
        if not front or config.energy_mj_per_token < front[-1].energy_mj_per_token:
            front.append(config)
    return tuple(front)


def _notes(chosen: Config | None, configs: Sequence[Config], considered: int) -> Iterable[str]:
    if considered > len(configs):
        yield f"{considered - len(configs)} combinations were left out: no model speaks of them."
    if chosen is None:
        return
    if chosen.basis["energy"] == "modelled":
        yield "The energy of the recommended configuration is modelled alone: it has no range."
    if chosen.ci is not None and chosen.ci[0] < 0 < chosen.ci[1]:
        yield (
            f"Whether {chosen.precision} saves against FP16 is not decided: "
            f"{signed(chosen.ci[0], 0)} to {signed(chosen.ci[1], 0)} %."
        )
    if chosen.batch > 1:
        yield "A batch above 1 helps where so many requests wait at a time; it was not measured."
