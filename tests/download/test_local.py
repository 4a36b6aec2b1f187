from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ecocompute_cube.download import download, model_folder, verify
from ecocompute_cube.download.checkpoint import describe
from ecocompute_cube.download.local import LocalFolder, check_local
from ecocompute_cube.errors import ModelCorrupt, ModelError
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.manifest import Manifest, Weights
from ecocompute_cube.model.plan import Plan

Checkpoint = Callable[..., Path]
PlanOf = Callable[..., Plan]
Take = Callable[[Path], Manifest]
CopyOf = Callable[..., Path]


@pytest.fixture
def take(plan_of: PlanOf, models: Path, lines: list[str]) -> Take:
    """Download one local folder."""

    def one(folder: Path) -> Manifest:
        (manifest,) = download(plan_of(folder), models, lines.append)
        return manifest

    return one


def test_a_local_folder_is_described_without_its_place(
    checkpoint: Checkpoint, take: Take, models: Path
) -> None:
    manifest = take(checkpoint())
    assert (manifest.reference, manifest.name) == ("local:tiny", "tiny")
    assert manifest.weights is Weights.ORIGINAL
    assert manifest.tokenizer
    assert isinstance(manifest.seed, Absent)
    assert str(models.parent) not in manifest.model_dump_json()


def test_weights_that_nobody_vouches_for_are_said_to_be_unchecked(
    checkpoint: Checkpoint, take: Take
) -> None:
    manifest = take(checkpoint())
    assert manifest.origin == "Taken as its maker's, from a local folder; nobody checked it."


@pytest.fixture
def copied(checkpoint: Checkpoint, take: Take, models: Path, tmp_path: Path) -> CopyOf:
    """A copy of a model folder whose manifest says what these keywords say."""
    taken = take(checkpoint()).model_dump(mode="json")

    def copy(**changes: object) -> Path:
        folder = tmp_path / "elsewhere" / "copied"
        shutil.copytree(models / "local-tiny", folder)
        (folder / "manifest.json").write_text(json.dumps(taken | changes))
        return folder

    return copy


@pytest.mark.parametrize("weights", [Weights.RANDOM, Weights.DEQUANTIZED])
def test_a_copy_of_a_model_folder_keeps_what_its_manifest_says(
    copied: CopyOf, take: Take, weights: Weights
) -> None:
    said = {"name": "Tiny (so so)", "license": "MIT", "seed": 7, "origin": "Drawn."}
    manifest = take(copied(weights=weights, **said))
    assert manifest.weights is weights
    assert (manifest.name, manifest.license, manifest.seed) == ("Tiny (so so)", "MIT", 7)
    assert manifest.origin == "From a local folder, whose manifest says: Drawn."
    assert manifest.reference == "local:copied"


def test_a_copy_needs_no_tokenizer_where_its_manifest_has_none(copied: CopyOf, take: Take) -> None:
    folder = copied(weights="random", tokenizer=False)
    (folder / "tokenizer.json").unlink()
    said = json.loads((folder / "manifest.json").read_text())
    said["files"] = [file for file in said["files"] if file["path"] != "tokenizer.json"]
    (folder / "manifest.json").write_text(json.dumps(said))
    assert not take(folder).tokenizer


@pytest.mark.parametrize(("name", "end"), [("model.safetensors", b"\1"), ("config.json", b" ")])
def test_a_copy_that_does_not_fit_its_manifest_is_refused(
    copied: CopyOf, take: Take, models: Path, name: str, end: bytes
) -> None:
    folder = copied(weights="random")
    data = (folder / name).read_bytes().removesuffix(b"\0")
    (folder / name).write_bytes(data + end)
    with pytest.raises(ModelError, match=rf"{name} is not what its manifest\.json says.*[Rr]emove"):
        take(folder)
    assert not (models / "local-copied").exists()


def test_a_manifest_of_ours_that_cannot_be_read_is_refused(copied: CopyOf, take: Take) -> None:
    with pytest.raises(ModelError, match=r"manifest\.json .* cannot be understood"):
        take(copied(weights="so so"))


