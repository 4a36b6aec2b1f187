"""``ecocompute doctor`` as it is typed: a table or a document, status 0 or 3, and no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from ecocompute_cube.device.presence import driver_present
from ecocompute_cube.doctor.rules import RULES
from ecocompute_cube.model.schema import schema_path

from .rig import ROOT, Ended, assert_told, ecocompute

COMMANDS_PAGE = ROOT / "docs" / "commands.md"


def doctor(libraries: Path, *more: str, **script: str) -> Ended:
    environment = {"LD_LIBRARY_PATH": str(libraries / "new"), "CUDA_VISIBLE_DEVICES": "0"}
    return ecocompute("doctor", *more, environment=environment | script)


@pytest.mark.skipif(driver_present(), reason="this machine has a board")
def test_without_a_board_everything_else_is_told_with_status_3_and_how_to_rehearse() -> None:
    ended = ecocompute("doctor")
    assert (ended.status, ended.err) == (3, "")
    assert "can measure           no, not now" in ended.out
    assert "stops: nvml_missing: " in ended.out
    assert "processor" in ended.out and "needs " in ended.out
    assert ended.out.endswith("ecocompute run --rehearse\n")


def test_a_document_for_programs_is_of_the_published_schema(libraries: Path) -> None:
    ended = doctor(libraries, "--json", STUB_NAME="NVIDIA \x1b[31mred")
    found = json.loads(ended.out)
    schema = json.loads(schema_path("doctor").read_text())
    assert list(Draft202012Validator(schema).iter_errors(found)) == []
    assert found["format"] == "ecocompute-doctor/1"
    assert found["source"] == "energy-counter"
    assert found["plan"] == "protocol"
    assert ended.status == (0 if found["can_measure"] else 3)


def test_a_boards_name_cannot_speak_to_the_terminal(libraries: Path) -> None:
    ended = doctor(libraries, STUB_NAME="NVIDIA \x1b[31mred")
    assert "\x1b" not in ended.out and "x1b[31mred" in ended.out


def test_neither_path_nor_uuid_is_told(libraries: Path, tmp_path: Path) -> None:
    ended = doctor(libraries, "--json", "--output_dir", str(tmp_path / "results"))
    assert str(tmp_path) not in ended.out
    assert "GPU-1111" not in ended.out
    assert not (tmp_path / "results").exists()


def test_a_plan_that_cannot_be_read_is_the_users_mistake(tmp_path: Path) -> None:
    ended = ecocompute("doctor", "--parameters_file", str(tmp_path / "none.yaml"))
    assert_told(ended, 2, "none.yaml")


def test_outside_a_checkout_no_plan_is_needed(tmp_path: Path, libraries: Path) -> None:
    environment = {"LD_LIBRARY_PATH": str(libraries / "new")}
    ended = ecocompute("doctor", "--json", environment=environment, cwd=tmp_path)
    found = json.loads(ended.out)
    assert found["plan"] == {"reason": "no plan was named"}
    assert found["disk"]["free_mib"] >= 0


def test_a_plan_whose_needs_only_the_hub_knows_is_no_fault(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(json.dumps({"name": "hub", "models": [f"hub:a/b@{'0' * 40}"]}))
    ended = ecocompute("doctor", "--json", "--parameters_file", str(plan))
    assert "not downloaded yet" in json.loads(ended.out)["plan"]["reason"]


def test_looking_imports_neither_torch_nor_numpy(libraries: Path) -> None:
    code = (
        "import sys; from ecocompute_cube.cli import main; main(['doctor']); "
        "assert not {'torch', 'numpy', 'transformers'} & set(sys.modules)"
    )
    environment = {"LD_LIBRARY_PATH": str(libraries / "new"), "PATH": ""}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, check=True, timeout=60)


def test_every_code_is_explained_with_the_command() -> None:
    part = COMMANDS_PAGE.read_text(encoding="utf-8").partition("## What doctor finds")[2]
    assert RULES
    assert {rule.__name__ for rule in RULES if f"| `{rule.__name__}` |" not in part} == set()
