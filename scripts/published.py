"""Write ecocompute_cube/published/measured.csv from the published files, or find that it differs.

    python scripts/published.py SOURCES [--check]

SOURCES is a folder with ``quant-energy/`` and ``ecocompute-ai/`` in it, each holding the files that
ecocompute_cube/published/SOURCES.md lists. One line a published comparison with FP16: figures as
they were published, the change in percent computed from the two energies. With ``--check`` nothing
is written, and the status is 1 where the committed table is not what the files give.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ecocompute_cube.model.published import COLUMNS, TABLE

Cells = dict[str, str]

_QUANT: Final = "hongping-zh/quant-energy"
_AI: Final = "hongping-zh/ecocompute-ai"
_DATASET: Final = "10.5281/zenodo.19647290"  # the dataset, version 1.1.0
_ADA: Final = "10.5281/zenodo.22037483"  # RTX 4090
_GGUF: Final = "10.5281/zenodo.22295184"  # llama.cpp
_BLACKWELL: Final = "10.5281/zenodo.22855133"  # RTX 5090, September 2026

#: Names as NVML gives them, of boards that a file names shortly.
_BOARDS: Final = {
    "RTX 4090": "NVIDIA GeForce RTX 4090",
    "RTX 4090D": "NVIDIA GeForce RTX 4090 D",
    "RTX 5090": "NVIDIA GeForce RTX 5090",
    "T4": "Tesla T4",
}
_PROTOCOL: Final = {
    "runtime": "eager",
    "batch_size": "1",
    "prompt_tokens": "10",
    "output_tokens": "256",
}
#: Names of precisions in the A800 files and in those of torchao, and ours.
_PRECISIONS: Final = {
    "int8_default": "INT8",
    "int8_pure": "INT8-T0",
    "nf4": "NF4",
    "nf4_dq": "NF4-DQ",
    "fp8": "FP8-WO",
    "fp8_dyn": "FP8-DYN",
}


class Source(NamedTuple):
    """One published file and how its lines are read."""

    path: str  #: below the folder of sources
    repository: str
    doi: str
    rows: Callable[[str], Iterator[Cells]]


def _lines(text: str) -> list[Cells]:
    return list(csv.DictReader(io.StringIO(text)))


def _collected(text: str) -> Iterator[Cells]:
    """The table of all early sessions, but for those that a file of their own tells more of."""
    for line in _lines(text):
        if line["gpu"] in ("RTX 4090D", "RTX 4090"):
            yield _early(line)


def _early(line: Cells) -> Cells:
    back_derived = "back-derived" in line["note"]
    session = "rtx4090-2026-08-06" if back_derived else "rtx4090-2026-07"
    remarks = "baseline_back_derived" if back_derived else ""
    if line["gpu"] == "RTX 4090D":
        session, remarks = "rtx4090d-2026-03", "idle_subtracted"
    return {
        **_PROTOCOL,
        "session": session,
        "gpu": _BOARDS[line["gpu"]],
        "gpu_arch": line["arch"],
        "model": line["model"],
        "params_b": line["params_b"],
        "precision": line["precision"],
        "energy_per_token_mj": line["energy_quant_j1k"],
        "fp16_energy_per_token_mj": line["energy_fp16_j1k"],
        "trials": line["n_trials"],
        "transformers": "4.46.3" if back_derived else "",
        "bitsandbytes": "0.45.5" if back_derived else "",
        "remarks": remarks,
    }


def _pairs(session: str, gpu: str, arch: str) -> Callable[[str], Iterator[Cells]]:
    """A file whose lines are means of an FP16 and an NF4 arm after one another."""

    def rows(text: str) -> Iterator[Cells]:
        lines = _lines(text)
        fp16 = {line["model"]: line for line in lines if line["config"] == "FP16"}
        for line in lines:
            if line["config"] != "FP16":
                yield {
                    **_PROTOCOL,
                    "session": session,
                    "gpu": _BOARDS[gpu],
                    "gpu_arch": arch,
                    "model": line["model"],
                    "params_b": line["model"].rpartition("-")[2].removesuffix("B"),
                    "precision": line["config"],
                    "energy_per_token_mj": line["energy_per_1k_tokens_mean"],
                    "fp16_energy_per_token_mj": fp16[line["model"]]["energy_per_1k_tokens_mean"],
                    "mean_power_w": line["power_mean"],
                    "tokens_per_s": line["throughput_mean"],
                    "fp16_tokens_per_s": fp16[line["model"]]["throughput_mean"],
                    "remarks": "means_only trials_unclear unverified",
                }

    return rows


def _a800(text: str) -> Iterator[Cells]:
    lines = _lines(text)
    fp16 = {line["model"]: line for line in lines if line["config"] == "fp16"}
    sizes = {"Mistral-7B-v0.1": "7.0", "Yi-1.5-9B": "9.0", "Qwen2.5-14B": "14.0"}
    for line in lines:
        if line["config"] != "fp16":
            yield {
                **_PROTOCOL,
                "session": "a800-2026",
                "gpu": f"NVIDIA {line['gpu']}",
                "gpu_arch": "ampere",
                "model": line["model"],
                "params_b": sizes[line["model"]],
                "precision": _PRECISIONS[line["config"]],
                "energy_per_token_mj": line["energy_j_1k"],
                "fp16_energy_per_token_mj": fp16[line["model"]]["energy_j_1k"],
                "mean_power_w": line["power_w"],
                "tokens_per_s": line["throughput"],
                "fp16_tokens_per_s": fp16[line["model"]]["throughput"],
                "perplexity": line["ppl"],
                "fp16_perplexity": fp16[line["model"]]["ppl"],
                "output_tokens": "",
                "remarks": "lengths_differ trials_unclear",
            }


def _bitsandbytes(name: str) -> Callable[[str], Iterator[Cells]]:
    """A file of the container's own columns; its sessions are letters."""

    def rows(text: str) -> Iterator[Cells]:
        for line in _lines(text):
            again = line["session"].endswith("_retry")
            trial = line["session"] == "smoke"
            yield {
                **_PROTOCOL,
                "session": f"{name}-{line['session'].removesuffix('_retry')}",
                "utc": line["timestamp_utc"],
                "card": line.get("gpu_uuid_short", ""),
                **_same(line),
                "perplexity": line["ppl"],
                "fp16_perplexity": line["fp16_ppl"],
                "remarks": "retry" if again else "trial_run" if trial else "",
            }

    return rows


