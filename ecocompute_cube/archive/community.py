"""One arm as a row of the published community template, and which of its tracks it is for.

The columns are those of ``community_submission_template.csv`` (EcoCompute, H. Zhang, CC BY 4.0);
what a track asks for is in the same project's rules for contributed data, version 1.0.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.analysis.documents import at, number_at, text_at
from ecocompute_cube.archive.words import one_line
from ecocompute_cube.model.base import present
from ecocompute_cube.model.hub_reference import HUB_PREFIX
from ecocompute_cube.model.plan import Phase
from ecocompute_cube.report.table import counted
from ecocompute_cube.units import Joule, mj_per_token

if TYPE_CHECKING:
    from ecocompute_cube.analysis.documents import Document
    from ecocompute_cube.analysis.gates import Judged

COLUMNS: Final = (
    "submission_id",
    "track",
    "submitter_name",
    "submitter_contact",
    "date_utc",
    "gpu_name",
    "gpu_architecture",
    "gpu_vram_gb",
    "gpu_tdp_w",
    "driver_version",
    "cuda_version",
    "python_version",
    "pytorch_version",
    "transformers_version",
    "bitsandbytes_version",
    "model_id",
    "model_parameters_b",
    "precision",
    "quantization_backend",
    "batch_size",
    "prompt_tokens",
    "generated_tokens",
    "warmup_runs",
    "measured_runs",
    "sampling_rate_hz",
    "energy_j_per_1k_tok_mean",
    "energy_j_per_1k_tok_std",
    "energy_cv_percent",
    "throughput_tok_s_mean",
    "throughput_tok_s_std",
    "avg_power_w_mean",
    "avg_power_w_std",
    "peak_power_w_mean",
    "notes",
    "raw_archive_path",
)
NOT_APPLICABLE: Final = "N/A"  # the template's own word
_MAIN, _SUPPLEMENTARY = "main-benchmark-candidate", "supplementary-case-study"
_MOST_CV_PCT: Final = 3.0  # rules for contributed data 1.0, track A; so are the next three
_LEAST_HZ: Final = 10
_LEAST_WARMUP: Final = 3
_LEAST_RUNS: Final = 10


class Person(NamedTuple):
    """Who contributes, and where the evidence lies."""

    name: str = NOT_APPLICABLE
    contact: str = NOT_APPLICABLE
    archive: str = NOT_APPLICABLE


class Blocks(NamedTuple):
    """What each block of an arm gave."""

    energy: tuple[float, ...]  #: mJ a token, which is J a thousand
    rate: tuple[float, ...]  #: tokens a second
    power: tuple[float, ...]  #: W


class Entry(NamedTuple):
    """One row, and why it is not for the main track; nothing if it is."""

    row: dict[str, str]
    short_of: tuple[str, ...]


def blocks_of(windows: Iterable[Judged]) -> Blocks:
    """Windows of one block are summed first: the block is the replicate."""
    energy: dict[tuple[int, int], float] = defaultdict(float)
    tokens: dict[tuple[int, int], int] = defaultdict(int)
    work_s: dict[tuple[int, int], float] = defaultdict(float)
    for window in windows:
        if present(window.energy):
            key = window.fact.session, window.fact.block
            energy[key] += window.energy.energy
            tokens[key] += window.tokens
            work_s[key] += window.work_s
    return Blocks(
        energy=tuple(mj_per_token(Joule(energy[key]), tokens[key]) for key in energy),
        rate=tuple(tokens[key] / work_s[key] for key in energy),
        power=tuple(energy[key] / work_s[key] for key in energy),
    )


def entry(identifier: str, document: Document, blocks: Blocks, person: Person) -> Entry:
    """An arm's row. Means are the document's; spreads are over blocks."""
    cv_pct = _cv_pct(blocks.energy)
    short_of = tuple(_short_of(document, cv_pct))
    row = {
        "submission_id": identifier,
        "track": _SUPPLEMENTARY if short_of else _MAIN,
        "submitter_name": person.name,
        "submitter_contact": person.contact,
        "date_utc": (text_at(document, "timestamp_utc") or "")[:10],
        **_machine(document),
        **_work(document),
        "energy_j_per_1k_tok_mean": _number(number_at(document, "results.energy_per_token_mj")),
        "energy_j_per_1k_tok_std": _number(_std(blocks.energy)),
        "energy_cv_percent": _number(cv_pct),
        "throughput_tok_s_mean": _number(number_at(document, "results.throughput_tokens_per_s")),
        "throughput_tok_s_std": _number(_std(blocks.rate)),
        "avg_power_w_mean": _number(number_at(document, "results.avg_power_watts")),
        "avg_power_w_std": _number(_std(blocks.power)),
        "peak_power_w_mean": NOT_APPLICABLE,
        "notes": _notes(document, blocks),
        "raw_archive_path": person.archive,
    }
    return Entry({column: _cell(row[column]) for column in COLUMNS}, short_of)


def as_csv(entries: Sequence[Entry]) -> str:
    """The header of the template and a row for each."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(each.row for each in entries)
    return out.getvalue()


