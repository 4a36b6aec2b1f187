from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import pytest

from ecocompute_cube.download import Origins, download, verify
from ecocompute_cube.download.source import require_libraries
from ecocompute_cube.download.wheel import Wheel
from ecocompute_cube.errors import DiskFull, ModelError, OutputBusy, OutputError
from ecocompute_cube.model.architectures import Architecture
from ecocompute_cube.model.plan import Plan

Checkpoint = Callable[..., Path]
PlanOf = Callable[..., Plan]


def interrupted(_wheel: Wheel, _folder: Path) -> Path:
    raise KeyboardInterrupt


def test_a_second_run_only_checks(
    checkpoint: Checkpoint, plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    plan = plan_of(checkpoint())
    first = download(plan, models, lines.append)
    times = {path: path.stat().st_mtime_ns for path in models.rglob("*")}
    lines.clear()
    assert download(plan, models, lines.append) == first
    assert {path: path.stat().st_mtime_ns for path in models.rglob("*")} == times
    assert [line.partition(", ")[0] for line in lines] == ["local:tiny: 3 files"]
    assert lines[0].endswith("checked; nothing to do")


def test_manifests_come_in_the_order_of_the_plan(
    checkpoint: Checkpoint, plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    plan = plan_of(checkpoint("b"), checkpoint("a"))
    names = [manifest.reference for manifest in download(plan, models, lines.append)]
    assert names == ["local:b", "local:a"]


def test_an_interrupted_build_leaves_no_folder(
    plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        download(plan_of("embedded"), models, lines.append, Origins(fetch=interrupted))
    assert [path.name for path in models.iterdir()] == [".lock"]


def test_what_a_killed_build_left_is_removed(
    checkpoint: Checkpoint, plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    for stale in (".building-embedded", ".old-embedded"):
        (models / stale).mkdir(parents=True)
        (models / stale / "half.safetensors").write_bytes(b"x")
    download(plan_of(checkpoint()), models, lines.append)
    assert sorted(path.name for path in models.iterdir()) == [".lock", "local-tiny"]


def test_a_models_folder_that_cannot_be_written_still_serves_what_is_there(
    checkpoint: Checkpoint, plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    plan = plan_of(checkpoint())
    download(plan, models, lines.append)
    (models / ".lock").unlink()
    download(plan, models, lines.append)
    assert not (models / ".lock").exists()


def test_two_downloads_do_not_write_at_once(
    checkpoint: Checkpoint, plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    models.mkdir()
    with (models / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(OutputBusy, match="Another download"):
            download(plan_of(checkpoint()), models, lines.append)


def test_a_folder_that_is_not_ours_is_left_alone(
    checkpoint: Checkpoint, plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    precious = models / "local-tiny" / "thesis.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work")
    with pytest.raises(ModelError, match="is in the way"):
        download(plan_of(checkpoint()), models, lines.append)
    assert precious.exists()


def test_too_little_room_is_told_in_gib_before_anything_is_built(
    plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    huge = Architecture("nobody/huge", "llama", 10**15, MappingProxyType({}))
    origins = Origins(architectures={"qwen2-7b": huge})
    with pytest.raises(DiskFull, match=r"needs 1862645\.\d GiB .* only \d+\.\d GiB are free"):
        download(plan_of("random:qwen2-7b"), models, lines.append, origins)
    assert "drawing 1862645.1 GiB" in lines[0]


def test_a_models_folder_that_is_a_file_is_told_with_the_right_option(
    checkpoint: Checkpoint, plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    models.write_text("")
    with pytest.raises(OutputError, match="--models_dir"):
        download(plan_of(checkpoint()), models, lines.append)


def test_a_library_that_is_not_installed_is_named_with_its_remedy() -> None:
    with pytest.raises(ModelError, match=r"cannot find nowhere_to_be_found.*make setup"):
        require_libraries(("json", "nowhere_to_be_found"), "test")


def test_every_file_below_models_is_readable_by_others(
    checkpoint: Checkpoint, plan_of: PlanOf, models: Path, lines: list[str]
) -> None:
    download(plan_of(checkpoint()), models, lines.append)
    verify("local:tiny", models)
    files = [path for path in (models / "local-tiny").iterdir() if path.is_file()]
    assert all(path.stat().st_mode & 0o444 for path in files)


def test_importing_the_module_loads_no_heavy_library() -> None:
    heavy = "{'torch', 'transformers', 'safetensors', 'gguf', 'numpy', 'yaml', 'tokenizers'}"
    heavy += " | {'huggingface_hub', 'httpx'}"
    code = f"import sys, ecocompute_cube.download; print(({heavy}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
