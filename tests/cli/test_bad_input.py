"""Every bad input gets one sentence of cause and one of remedy, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest

from ecocompute_cube.cli import main
from ecocompute_cube.device.presence import driver_present
from ecocompute_cube.measure import real_equipment
from ecocompute_cube.report.write import write_energy

from ..device.machine import make_machine
from ..run import rig as scripted
from ..run.rig import install_model
from .rig import Scene, assert_told, ecocompute
from .tiny import write_tiny

GOOD = "name: good\nmodels: [random:smollm2-135m]\n"


class Desk:
    """A folder with a plan, and the command as it is called there."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.plan = folder / "plan.yaml"
        self.plan.write_text(GOOD)
        self.models, self.results = folder / "models", folder / "results"

    def told(self, *arguments: str | Path, machine: Path = Path("/")) -> tuple[int, str]:
        """Status and the two sentences; nothing on standard output, no traceback."""
        status = main([str(each) for each in arguments], partial(real_equipment, root=machine))
        out, err = self._capsys.readouterr()
        assert out == ""
        *_, cause, fix = err.removesuffix("\n").split("\n")
        assert cause.startswith("error: ") and cause.endswith((".", "?")), err
        assert fix and fix.endswith((".", "?")), err
        return status, f"{cause} {fix}"

    def measure(self, *more: str | Path) -> tuple[int, str]:
        """A rehearsal that is refused, and leaves no results."""
        folders = ("--models_dir", self.models, "--output_dir", self.results)
        told = self.told("measure", "--rehearse", "--parameters_file", self.plan, *folders, *more)
        assert not self.results.exists()
        return told


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, capsys)


# The plan


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modles: [embedded]", ["modles", "Did you mean 'models'?"]),
        ("name: twice", ["'name' stands twice"]),
        ("arms: FP16", ["arms"]),
        ("protocol: {blocks: many}", ["protocol.blocks", "'many'"]),
        ("protocol: {blocks: 2.5}", ["protocol.blocks", "2.5"]),
        ("protocol: {blocks: 0}", ["protocol.blocks", "got 0"]),
        ("protocol: {blocks: -1}", ["protocol.blocks", "got -1"]),
        ("protocol: {mode: precise, iterations: 0}", ["protocol.iterations", "got 0"]),
        ("protocol: {mode: precise, window_s: .nan}", ["protocol.window_s"]),
        ("workloads: [{output_tokens: 0}]", ["output_tokens", "got 0"]),
        ("workloads: [{output_tokens: -5}]", ["output_tokens", "got -5"]),
        ("workloads: [{prompt_tokens: 0}]", ["prompt_tokens", "got 0"]),
        ("workloads: [{batch: 0}]", ["batch", "got 0"]),
        ("workloads: [{batch: true}]", ["batch"]),
        ("arms: [FP16, NF5]", ["unknown precision 'NF5'", "NF4"]),
        ("arms: [NF4/eagre]", ["unknown runtime 'eagre'", "eager"]),
        ("arms: [NF4, nf4]", ["stands twice"]),
        ("quality: {text: no-such-text.txt}", ["no-such-text.txt", "quality.text"]),
        ("quality: {text: .}", ["no regular file"]),
        ("quality: {text: builtin/../sub/builtin}", ["builtin", "Rename"]),
        ("arms: [FP16/LOOPS]", ["unknown runtime 'LOOPS'", "loop"]),
        ("arms: [FP16, NF4]\nbaseline: INT8-T0", ["INT8-T0", "not among the arms"]),
        ("workloads: [{phase: prefil}]", ["phase", "'prefil'"]),
        ("- a list", ["plan.yaml"]),
        ("name: [", ["plan.yaml"]),
    ],
)
def test_a_plan_that_is_none(desk: Desk, text: str, words: list[str]) -> None:
    desk.plan.write_text(f"{GOOD}{text}\n")
    status, told = desk.measure()
    assert status == 2
    for word in words:
        assert word in told


def test_a_plan_that_is_not_there_or_not_a_file_or_not_text(desk: Desk) -> None:
    desk.plan.unlink()
    status, told = desk.measure()
    assert status == 2 and f"There is no parameters file '{desk.plan}'." in told
    desk.plan.mkdir()
    status, told = desk.measure()
    assert status == 2 and "'plan.yaml' is a folder" in told
    desk.plan.rmdir()
    desk.plan.write_bytes(b"name: \xff\xfe\n")
    status, told = desk.measure()
    assert status == 2 and "UTF-8" in told