def _machine(document: Document) -> dict[str, str]:
    memory_mib = number_at(document, "system_under_test.memory_mib")
    return {
        "gpu_name": _text(document, "system_under_test.gpu"),
        "gpu_architecture": _text(document, "system_under_test.gpu_arch"),
        "gpu_vram_gb": _number(memory_mib / 1024 if memory_mib else None, digits=3),
        "gpu_tdp_w": _number(number_at(document, "system_under_test.power_limit_w")),
        "driver_version": _text(document, "software.nvidia_driver"),
        "cuda_version": _text(document, "software.torch_cuda"),
        "python_version": _text(document, "software.python"),
        "pytorch_version": _text(document, "software.packages.torch"),
        "transformers_version": _text(document, "software.packages.transformers"),
        "bitsandbytes_version": _text(document, "software.packages.bitsandbytes"),
    }


def _work(document: Document) -> dict[str, str]:
    reference = _text(document, "workload.model_reference").removeprefix(HUB_PREFIX)
    precision = _text(document, "workload.precision")
    kernels = _text(document, "certificate.kernels").split(" ")[0]
    return {
        "model_id": reference,
        "model_parameters_b": _number(number_at(document, "workload.params_b")),
        "precision": precision.lower(),
        "quantization_backend": "none" if precision in ("FP16", "BF16") else kernels,
        "batch_size": _number(number_at(document, "workload.batch_size")),
        "prompt_tokens": _number(number_at(document, "workload.prompt_tokens")),
        "generated_tokens": _number(number_at(document, "workload.output_tokens")),
        "warmup_runs": _number(number_at(document, "measurement.warmup")),
        "measured_runs": _number(_runs(document)),
        "sampling_rate_hz": _number(number_at(document, "measurement.sample_rate_hz")),
    }


def _runs(document: Document) -> float:
    iterations = number_at(document, "measurement.iterations") or 0
    return iterations * (number_at(document, "measurement.blocks") or 0)


def _short_of(document: Document, cv_pct: float | None) -> Iterable[str]:
    """What the main track asks for and this arm has not."""
    if at(document, "workload.weights") != "original":
        yield f"its weights are {at(document, 'workload.weights')}"
    if at(document, "workload.runtime") != "eager":
        yield f"its runtime is {at(document, 'workload.runtime')}, not plain generate()"
    if at(document, "workload.phase") not in (None, Phase.GENERATE):
        yield f"its windows hold the phase {at(document, 'workload.phase')} alone"
    if number_at(document, "results.fp16_energy_per_token_mj") is None:
        yield "FP16 does not stand beside it"
    if cv_pct is None:
        yield "one block alone has no spread"
    elif cv_pct >= _MOST_CV_PCT:
        yield f"energy varies by {cv_pct:.1f} % between blocks, less than {_MOST_CV_PCT:g} is asked"
    for place, least, what in (
        ("measurement.sample_rate_hz", _LEAST_HZ, "samples a second"),
        ("measurement.warmup", _LEAST_WARMUP, "warm-up passes"),
    ):
        found = number_at(document, place) or 0
        if found < least:
            yield f"{found:g} {what}, {least} are asked for"
    if _runs(document) < _LEAST_RUNS:
        yield f"{_runs(document):g} generations, {_LEAST_RUNS} are asked for"


def _notes(document: Document, blocks: Blocks) -> str:
    found = at(document, "findings")
    listed = found if isinstance(found, list) else []
    codes = sorted({str(each.get("code")) for each in listed if isinstance(each, dict)})
    told = [
        f"EcoCompute cube, energy by {text_at(document, 'measurement.source')}",
        f"runtime {at(document, 'workload.runtime')}",
        f"{at(document, 'workload.weights')} weights",
        f"spreads over {counted(len(blocks.energy), 'block')}",
        *([f"findings: {' '.join(codes)}"] if codes else []),
    ]
    return "; ".join(told)


def _std(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def _cv_pct(values: Sequence[float]) -> float | None:
    spread = _std(values)
    return None if spread is None else 100 * spread / statistics.mean(values)


def _number(value: float | None, digits: int = 6) -> str:
    return NOT_APPLICABLE if value is None else f"{value:.{digits}g}"


def _text(document: Document, place: str) -> str:
    """Keys of packages hold no dot, so a dotted place finds them."""
    return text_at(document, place) or NOT_APPLICABLE


def _cell(text: str) -> str:
    """No formula for a spreadsheet, no line of its own."""
    shown = one_line(text, 1000)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown
