"""Answers of the optimizer, for programs and for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ecocompute_cube.report.estimated import question, rounded, short
from ecocompute_cube.report.table import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.analysis.optimizer import Config, Infeasible, Optimum
    from ecocompute_cube.analysis.query import Query
    from ecocompute_cube.report.estimated import Document

_ASKED: Final = frozenset({"params_b", "gpu", "arch"})
_HEAD: Final = (
    "",
    "precision",
    "batch",
    "context",
    "mJ/token",
    "ms/token",
    "tokens/s",
    "GB",
    "basis",
)


def optimum_document(asked: Query, searched: Document, found: Optimum) -> Document:
    """For programs: ``input``, and the answer; alternatives say how they compare."""
    understood = {name: value for name, value in question(asked).items() if name in _ASKED}
    plain = {name: rounded(value) for name, value in zip(found._fields, found, strict=True)}
    if found.recommended is not None:
        plain["alternatives"] = [
            {**_plain(each), "vs_recommended": _against(each, found.recommended)}
            for each in found.alternatives
        ]
    return {"input": {**understood, **searched}, **plain}


def _plain(config: Config) -> Document:
    return {name: rounded(value) for name, value in zip(config._fields, config, strict=True)}


def _against(config: Config, best: Config) -> Document:
    """Changes in percent."""
    names = ("energy_mj_per_token", "latency_ms", "throughput_tps", "vram_gb")
    return {
        name: rounded(100.0 * (getattr(config, name) / getattr(best, name) - 1)) for name in names
    }


def optimum_text(asked: Query, found: Optimum) -> str:
    """The choice, the next ones, and what keeps to no limit."""
    aim = found.objective.replace("_", " ")
    lines = [f"{asked.params_b:g}B on {asked.card.name}; {aim}", ""]
    if found.recommended is None:
        lines += _infeasible(found.closest_infeasible)
    else:
        marks = ["recommended", *("" for _ in found.alternatives)]
        lines += _rows(marks, [found.recommended, *found.alternatives])
        lines += ["", "Energy against latency: none is better in both", ""]
        lines += _rows(["" for _ in found.pareto], found.pareto)
    lines += ["", f"{found.feasible_count} of {found.considered} combinations keep to the limits."]
    lines += found.notes
    return "".join(f"{line}\n" for line in lines)


def _infeasible(nearest: Infeasible | None) -> list[str]:
    if nearest is None:
        return ["Nothing can be recommended: no model speaks of any combination."]
    lines = ["No combination keeps to the limits. The nearest:", ""]
    lines += _rows([""], [nearest.config])
    return lines + [
        f"  {each.limit} {short(each.allowed)}: "
        + ("not known" if each.value is None else f"it takes {short(each.value)}")
        for each in nearest.blocked_by
    ]


def _rows(marks: Sequence[str], configs: Sequence[Config]) -> list[str]:
    rows = [_row(mark, config) for mark, config in zip(marks, configs, strict=True)]
    return list(table([_HEAD, *rows]))


def _row(mark: str, config: Config) -> tuple[str, ...]:
    energy, latency = config.basis["energy"], config.basis["latency"]
    return (
        mark,
        f"{config.precision}/{config.runtime}",
        str(config.batch),
        str(config.context),
        short(config.energy_mj_per_token),
        short(config.latency_ms),
        short(config.throughput_tps),
        short(config.vram_gb),
        f"energy {energy}, rate {latency}",
    )