@pytest.mark.parametrize("text", ["{}", "[1]", "no JSON", '{"format": "other/1"}'])
def test_a_manifest_of_somebody_elses_says_nothing(
    checkpoint: Checkpoint, take: Take, text: str
) -> None:
    folder = checkpoint()
    (folder / "manifest.json").write_text(text)
    assert take(folder).weights is Weights.ORIGINAL


def test_a_model_that_was_taken_for_original_before_is_noticed(copied: CopyOf, take: Take) -> None:
    folder = copied(weights="random")
    (folder / "manifest.json").rename(folder / "kept")
    take(folder)
    (folder / "kept").rename(folder / "manifest.json")
    with pytest.raises(ModelError, match="its weights are original in one and random in the other"):
        take(folder)


def test_its_files_are_hard_linked(checkpoint: Checkpoint, take: Take, models: Path) -> None:
    folder = checkpoint()
    take(folder)
    linked = models / "local-tiny" / "model.safetensors"
    assert linked.samefile(folder / "model.safetensors")


def test_its_files_are_copied_where_links_cannot_be_made(
    checkpoint: Checkpoint, tmp_path: Path, lines: list[str]
) -> None:
    def across_disks(_source: Path, _target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    folder, target = checkpoint(), tmp_path / "target"
    target.mkdir()
    LocalFolder(folder, "local:tiny", link=across_disks).build(target, lines.append)
    copied = target / "model.safetensors"
    assert copied.read_bytes() == (folder / "model.safetensors").read_bytes()
    assert not copied.samefile(folder / "model.safetensors")
    assert "copying model.safetensors (0.0 MiB)" in lines


def test_links_of_a_hub_cache_are_followed(
    checkpoint: Checkpoint, take: Take, models: Path, tmp_path: Path
) -> None:
    folder = checkpoint()
    blob = tmp_path / "blob"
    (folder / "model.safetensors").rename(blob)
    (folder / "model.safetensors").symlink_to(blob)
    take(folder)
    taken = models / "local-tiny" / "model.safetensors"
    assert not taken.is_symlink()
    assert taken.samefile(blob)


def test_room_is_needed_for_files_that_links_lead_to_another_disk(
    checkpoint: Checkpoint, models: Path, other_disk: Path
) -> None:
    folder, weights = checkpoint(), other_disk / "weights"
    models.mkdir()
    shutil.move(folder / "model.safetensors", weights)
    (folder / "model.safetensors").symlink_to(weights)
    source = LocalFolder.named(str(folder))
    assert source.needs_bytes(models) == weights.stat().st_size
    assert list(models.iterdir()) == []


def test_only_what_is_needed_is_taken(checkpoint: Checkpoint, take: Take) -> None:
    folder = checkpoint()
    for name in ("optimizer.pt", "training_args.bin", "consolidated.safetensors", "modeling.py"):
        (folder / name).write_bytes(b"x")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "LICENSE").write_text("MIT")
    names = [file.path for file in take(folder).files]
    wanted = ["LICENSE", "chat_template.jinja", "config.json", "model.safetensors"]
    assert names == [*wanted, "tokenizer.json"]


def test_the_models_folder_is_complete_without_the_original(
    checkpoint: Checkpoint, take: Take, models: Path
) -> None:
    folder = checkpoint()
    first = take(folder)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert take(folder) == first == verify("local:tiny", models)


def test_another_folder_of_the_same_name_is_not_taken_for_it(
    checkpoint: Checkpoint, take: Take
) -> None:
    take(checkpoint("a/tiny"))
    with pytest.raises(ModelError, match=r"config\.json differs"):
        take(checkpoint("b/tiny", rope_theta=500_000.0))