def _container(name: str) -> Callable[[str], Iterator[Cells]]:
    """A file with a run id a line, all of one session."""

    def rows(text: str) -> Iterator[Cells]:
        for line in _lines(text):
            yield {
                **_PROTOCOL,
                "session": name,
                "utc": line["timestamp_utc"],
                **_same(line),
                "perplexity": line["perplexity"],
                "fp16_perplexity": line["fp16_perplexity"],
                "accelerate": line["accelerate"],
                "remarks": "replicate" if "replicate" in line else "",
            }

    return rows


def _same(line: Cells) -> Cells:
    return {
        "gpu": line["gpu"],
        "gpu_arch": line["gpu_arch"],
        "model": line["model"],
        "params_b": line["params_b"],
        "precision": line["precision"],
        "energy_per_token_mj": line["energy_j_per_1k_tok"],
        "fp16_energy_per_token_mj": line["fp16_energy_j_per_1k_tok"],
        "mean_power_w": line["avg_power_w"],
        "tokens_per_s": line["throughput_tok_s"],
        "driver": line["nvidia_driver"],
        "torch": line["torch"],
        "transformers": line["transformers"],
        "bitsandbytes": line["bitsandbytes"],
    }


def _torchao(text: str) -> Iterator[Cells]:
    lines = _lines(text)
    fp16 = {line["model"]: line for line in lines if line["precision"] == "fp16"}
    for line in lines:
        if line["precision"] != "fp16":
            short = line["short_generation"] == "yes"
            yield {
                **_PROTOCOL,
                "session": "rtx5090-fp8-2026-09-20",
                "utc": line["timestamp_utc"] + "Z",
                "gpu": line["gpu"],
                "gpu_arch": "blackwell",
                "model": line["model"],
                "params_b": line["params_b"],
                "precision": _PRECISIONS[line["precision"]],
                "energy_per_token_mj": line["energy_j_per_1k_tok"],
                "fp16_energy_per_token_mj": fp16[line["model"]]["energy_j_per_1k_tok"],
                "mean_power_w": line["avg_power_w"],
                "tokens_per_s": line["throughput_tok_s"],
                "fp16_tokens_per_s": fp16[line["model"]]["throughput_tok_s"],
                "torch": line["torch"],
                "torchao": line["torchao"],
                "output_tokens": "" if short else _PROTOCOL["output_tokens"],
                "remarks": "lengths_differ" if short else "",
            }


def _gguf(text: str) -> Iterator[Cells]:
    lines = _lines(text)
    fp16 = next(line for line in lines if line["precision"] == "F16")
    for line in lines:
        if line is not fp16:
            yield {
                "session": "rtx4090-llamacpp-2026-09-03",
                "utc": "2026-09-03",
                "gpu": _BOARDS["RTX 4090"],
                "gpu_arch": "ada",
                "model": line["model"],
                "params_b": line["params_b"],
                "precision": line["precision"],
                "runtime": "llama.cpp",
                "batch_size": "1",
                "output_tokens": line["decode_tokens"],
                "energy_per_token_mj": line["energy_mj_per_token"],
                "fp16_energy_per_token_mj": fp16["energy_mj_per_token"],
                "mean_power_w": line["decode_avg_power_w"],
                "tokens_per_s": line["throughput_tok_s"],
                "fp16_tokens_per_s": fp16["throughput_tok_s"],
                "perplexity": line["perplexity"],
                "fp16_perplexity": line["fp16_perplexity"],
                "remarks": "decode_by_difference",
            }