@pytest.mark.parametrize("option", ["--models_dir", "--output_dir", "--parameters_file"])
@pytest.mark.parametrize("path", ["", os.fsdecode(b"caf\xe9")])
def test_a_path_that_no_document_could_name(desk: Desk, option: str, path: str) -> None:
    status, told = desk.measure(f"{option}={path}")
    assert status == 2
    assert option in told and "path" in told


# The model


@pytest.mark.parametrize("workload", ["prompt_tokens: 8192", "prompt_tokens: 8000"])
def test_a_prompt_longer_than_the_context_is_refused_before_anything_loads(
    desk: Desk, workload: str
) -> None:
    install_model(desk.models)
    desk.plan.write_text(f"{GOOD}workloads: [{{{workload}}}]\n")
    status, told = desk.measure()
    assert status == 2
    assert "takes 8192 tokens" in told and f"{workload.split()[1]} + 256" in told


def test_plan_foresees_what_would_be_refused(desk: Desk) -> None:
    desk.plan.write_text(f"{GOOD}workloads: [{{prompt_tokens: 8000}}]\n")
    status, told = desk.told("plan", desk.plan)
    assert status == 2 and "takes 8192 tokens; the plan asks for 8000 + 256" in told
    desk.plan.write_text("name: mine\nmodels: [mine]\n")
    status, told = desk.told("plan", desk.plan)
    assert status == 4 and "There is no folder" in told
    write_tiny(desk.folder / "mine")
    status, told = desk.told("plan", desk.plan)
    assert status == 2 and "mine takes 256 tokens; the plan asks for 10 + 256" in told


def test_no_models_folder_or_an_empty_one(desk: Desk) -> None:
    status, told = desk.measure()
    assert status == 4 and "There is no models folder" in told and "ecocompute download" in told
    desk.models.mkdir()
    status, told = desk.measure()
    assert status == 4 and "is empty" in told
    desk.models.rmdir()
    desk.models.touch()
    status, told = desk.measure()
    assert status == 4 and "ecocompute download" in told


def truncated(file: Path) -> None:
    os.truncate(file, 1)


def altered(file: Path) -> None:
    file.write_bytes(b"[]")


@pytest.mark.parametrize("harm", [truncated, altered, Path.unlink])
def test_a_model_file_that_is_not_what_it_was(desk: Desk, harm: Callable[[Path], None]) -> None:
    install_model(desk.models)
    harm(desk.models / "random-smollm2-135m" / "config.json")
    status, told = desk.measure()
    assert status == 4
    word = {"truncated": "truncated", "altered": "altered", "unlink": "missing"}[harm.__name__]
    assert f"config.json is {word}" in told and "ecocompute download" in told


def test_a_model_without_a_tokenizer_is_not_taken(desk: Desk) -> None:
    write_tiny(desk.folder / "mine")
    (desk.folder / "mine" / "tokenizer.json").unlink()
    desk.plan.write_text("name: mine\nmodels: [mine]\n")
    folders = ("--models_dir", desk.models)
    status, told = desk.told("download", "--parameters_file", desk.plan, *folders)
    assert status == 4
    assert "'mine' has no tokenizer" in told and "tokenizer files" in told
    assert [path.name for path in desk.models.iterdir()] in ([], [".lock"])


# Folders


@pytest.mark.parametrize("command", ["measure", "download"])
@pytest.mark.parametrize("place", ["/proc/results", "/sys/results", "a-file", "a-file/results"])
def test_an_output_folder_that_cannot_be_written(
    desk: Desk, command: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.folder)
    Path("a-file").touch()
    options = ["--models_dir", place]
    if command == "measure":
        install_model(desk.models)
        options = ["--rehearse", "--models_dir", str(desk.models), "--output_dir", place]
    status, told = desk.told(command, "--parameters_file", desk.plan, *options)
    assert status == 7
    assert options[-2] in told
    assert Path("a-file").stat().st_size == 0


def test_a_report_folder_that_cannot_be_written(desk: Desk, results: Path) -> None:
    (desk.folder / "page").touch()
    for place in (desk.folder / "page", Path("/proc/pages")):
        status, told = desk.told("report", "--results_dir", results, "--report_dir", place)
        assert status == 7
        assert "--report_dir" in told and "--output_dir" not in told


def test_results_that_are_none(desk: Desk) -> None:
    for place in (desk.folder / "nowhere", desk.folder, desk.plan):
        status, told = desk.told("report", "--results_dir", place, "--report_dir", desk.models)
        assert status == 2
        assert "no readable journal" in told and "--results_dir" in told
    assert not desk.models.exists()


# The board


