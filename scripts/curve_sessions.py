"""What the curves are fitted to: one arm of one session beside FP16 of the same session.

Read from the packaged table of published measurements and from the measurements of this
repository, every set in ``data``. Repeats within a session are averaged: they are no replicates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

from ecocompute_cube.model.base import present
from ecocompute_cube.model.published import Published, published

ROOT: Final = Path(__file__).parents[1]
MEASURED: Final = ROOT / "data"
FOLDERS: Final = ("runs", "container")  # what is superseded is no result
#: What every published session did, and what ours must have done to stand beside them.
WORKLOAD: Final = {
    "batch_size": 1,
    "prompt_tokens": 10,
    "output_tokens": 256,
    "phase": "generate",
}

#: Rows that are no session of the arm as it is named.
_UNLIKE: Final = frozenset({"trial_run", "decode_by_difference", "baseline_back_derived"})
#: Rows that are fitted only where a board has none without: their figures have a doubt.
DOUBTFUL: Final = frozenset({"unverified", "lengths_differ"})
#: Rows that are shown and never fitted: another definition of energy.
UNFITTED: Final = frozenset({"idle_subtracted"})


class Row(NamedTuple):
    """Energies in mJ/token; what was not recorded is None."""

    gpu: str
    precision: str
    runtime: str
    params_b: float
    model: str
    session: str
    log_ratio: float  #: of the arm's energy over that of FP16, as it was paired
    mj: float
    fp16_mj: float
    tokens_per_s: float | None
    fp16_tokens_per_s: float | None
    watts: float | None
    stack: str
    source: str
    remarks: frozenset[str]

    @property
    def doubtful(self) -> bool:
        """Whether something is wrong with its figures."""
        return bool(self.remarks & DOUBTFUL)


def rows() -> tuple[Row, ...]:
    """Every session of every arm, in an order of their own."""
    return _by_session([*_published(), *_measured()])


def _by_session(found: Iterable[Row]) -> tuple[Row, ...]:
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in found:
        key = (row.gpu, row.precision, row.runtime, row.params_b, row.session, row.model)
        alike.setdefault(key, []).append(row)
    return tuple(_mean(alike[key]) for key in sorted(alike, key=str))


def _mean(alike: list[Row]) -> Row:
    def mean(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return fmean(known) if known else None

    return alike[0]._replace(
        log_ratio=fmean(row.log_ratio for row in alike),
        mj=_log_mean([row.mj for row in alike]),
        fp16_mj=_log_mean([row.fp16_mj for row in alike]),
        tokens_per_s=mean([row.tokens_per_s for row in alike]),
        watts=mean([row.watts for row in alike]),
    )


def _log_mean(values: list[float]) -> float:
    return math.exp(fmean(map(math.log, values)))


# The published table


def _published() -> Iterator[Row]:
    for row in published():
        if not _UNLIKE & {*row.remarks}:
            yield Row(
                gpu=row.gpu,
                precision=row.precision,
                runtime=row.runtime,
                params_b=row.params_b,
                model=row.model.rpartition("/")[2],
                session=row.session,
                log_ratio=row.log_ratio,
                mj=row.energy_per_token_mj,
                fp16_mj=row.fp16_energy_per_token_mj,
                tokens_per_s=_known(row.tokens_per_s),
                fp16_tokens_per_s=_known(row.fp16_tokens_per_s),
                watts=_known(row.mean_power_w),
                stack=_stack(row),
                source=row.doi if present(row.doi) else row.file,
                remarks=frozenset(row.remarks) & (DOUBTFUL | UNFITTED),
            )


def _known(value: object) -> float | None:
    return value if isinstance(value, float) else None


def _stack(row: Published) -> str:
    parts = ("torch", "transformers", "bitsandbytes", "torchao")
    told = [f"{name} {value}" for name in parts if present(value := getattr(row, name))]
    return ", ".join(told) or "not published"


# This repository's


def _measured() -> Iterator[Row]:
    for folder in sorted(each for name in FOLDERS for each in MEASURED.glob(f"*/{name}")):
        for arms in sorted(folder.rglob("arms")):
            documents = [json.loads(f.read_text()) for f in sorted(arms.glob("*/energy.json"))]
            yield from _run(documents, str(arms.parent.relative_to(ROOT)))


def _run(documents: list[dict[str, dict[str, Any]]], source: str) -> Iterator[Row]:
    """The arms of one run that have FP16 of the same runtime beside them."""
    arms = {str(each["provenance"]["arm"]): each for each in documents}
    for each in documents:
        work, results = each["workload"], each["results"]
        versus = results["vs_fp16"] or {}  # null where FP16 does not fit the board
        alike = all(work.get(name, value) == value for name, value in WORKLOAD.items())
        if not alike or each["system_under_test"]["accelerator_count"] != 1:
            continue
        if "against" not in versus or work["precision"] == "FP16":
            continue
        baseline = arms[str(versus["against"])]
        yield Row(
            gpu=str(each["system_under_test"]["gpu"]),
            precision=str(work["precision"]),
            runtime=str(work["runtime"]),
            params_b=_number(work["params_b"]),
            model=str(work["model_name"]),
            session=str(each["provenance"]["run_id"]),
            log_ratio=math.log1p(_number(versus["change_pct"]) / 100),
            mj=_number(results["energy_per_token_mj"]),
            fp16_mj=_number(baseline["results"]["energy_per_token_mj"]),
            tokens_per_s=_number(results["throughput_tokens_per_s"]),
            fp16_tokens_per_s=_number(baseline["results"]["throughput_tokens_per_s"]),
            watts=_number(results["avg_power_watts"]),
            stack=_versions(each["software"]["packages"]),
            source=source,
            remarks=frozenset(),
        )


def _versions(packages: dict[str, str]) -> str:
    names = ("torch", "transformers", "bitsandbytes", "torchao")
    return ", ".join(f"{name} {packages[name]}" for name in names if name in packages)


def _number(value: float | str) -> float:
    return float(value)