def test_a_file_added_to_the_original_is_noticed(checkpoint: Checkpoint, take: Take) -> None:
    folder = checkpoint()
    take(folder)
    (folder / "generation_config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"generation_config\.json is only in one"):
        take(folder)


def test_a_damaged_copy_of_a_local_folder_is_not_replaced(
    checkpoint: Checkpoint, take: Take, models: Path
) -> None:
    folder = checkpoint()
    take(folder)
    (models / "local-tiny" / "tokenizer.json").unlink()
    with pytest.raises(ModelCorrupt, match=r"tokenizer\.json is missing.*Remove"):
        take(folder)


def test_the_licence_is_what_the_model_card_says(checkpoint: Checkpoint, take: Take) -> None:
    folder = checkpoint()
    (folder / "README.md").write_text("---\nlicense: apache-2.0\ntags: [a]\n---\n# Tiny\n")
    assert take(folder).license == "apache-2.0"


def test_the_licence_is_a_file_when_there_is_no_card(checkpoint: Checkpoint, take: Take) -> None:
    folder = checkpoint()
    (folder / "README.md").write_text("# No front matter\n---\nlicense: x\n---\n")
    (folder / "LICENSE.txt").write_text("…")
    assert take(folder).license == "see LICENSE.txt"


def test_no_licence_is_said_to_be_absent(checkpoint: Checkpoint, take: Take) -> None:
    assert isinstance(take(checkpoint()).license, Absent)


def test_pickles_are_refused(checkpoint: Checkpoint, take: Take) -> None:
    folder = checkpoint()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"only as a pickle \(pytorch_model\.bin\)"):
        take(folder)


def test_a_pickle_that_an_index_names_is_not_taken(
    checkpoint: Checkpoint, take: Take, models: Path
) -> None:
    folder = checkpoint()
    (folder / "model.safetensors").rename(folder / "decoy.safetensors")
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    index = {"weight_map": {"a": "pytorch_model.bin"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=r"names 'pytorch_model\.bin', whose name"):
        take(folder)
    assert [path.name for path in models.iterdir()] == [".lock"]


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_code_that_comes_with_a_model_is_refused(
    checkpoint: Checkpoint, take: Take, name: str
) -> None:
    folder = checkpoint()
    old = json.loads((folder / "config.json").read_text()) if name == "config.json" else {}
    (folder / name).write_text(json.dumps(old | {"auto_map": {"AutoModel": "evil.Model"}}))
    with pytest.raises(ModelError, match=f"auto_map in {name}"):
        take(folder)


def test_a_quantized_checkpoint_is_taken_for_the_arm_that_measures_it_as_it_was_shipped(
    checkpoint: Checkpoint, take: Take
) -> None:
    method = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    assert take(checkpoint(quantization_config=method)).parameters > 0


def test_packed_weights_count_as_the_elements_that_they_stand_for(tmp_path: Path) -> None:
    """14 matrices of two layers; scales and codes are no parameters."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=100,
    )
    whole, packed = tmp_path / "whole", tmp_path / "packed"
    load = transformers.AutoModelForCausalLM
    load.from_config(config, dtype=torch.float16).save_pretrained(whole)
    four = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
    load.from_pretrained(whole, dtype=torch.float16, quantization_config=four).save_pretrained(
        packed
    )
    assert describe(packed).parameters == describe(whole).parameters


def test_a_model_that_does_not_generate_text_is_refused(checkpoint: Checkpoint, take: Take) -> None:
    with pytest.raises(ModelError, match="BertForMaskedLM, which does not generate text"):
        take(checkpoint(architectures=["BertForMaskedLM"]))


def test_a_folder_without_tokenizer_is_refused_with_its_reason(
    checkpoint: Checkpoint, take: Take
) -> None:
    folder = checkpoint()
    (folder / "tokenizer.json").rename(folder / "tokenizer_config.json")
    with pytest.raises(ModelError, match=r"no tokenizer.*prompts come from real text"):
        take(folder)


def test_a_path_that_is_not_there_is_refused(take: Take, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"There is no folder.*'embedded'") as caught:
        take(tmp_path / "nowhere")
    assert caught.value.exit_status == 4


def test_a_refused_folder_leaves_nothing_behind(
    checkpoint: Checkpoint, take: Take, models: Path
) -> None:
    folder = checkpoint()
    (folder / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelError):
        take(folder)
    assert not model_folder("local:tiny", models).exists()
    assert [path.name for path in models.iterdir()] == [".lock"]


def test_a_path_of_another_machine_is_not_taken_for_a_model_of_the_hub(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        check_local(tmp_path / "data" / "models" / "qwen")
    assert "Did you mean" not in caught.value.fix and "beside the plan" in caught.value.fix
    with pytest.raises(ModelError, match="There is no folder") as caught:
        check_local(tmp_path / "Qwen" / "Qwen2-0.5B")
    assert "Did you mean hub:Qwen/Qwen2-0.5B" in caught.value.fix