@pytest.mark.skipif(driver_present(), reason="there is an NVIDIA driver here")
@pytest.mark.parametrize(
    ("signs", "words"), [("", "libnvidia-ml.so.1"), (".dockerenv", "started without a GPU")]
)
def test_without_a_driver_nothing_is_measured_and_rehearsing_is_offered(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, signs: str, words: str
) -> None:
    monkeypatch.delenv("container", raising=False)
    install_model(desk.models)
    machine = make_machine(desk.folder / "machine", signs=signs)
    folders = ("--models_dir", desk.models, "--output_dir", desk.results)
    status, told = desk.told("measure", "--parameters_file", desk.plan, *folders, machine=machine)
    assert status == 3
    assert words in told and "measure --rehearse" in told
    assert not desk.results.exists()


# Documents


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder of a whole run on a scripted board."""
    scene = scripted.Scene(tmp_path_factory.mktemp("measured"))
    write_energy(scene.measure(scripted.plan(protocol={"blocks": 2})))
    return scene.output


@pytest.fixture
def results(measured: Path, tmp_path: Path) -> Path:
    return shutil.copytree(measured, tmp_path / "results of a run")


class Validated:
    """``validate`` as text."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *paths: Path) -> None:
        self.status = main(["validate", *map(str, paths)])
        self.out, self.err = capsys.readouterr()
        assert self.err == ""


@pytest.fixture
def validate(capsys: pytest.CaptureFixture[str]) -> Callable[..., Validated]:
    return lambda *paths: Validated(capsys, *paths)


Validate = Callable[..., Validated]


def test_validate_of_nothing(desk: Desk) -> None:
    status, told = desk.told("validate", desk.folder)
    assert status == 2 and "There is no energy*.json or *.energy.json below" in told
    status, told = desk.told("validate", desk.folder / "nowhere.json")
    assert status == 2 and "nowhere.json" in told


def test_a_figure_changed_beside_its_journal_is_found(results: Path, validate: Validate) -> None:
    before = validate(results)
    assert "recomputed" not in before.out
    file = next(results.rglob("energy.json"))
    document = json.loads(file.read_text())
    document["results"]["energy_per_token_mj"] *= 0.9
    file.write_text(json.dumps(document))
    after = validate(results)
    assert after.status == 1
    assert "recomputed: results.energy_per_token_mj is" in after.out


def harmed(results: Path) -> Iterator[tuple[str, Path]]:
    journal = next(results.rglob("journal.jsonl"))
    whole = journal.read_bytes()
    journal.write_bytes(whole.replace(b'"iterations":10', b'"iterations":11', 1))
    yield "edited", journal
    journal.write_bytes(b"\xff\xfe" + whole)
    yield "not UTF-8", journal
    journal.write_bytes(b"")
    yield "empty", journal
    journal.unlink()
    journal.mkdir()
    yield "a folder", journal


def test_a_journal_that_is_broken_is_named_and_hides_no_neighbour(
    results: Path, measured: Path, validate: Validate, desk: Desk
) -> None:
    for harm, journal in harmed(results):
        found = validate(results, measured)
        assert found.status == 1, harm
        assert len(re.findall(r"  journal_(?:broken|unreadable): ", found.out)) == 3, harm
        assert "6 documents" in found.out
        status, told = desk.told("report", "--results_dir", results, "--report_dir", desk.models)
        assert status == 2 and "no readable journal" in told, harm
        assert journal.name in told or "Is a directory" in told, harm


def test_a_report_of_good_and_broken_journals_names_the_broken(
    results: Path, measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(measured, results / "good")
    next(results.glob("2*/journal.jsonl")).write_bytes(b"broken\n")
    pages = results / "pages"
    assert main(["report", "--results_dir", str(results), "--report_dir", str(pages)]) == 0
    out, err = capsys.readouterr()
    assert "FP16" in out
    assert "not read: " in err and "journal.jsonl, line 1" in err


@pytest.mark.parametrize("data", [b"\xff\xfe{}", b"", b"[1]", b"{", b'{"a": NaN}'])
def test_a_file_that_is_no_document_fails_its_schema(
    tmp_path: Path, validate: Validate, data: bytes
) -> None:
    file = tmp_path / "energy.json"
    file.write_bytes(data)
    found = validate(file)
    assert found.status == 6
    assert "energy.json: schema-invalid" in found.out


# With a stand-in for the driver's library


def test_a_cpu_build_of_torch_beside_a_board_is_told(scene: Scene, libraries: Path) -> None:
    if not version("torch").endswith("+cpu"):
        pytest.skip("torch here is no CPU build")
    environment = {"LD_LIBRARY_PATH": str(libraries / "new"), "CUDA_VISIBLE_DEVICES": "0"}
    ended = ecocompute("measure", *scene.arguments, environment=environment)
    assert_told(ended, 3, "torch is a CPU build", "make setup")
    assert not scene.output.exists()
