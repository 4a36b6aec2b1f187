"""The whole chain with a real model of two layers: what is claimed is what another way finds."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from ecocompute_cube.device.presence import driver_present
from ecocompute_cube.measure import builtin_text
from ecocompute_cube.model.journal import (
    ArmReady,
    Fact,
    QualityScored,
    Refused,
    WindowMeasured,
)
from ecocompute_cube.model.journal_file import read_journal

from .rig import ROOT, Ended, ecocompute
from .tiny import CONTEXT, END, write_tiny

BATCH, PROMPT, OUTPUT = 2, 40, 12
MODEL, RESULTS, PAGES = "ein Modell, klein ✓", "out put/ü", ("päge 1", "päge 2")
PLAN = f"""\
name: tiny
models: ["{MODEL}"]
workloads: [{{prompt_tokens: {PROMPT}, output_tokens: {OUTPUT}, batch: {BATCH}}}]
protocol: {{mode: precise}}
"""


class Chain(NamedTuple):
    """Every command of one rehearsal, started beside the plan with relative paths."""

    folder: Path
    ended: dict[str, Ended]
    facts: tuple[Fact, ...]

    def one(self, precision: str, kind: str) -> Fact:
        (fact,) = (
            f for f in self.facts if f.kind == kind and f"_{precision}_" in getattr(f, "arm", "")
        )
        return fact


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """Made once, by whichever of the test processes comes first."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "a folder" / "mit Leerzeichen, ümläut"
    with (shared / ".chain.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = shared / ".chain.json"
        if not told.exists():
            told.write_text(json.dumps(make_chain(folder)))
        ended = {name: Ended(*each) for name, each in json.loads(told.read_text()).items()}
    (run,) = (path for path in (folder / RESULTS).iterdir() if path.is_dir())
    return Chain(folder, ended, read_journal(run / "journal.jsonl").records)


def make_chain(folder: Path) -> dict[str, Ended]:
    write_tiny(folder / MODEL)
    (folder / "plan.yaml").write_text(PLAN, encoding="utf-8")
    parameters = ("--parameters_file", "plan.yaml")
    models = ("--models-dir", "my models/ö")
    commands = {
        "plan": ("plan", "plan.yaml", *models),
        "download": ("download", *parameters, *models),
        "planned": ("plan", "plan.yaml", *models, "--json"),
        "measure": ("measure", *parameters, *models, "--output_dir", RESULTS, "--rehearse"),
        "report": ("report", "--results_dir", RESULTS, "--report_dir", PAGES[0]),
        "again": ("report", "--results_dir", RESULTS, "--report_dir", str(folder / PAGES[1])),
        "validate": ("validate", RESULTS),
    }
    return {name: ecocompute(*arguments, cwd=folder) for name, arguments in commands.items()}


def prompts() -> list[list[int]]:
    """The rows of the only generation: characters of the text, one after the other."""
    tokenizer_bytes = _byte_ids(builtin_text().read_bytes())
    return [tokenizer_bytes[PROMPT * row : PROMPT * (row + 1)] for row in range(BATCH)]


def _byte_ids(data: bytes) -> list[int]:
    """Ids by the tokenizer's own table, without the library's encoder."""
    from tokenizers import pre_tokenizers

    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelling = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in spelling)
    spelling |= {byte: chr(256 + place) for place, byte in enumerate(others)}
    number = {c: n for n, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    return [number[spelling[byte]] for byte in data]


def test_every_command_does_what_it_says(chain: Chain) -> None:
    told = {name: ended.status for name, ended in chain.ended.items()}
    assert told == dict.fromkeys(chain.ended, 0) | {"validate": 1}  # a rehearsal has no energy
    assert not any("Traceback" in ended.err for ended in chain.ended.values())


def test_progress_goes_to_standard_error_and_the_table_to_standard_output(chain: Chain) -> None:
    measure = chain.ended["measure"]
    assert "block 1 of 1, arm 3 of 3" in measure.err
    assert f"  {BATCH * OUTPUT} tokens in" in measure.err
    assert "block" not in measure.out
    lines = [line.split()[0] for line in measure.out.splitlines() if "not measured" in line]
    assert lines == ["FP16", "NF4", "INT8"]
    assert measure.out.strip() in chain.ended["report"].out


@pytest.mark.parametrize("precision", ["FP16", "NF4", "INT8"])
def test_tokens_are_batch_times_output_and_prompts_as_long_as_asked(
    chain: Chain, precision: str
) -> None:
    window = chain.one(precision, "window")
    assert isinstance(window, WindowMeasured)
    (row,) = window.ledger
    assert (row.rows, row.prompt_tokens, row.padding_tokens) == (BATCH, PROMPT, 0)
    assert (row.output_tokens, row.stop) == (OUTPUT, "length")
    ready = chain.one(precision, "ready")
    assert isinstance(ready, ArmReady)
    text = "\n".join(" ".join(map(str, row)) for row in prompts())
    assert ready.prompt_sha256 == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("precision", "settings"),
    [
        ("FP16", {}),
        ("NF4", {"quant_type": "nf4", "blocksize": "64", "double_quant": "false"}),
        ("INT8", {"outlier_threshold": "6.0"}),
    ],
)
def test_certificates_are_as_named(chain: Chain, precision: str, settings: dict[str, str]) -> None:
    ready = chain.one(precision, "ready")
    assert isinstance(ready, ArmReady)
    found = ready.certificate
    assert (found.share_as_named, found.settings) == (1.0, settings)
    assert set(found.linear_weights) == {precision}
    assert (found.devices, found.compute_dtype) == (("cpu",), "float16")


def test_ids_and_perplexity_are_those_of_a_plain_forward_pass(chain: Chain) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    folder = chain.folder / MODEL
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float16).eval()
    with torch.inference_mode():
        ids = [list(row) for row in prompts()]
        for _ in range(OUTPUT):
            for row in ids:
                logits = model(torch.tensor([row])).logits[0, -1].float()
                logits[END] = -math.inf
                row.append(int(logits.argmax()))
        text = torch.tensor([_byte_ids(builtin_text().read_bytes()[:CONTEXT])])
        chances = model(text).logits[0].double().log_softmax(-1)
    told = "\n".join(" ".join(map(str, row[PROMPT:])) for row in ids)
    window = chain.one("FP16", "window")
    assert isinstance(window, WindowMeasured)
    assert window.output_sha256 == hashlib.sha256(told.encode()).hexdigest()
    nll = -sum(float(chances[i, text[0, i + 1]]) for i in range(CONTEXT - 1))
    scored = chain.one("FP16", "quality")
    assert isinstance(scored, QualityScored)
    assert scored.scored_tokens == (CONTEXT - 1,)
    assert scored.nll[0] == pytest.approx(nll, rel=1e-4)
    perplexity = f"{math.exp(scored.nll[0] / (CONTEXT - 1)):.2f}"
    (line,) = (each for each in chain.ended["measure"].out.splitlines() if each.startswith("FP16"))
    assert perplexity in line.split()


def test_results_can_be_read_twice(chain: Chain) -> None:
    one, two = ({f.name: f.read_bytes() for f in (chain.folder / p).glob("*.*")} for p in PAGES)
    assert one == two
    assert {"report.html", "report.json", "results.csv"} <= set(one)
    assert chain.ended["report"].out == chain.ended["again"].out


def test_the_plan_is_told_before_and_after_the_download(chain: Chain) -> None:
    assert "local-ein-Modell-klein_b2-p40-o12_NF4_eager" in chain.ended["plan"].out
    told = json.loads(chain.ended["planned"].out)
    assert told["predicted"]["models_bytes"] > 0
    assert [len(block["order"]) for block in told["blocks"]] == [3, 3, 3]


def test_validate_names_every_document_and_finds_only_that_no_energy_was_measured(
    chain: Chain,
) -> None:
    validate = chain.ended["validate"]
    assert validate.out.count("energy.json: ") == 3
    assert "3 documents against v1.1-core" in validate.out
    assert "recomputed" not in validate.out and "schema-invalid" not in validate.out


def test_nothing_names_a_folder_of_this_machine(chain: Chain) -> None:
    for file in chain.folder.glob(f"{RESULTS}/*/**/*.json*"):
        assert str(chain.folder.parent) not in file.read_text(encoding="utf-8"), file


@pytest.mark.skipif(driver_present(), reason="there is an NVIDIA driver: `run` would measure")
def test_run_rehearses_by_itself_and_a_library_that_cannot_be_loaded_costs_its_arm(
    tmp_path: Path,
) -> None:
    write_tiny(tmp_path / "tiny")
    (tmp_path / "workspace" / "config").mkdir(parents=True)
    (tmp_path / "workspace" / "config" / "protocol.yaml").write_text(
        "name: all\nmodels: [../../tiny]\narms: [FP16, NF4]\nprotocol: {mode: precise}\n"
        "workloads: [{prompt_tokens: 4, output_tokens: 8}]\n"
    )
    shim = tmp_path / "shim" / "bitsandbytes"
    shim.mkdir(parents=True)
    (shim / "__init__.py").write_text("raise ImportError('libbitsandbytes.so: no such symbol')\n")
    path = f"{shim.parent}{os.pathsep}{ROOT}"
    ended = ecocompute("run", cwd=tmp_path, environment={"PYTHONPATH": path})
    assert ended.status == 0, ended.err
    assert ended.err.startswith("No NVIDIA driver on this machine: this is a rehearsal")
    made = {file.name for file in (tmp_path / "workspace" / "report").iterdir()}
    assert {"report.html", "report.json", "results.csv"} <= made
    (journal,) = (tmp_path / "workspace" / "results").glob("*/journal.jsonl")
    facts = read_journal(journal).records
    (refused,) = (fact for fact in facts if isinstance(fact, Refused))
    assert refused.reason == "library_missing" and "libbitsandbytes.so" in refused.cause
    (window,) = (fact for fact in facts if isinstance(fact, WindowMeasured))
    assert "_FP16_" in window.arm
