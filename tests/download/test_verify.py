from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ecocompute_cube.download import download, model_folder, read_manifest, verify
from ecocompute_cube.download.progress import Progress
from ecocompute_cube.errors import ModelCorrupt, ModelMissing
from ecocompute_cube.model.plan import Plan

Checkpoint = Callable[..., Path]
PlanOf = Callable[..., Plan]


@pytest.fixture
def taken(checkpoint: Checkpoint, plan_of: PlanOf, models: Path) -> Path:
    """The folder of a downloaded model, its files copies of the original's."""
    download(plan_of(checkpoint()), models, lambda _: None)
    folder = model_folder("local:tiny", models)
    for path in folder.iterdir():  # no longer the same file as the original
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
    return folder


def test_a_whole_folder_is_confirmed(taken: Path, models: Path) -> None:
    assert verify("local:tiny", models) == read_manifest(taken)


def test_a_missing_models_folder_says_what_to_run(models: Path) -> None:
    with pytest.raises(ModelMissing, match="There is no models folder") as caught:
        verify("embedded", models)
    assert caught.value.exit_status == 4
    command = f"ecocompute download --parameters_file FILE --models_dir {models}"
    assert command in caught.value.fix


def test_an_empty_models_folder_is_called_empty(models: Path) -> None:
    models.mkdir()
    with pytest.raises(ModelMissing, match="is empty"):
        verify("embedded", models)


def test_a_model_that_was_never_downloaded_is_missing(taken: Path, models: Path) -> None:
    with pytest.raises(ModelMissing, match="holds no finished model 'embedded'"):
        verify("embedded", models)


def test_a_missing_file_is_named(taken: Path, models: Path) -> None:
    (taken / "tokenizer.json").unlink()
    with pytest.raises(ModelCorrupt, match=r"tokenizer\.json is missing"):
        verify("local:tiny", models)


def test_a_truncated_file_is_told_in_bytes(taken: Path, models: Path) -> None:
    """MD-TRUNC: and named."""
    path = taken / "model.safetensors"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(ModelCorrupt, match=f"is truncated: {size - 7} of {size} bytes"):
        verify("local:tiny", models)


def test_one_altered_byte_is_found(taken: Path, models: Path) -> None:
    path = taken / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelCorrupt, match=r"model\.safetensors is altered"):
        verify("local:tiny", models)


@pytest.mark.parametrize(
    "name", ["extra.safetensors", "pytorch_model.bin", "adapter_config.json", "sub/a.json"]
)
def test_an_extra_file_that_might_be_loaded_is_named(taken: Path, models: Path, name: str) -> None:
    (taken / name).parent.mkdir(exist_ok=True)
    (taken / name).write_bytes(b"{}")
    with pytest.raises(ModelCorrupt, match=f"{name} is extra"):
        verify("local:tiny", models)


def test_a_note_beside_the_weights_does_no_harm(taken: Path, models: Path) -> None:
    (taken / "NOTES.txt").write_text("mine")
    verify("local:tiny", models)


def test_a_folder_of_another_model_is_not_taken_for_this_one(taken: Path, models: Path) -> None:
    taken.rename(models / "embedded")
    with pytest.raises(ModelCorrupt, match="holds 'local:tiny', not 'embedded'"):
        verify("embedded", models)


def test_a_manifest_that_is_no_manifest_is_corrupt(taken: Path, models: Path) -> None:
    (taken / "manifest.json").write_text("{}")
    with pytest.raises(ModelCorrupt, match=r"manifest\.json cannot be understood"):
        verify("local:tiny", models)


def test_a_manifest_cannot_point_outside_its_folder(taken: Path, models: Path) -> None:
    text = (taken / "manifest.json").read_text().replace("tokenizer.json", "../../secret")
    (taken / "manifest.json").write_text(text)
    with pytest.raises(ModelCorrupt, match="outside the folder"):
        verify("local:tiny", models)


def test_progress_is_told_at_most_every_five_seconds(lines: list[str]) -> None:
    times: Iterator[int] = iter(range(0, 10**12, 2_000_000_000))
    progress = Progress("checking", 100 * 2**30, lines.append, now_ns=lambda: next(times))
    for _ in range(4):
        progress.advance(2**30)
    assert lines == ["checking: 3.0 GiB of 100.0 GiB"]