def _energy_json(text: str) -> Iterator[Cells]:
    document = json.loads(text)
    packages, results = document["software"]["packages"], document["results"]
    yield {
        **_PROTOCOL,
        "session": "rtx3050ti-2026-08-23",
        "utc": document["timestamp_utc"],
        "gpu": document["system_under_test"]["gpu"],
        "gpu_arch": document["system_under_test"]["gpu_arch"],
        "model": document["workload"]["model_name"],
        "params_b": str(document["workload"]["params_b"]),
        "precision": document["workload"]["precision"],
        "energy_per_token_mj": str(results["energy_per_token_mj"]),
        "fp16_energy_per_token_mj": str(results["fp16_energy_per_token_mj"]),
        "mean_power_w": str(results["avg_power_watts"]),
        "tokens_per_s": str(results["throughput_tokens_per_s"]),
        "perplexity": str(document["quality"]["value"]),
        "fp16_perplexity": str(document["quality"]["fp16_value"]),
        "driver": document["software"]["nvidia_driver"],
        "remarks": "replication",
        **{name: packages[name] for name in ("torch", "transformers", "bitsandbytes")},
        "accelerate": packages["accelerate"],
    }


SOURCES: Final = (
    Source("quant-energy/measured.csv", _QUANT, _DATASET, _collected),
    Source(
        "ecocompute-ai/rtx5090_benchmark_results.csv",
        _AI,
        _DATASET,
        _pairs("rtx5090-2026-01", "RTX 5090", "blackwell"),
    ),
    Source(
        "ecocompute-ai/t4_benchmark_results.csv", _AI, _DATASET, _pairs("t4-2026", "T4", "turing")
    ),
    Source("ecocompute-ai/a800_summary.csv", _AI, _DATASET, _a800),
    Source(
        "quant-energy/rtx4090_paired_energy_quality_2026-08-19.csv",
        _QUANT,
        _ADA,
        _container("rtx4090-2026-08-19"),
    ),
    Source(
        "quant-energy/rtx4090_int8_repeats_2026-08-20.csv",
        _QUANT,
        _ADA,
        _container("rtx4090-2026-08-20"),
    ),
    Source(
        "quant-energy/replications/2026-08-23-rtx3050ti-tinyllama-nf4.energy.json",
        _QUANT,
        "",
        _energy_json,
    ),
    Source("quant-energy/rtx4090_llamacpp_gguf_v2_2026-09-03.summary.csv", _QUANT, _GGUF, _gguf),
    Source(
        "quant-energy/rtx5090_bnb_2026-09-20.csv",
        _QUANT,
        _BLACKWELL,
        _bitsandbytes("rtx5090-2026-09-20"),
    ),
    Source("quant-energy/rtx5090_fp8_torchao_2026-09-20.csv", _QUANT, _BLACKWELL, _torchao),
    Source(
        "quant-energy/rtx4090_bnb_2026-09-25.csv",
        _QUANT,
        "",
        _bitsandbytes("rtx4090-2026-09-25"),
    ),
)


def table(folder: Path) -> str:
    """The table as text, from the files below ``folder``."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    for source in SOURCES:
        text = (folder / source.path).read_text(encoding="utf-8")
        for number, cells in enumerate(source.rows(text), start=1):
            name = Path(source.path).name
            head = {"id": f"{name.split('.')[0]}-{number}", "file": f"{source.repository}: {name}"}
            doi = {"doi": source.doi, "license": "CC-BY-4.0"}
            trials = {"trials": cells.get("trials", "") or "1"}
            writer.writerow({**head, **doi, **cells, **trials, **_change(cells)})
    return out.getvalue()


def _change(cells: Cells) -> Cells:
    mj, fp16 = float(cells["energy_per_token_mj"]), float(cells["fp16_energy_per_token_mj"])
    return {"vs_fp16_energy_pct": f"{100 * (mj / fp16 - 1):.2f}"}


def main(arguments: Sequence[str]) -> int:
    """Write the table or, with ``--check``, compare it."""
    folder, *rest = arguments
    made = table(Path(folder))
    if rest == ["--check"]:
        same = TABLE.read_text(encoding="utf-8") == made
        sys.stdout.write("" if same else f"{TABLE.name} is not what the files give\n")
        return 0 if same else 1
    TABLE.write_text(made, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
