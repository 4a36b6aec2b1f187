"""Models of the hub, from a strict one on the loopback and with the real client."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from ecocompute_cube.cli import main
from ecocompute_cube.download import HubSettings, Origins, download, verify
from ecocompute_cube.errors import (
    DiskFull,
    EcoError,
    HubBusy,
    HubRefused,
    HubUnreachable,
    ModelCorrupt,
    ModelError,
    ModelMissing,
    OutputError,
    PlanError,
    UsageError,
)
from ecocompute_cube.forecast import forecast
from ecocompute_cube.model.base import Absent
from ecocompute_cube.model.manifest import Manifest, Weights
from ecocompute_cube.model.plan import Mode, Plan, Protocol, Workload
from ecocompute_cube.report.csv import as_csv
from ecocompute_cube.report.text import as_text
from ecocompute_cube.report.write import write_energy

from ..cli.rig import ROOT, assert_told, ecocompute, surroundings, until
from ..run.rig import Scene
from ..run.rig import plan as plan_of_keys
from .conftest import safetensors_bytes
from .hub_server import TOKEN, Hub, Repository, Trouble, git_blob, serving, sha256

Checkpoint = Callable[..., Path]
NAME = "tiny/llama"
SHAPES = {"model.embed_tokens.weight": (10, 4), "model.norm.weight": (4,)}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving() as hub:
        yield hub


@pytest.fixture
def tiny(hub: Hub, checkpoint: Checkpoint) -> Repository:
    """A whole model on the hub, with more beside it than is needed."""
    folder = checkpoint()
    for name in ("README.md", "pytorch_model.bin", "modeling.py", "consolidated.safetensors"):
        (folder / name).write_bytes(b"not needed")
    (folder / "LICENSE").write_text("Apache License")
    return hub.publish(NAME, folder)


class Desk:
    """A models folder, a hub, and the lines that were said."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        self.hub, self.models, self.cache = hub, folder / "models", folder / "cache"
        self.lines: list[str] = []
        self.pauses: list[float] = []
        self.settings = HubSettings(
            endpoint=hub.address, cache=self.cache, token=False, pause=self.pauses.append
        )

    def take(self, model: str = f"hub:{NAME}", **settings: Any) -> Manifest:  # noqa: ANN401 (fields)
        plan = Plan(name="test", models=(model,))
        origins = Origins(hub=replace(self.settings, **settings))
        (manifest,) = download(plan, self.models, self.lines.append, origins)
        return manifest

    def refused(self, model: str = f"hub:{NAME}", **settings: Any) -> EcoError:  # noqa: ANN401 (fields)
        """What is said about a model that is not to be had."""
        with pytest.raises(EcoError) as caught:
            self.take(model, **settings)
        assert TOKEN not in f"{caught.value} {self.lines}"
        return caught.value

    @property
    def said(self) -> str:
        return "\n".join(self.lines)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.models.iterdir())

    def fill_cache(self, repository: Repository, *names: str, links: bool = True) -> Path:
        """A hub cache with these files of the commit, or all, as huggingface_hub lays them out."""
        root = self.cache / f"models--{NAME.replace('/', '--')}"
        snapshot = root / "snapshots" / repository.commit
        for folder in (root / "refs", root / "blobs", snapshot):
            folder.mkdir(parents=True)
        (root / "refs" / "main").write_text(repository.commit)
        for name in names or repository.files:
            data = repository.files[name]
            blob = sha256(data) if name.endswith(".safetensors") else git_blob(data)
            if links:
                (root / "blobs" / blob).write_bytes(data)
                (snapshot / name).symlink_to(f"../../blobs/{blob}")
            else:
                (snapshot / name).write_bytes(data)
        return root


@pytest.fixture
def desk(hub: Hub, tmp_path: Path) -> Desk:
    return Desk(hub, tmp_path)


# What is taken


def test_a_model_is_taken_at_the_commit_that_main_is(desk: Desk, tiny: Repository) -> None:
    manifest = desk.take()
    assert manifest.reference == f"hub:{NAME}"
    assert manifest.name == f"{NAME}@{tiny.commit[:12]}"
    assert (manifest.commit, manifest.weights) == (tiny.commit, Weights.ORIGINAL)
    assert (manifest.license, manifest.tokenizer) == ("apache-2.0", True)
    assert tiny.commit in manifest.origin and "127.0.0.1" not in manifest.origin
    assert verify(f"hub:{NAME}", desk.models) == manifest
    assert f"main is commit {tiny.commit}; the plan can pin it: hub:{NAME}@" in desk.said


def test_only_what_is_needed_is_fetched(desk: Desk, tiny: Repository) -> None:
    names = [file.path for file in desk.take().files]
    assert names == ["LICENSE", "config.json", "model.safetensors", "tokenizer.json"]
    assert sorted(desk.hub.fetched()) == names
    assert desk.names() == [".lock", "hub-tiny--llama"]


def test_each_file_is_what_the_hub_holds(desk: Desk, tiny: Repository) -> None:
    for file in desk.take().files:
        assert file.sha256 == sha256(tiny.files[file.path])


def test_sizes_are_said_before_the_weights_are_fetched(desk: Desk, tiny: Repository) -> None:
    desk.hub.trouble("model.safetensors", Trouble(403))
    desk.refused()
    assert "taking 4 files, 0.0 MiB, of commit" in desk.said
    assert "from a mirror of the Hugging Face hub" in desk.said


@pytest.mark.parametrize("revision", ["v1.0", "refs/pr/1", "commit"])
def test_a_tag_a_branch_or_a_commit_can_be_asked_for(
    desk: Desk, tiny: Repository, revision: str
) -> None:
    revision = tiny.commit if revision == "commit" else revision
    manifest = desk.take(f"hub:{NAME}@{revision}")
    assert (manifest.reference, manifest.commit) == (f"hub:{NAME}@{revision}", tiny.commit)


def test_an_old_name_has_no_owner(desk: Desk, checkpoint: Checkpoint) -> None:
    desk.hub.publish("gpt2", checkpoint())
    assert desk.take("hub:gpt2").name.startswith("gpt2@")


def test_two_revisions_in_one_plan_are_two_models(desk: Desk, tiny: Repository) -> None:
    old = tiny.commit
    before = desk.take(f"hub:{NAME}@{old}")
    tiny.files["tokenizer.json"] = b'{"new": 1}'
    plan = Plan(name="test", models=(f"hub:{NAME}@{old}", f"hub:{NAME}"))
    both = download(plan, desk.models, desk.lines.append, Origins(hub=desk.settings))
    assert both[0] == before
    assert [each.commit for each in both] == [old, tiny.commit]
    assert [each.name for each in both] == [f"{NAME}@{c[:12]}" for c in (old, tiny.commit)]


def test_sharded_weights_are_those_that_the_index_names(desk: Desk, checkpoint: Checkpoint) -> None:
    folder = checkpoint()
    (folder / "model.safetensors").unlink()
    shards = {f"part{i}.safetensors": {name: SHAPES[name]} for i, name in enumerate(SHAPES)}
    for name, shapes in shards.items():
        (folder / name).write_bytes(safetensors_bytes(shapes))
    (folder / "model-00001-of-00001.safetensors").write_bytes(b"of no use")
    table = {"weight_map": {"a": "part0.safetensors", "b": "part1.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(table))
    desk.hub.publish(NAME, folder)
    assert desk.take().parameters == 44
    weights = [name for name in desk.hub.fetched() if name.endswith(".safetensors")]
    assert weights == [*shards]


def test_a_second_run_asks_nobody(desk: Desk, tiny: Repository) -> None:
    first = desk.take()
    desk.hub.asked.clear()
    assert desk.take() == first
    assert desk.hub.asked == []
    assert f"main was commit {tiny.commit} when it was taken" in desk.said


def test_a_branch_that_has_moved_is_not_followed_by_itself(desk: Desk, tiny: Repository) -> None:
    first = desk.take()
    tiny.files["tokenizer.json"] = b'{"new": 1}'
    assert desk.take() == first
    shutil.rmtree(desk.models / "hub-tiny--llama")
    assert desk.take().commit == tiny.commit != first.commit


def test_a_damaged_folder_is_built_again_from_the_same_commit(desk: Desk, tiny: Repository) -> None:
    first = desk.take()
    (desk.models / "hub-tiny--llama" / "tokenizer.json").write_text("[]")
    desk.hub.asked.clear()
    assert desk.take() == first
    assert "tokenizer.json is altered" in desk.said
    assert desk.hub.fetched() == ["tokenizer.json"]


def test_pinning_what_main_was_fetches_nothing(desk: Desk, tiny: Repository) -> None:
    first = desk.take()
    desk.hub.asked.clear()
    pinned = desk.take(f"hub:{NAME}@{tiny.commit}")
    assert pinned.digest == first.digest
    assert desk.hub.fetched() == []
    assert verify(f"hub:{NAME}", desk.models) == first


def test_a_folder_of_another_commit_is_no_use(desk: Desk, tiny: Repository) -> None:
    asked = f"hub:{NAME}@{tiny.commit}"
    desk.take(asked)
    path = next(desk.models.glob("hub-*/manifest.json"))
    path.write_text(
        path.read_text().replace(f'"commit": "{tiny.commit}"', f'"commit": "{"0" * 40}"')
    )
    assert desk.take(asked).commit == tiny.commit
    assert f"it is commit {'0' * 40}. Building it again." in desk.said


@pytest.mark.parametrize(("said", "kept"), [("mit", "mit"), (None, "see LICENSE")])
def test_the_licence_is_the_cards_or_a_file(
    desk: Desk, tiny: Repository, said: str | None, kept: str
) -> None:
    tiny.license = said
    assert desk.take().license == kept


def test_no_licence_is_said_to_be_absent(desk: Desk, checkpoint: Checkpoint) -> None:
    desk.hub.publish(NAME, checkpoint()).license = None
    assert isinstance(desk.take().license, Absent)


# What is refused before anything large is fetched


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("config.json", {"auto_map": {"AutoModel": "evil.Model"}}, "auto_map in config.json"),
        ("tokenizer_config.json", {"auto_map": {}}, "auto_map in tokenizer_config.json"),
        ("config.json", {"architectures": ["BertModel"]}, "does not generate text"),
        ("config.json", {"model_type": "llama"}, "does not say num_hidden_layers"),
        ("config.json", [], "config.json of 'tiny/llama' is no JSON object"),
    ],
)
def test_a_model_that_cannot_be_measured_is_refused_early(
    desk: Desk, tiny: Repository, name: str, text: object, words: str
) -> None:
    tiny.files[name] = json.dumps(text).encode()
    error = desk.refused()
    assert type(error) is ModelError
    assert words in error.cause
    assert "model.safetensors" not in desk.hub.fetched()
    assert desk.names() == [".lock"]


@pytest.mark.parametrize(
    ("lost", "instead", "words"),
    [
        ("model.safetensors", "pytorch_model.bin", "only as a pickle (pytorch_model.bin)"),
        ("model.safetensors", "model.gguf", "holds no model.safetensors and no index"),
        ("config.json", "params.json", "holds no config.json"),
        ("tokenizer.json", "tokenizer_config.json", "has no tokenizer"),
    ],
)
def test_a_repository_that_is_no_whole_model_is_refused(
    desk: Desk, checkpoint: Checkpoint, lost: str, instead: str, words: str
) -> None:
    folder = checkpoint()
    (folder / lost).rename(folder / instead)
    desk.hub.publish(NAME, folder)
    error = desk.refused()
    assert words in error.cause and NAME in error.cause
    assert error.exit_status == 4
    assert desk.hub.fetched() == []


@pytest.mark.parametrize("shard", ["gone.safetensors", "../up.safetensors"])
def test_an_index_that_names_what_is_not_there(desk: Desk, tiny: Repository, shard: str) -> None:
    del tiny.files["model.safetensors"]
    index = json.dumps({"weight_map": {"a": shard}}).encode()
    tiny.files["model.safetensors.index.json"] = index
    assert shard in desk.refused().cause


@pytest.mark.parametrize("shard", ["pytorch_model.bin", "..", "sub/part.safetensors"])
def test_an_index_that_names_what_is_never_fetched(
    desk: Desk, tiny: Repository, shard: str
) -> None:
    del tiny.files["model.safetensors"]
    table = {"a": "consolidated.safetensors", "b": shard}
    index = json.dumps({"weight_map": table}).encode()
    tiny.files["model.safetensors.index.json"] = index
    error = desk.refused()
    assert type(error) is ModelError and f"names '{shard}'" in error.cause and error.fix
    assert desk.hub.fetched() == ["config.json", "model.safetensors.index.json"]
    assert desk.names() == [".lock"]


def test_what_is_called_a_licence_but_is_a_pickle_is_not_fetched(
    desk: Desk, tiny: Repository
) -> None:
    for name in ("LICENSE.pkl", "NOTICE.bin", "COPYING.py"):
        tiny.files[name] = b"not needed"
    desk.take()
    assert {"LICENSE.pkl", "NOTICE.bin", "COPYING.py"}.isdisjoint(desk.hub.fetched())


def test_a_model_that_does_not_fit_the_disk_is_not_begun(desk: Desk, tiny: Repository) -> None:
    info = tiny.info(NAME)
    for file in info["siblings"]:
        if file["rfilename"] == "model.safetensors":
            file["size"] = file["lfs"]["size"] = 10**15
    desk.hub.trouble("api", Trouble(body=json.dumps(info).encode()))
    error = desk.refused()
    assert isinstance(error, DiskFull)
    assert "931322.6 GiB" in error.cause
    assert "model.safetensors" not in desk.hub.fetched()


# Files that do not arrive as they should


def test_a_file_that_was_cut_is_fetched_on_from_there(desk: Desk, tiny: Repository) -> None:
    desk.hub.trouble("model.safetensors", Trouble(cut=100), Trouble(cut=20))
    desk.take()
    assert desk.hub.ranges("model.safetensors") == [None, "bytes=100-", "bytes=120-"]
    assert len(desk.pauses) == 2
    assert "Trying again." in desk.said


STALL_S = 0.5  # long enough for any answer that does come


def test_a_file_that_stalls_is_fetched_on_from_there(desk: Desk, tiny: Repository) -> None:
    desk.hub.trouble("model.safetensors", Trouble(cut=100, hold=True))
    desk.take(timeout_s=STALL_S)
    assert desk.hub.ranges("model.safetensors") == [None, "bytes=100-"]
    assert "broke off (nothing came for 0.5 s). Trying again." in desk.said
    assert desk.pauses == [0.5]


def test_a_hub_that_keeps_stalling_is_given_up_and_what_came_is_kept(
    desk: Desk, tiny: Repository
) -> None:
    in_vain = (*repeat(Trouble(503), 4), Trouble(cut=0, hold=True))
    desk.hub.trouble("model.safetensors", Trouble(cut=100), *in_vain)
    error = desk.refused(timeout_s=STALL_S)
    assert isinstance(error, HubUnreachable)
    assert error.cause == f"The hub at {desk.hub.address} broke off (nothing came for 0.5 s)."
    assert "what has arrived is kept" in error.fix and "HF_HUB_DOWNLOAD_TIMEOUT" in error.fix
    desk.hub.asked.clear()
    desk.take()
    assert desk.hub.ranges("model.safetensors") == ["bytes=100-"]


def test_a_hub_that_takes_the_question_and_does_not_answer(desk: Desk, tiny: Repository) -> None:
    desk.hub.trouble("api", Trouble(silent=True))
    error = desk.refused(timeout_s=STALL_S)
    assert isinstance(error, HubUnreachable)
    assert "nothing came for 0.5 s" in error.cause


def test_a_hub_that_does_not_know_ranges_is_heard_from_the_start(
    desk: Desk, tiny: Repository
) -> None:
    desk.hub.trouble("model.safetensors", Trouble(cut=100), Trouble(whole=True))
    desk.take()


def test_a_hub_that_is_down_for_a_moment_is_asked_again(desk: Desk, tiny: Repository) -> None:
    desk.hub.trouble("config.json", Trouble(503), Trouble(502))
    desk.take()
    assert desk.pauses == [1, 2]


def test_a_hub_that_stays_down_is_given_up_and_what_came_is_kept(
    desk: Desk, tiny: Repository
) -> None:
    desk.hub.trouble("model.safetensors", Trouble(cut=100), *repeat(Trouble(500), 5))
    error = desk.refused()
    assert isinstance(error, HubUnreachable)
    assert "failed by itself (status 500)" in error.cause and "is kept" in error.fix
    assert desk.pauses == [0.5, 1, 2, 4, 8]
    desk.hub.asked.clear()
    desk.take()
    assert desk.hub.fetched() == ["model.safetensors"]
    assert desk.hub.ranges("model.safetensors") == ["bytes=100-"]
    assert desk.names() == [".lock", "hub-tiny--llama"]


def test_altered_bytes_are_found_and_named(desk: Desk, tiny: Repository) -> None:
    for name in ("model.safetensors", "tokenizer.json"):
        desk.hub.trouble(name, Trouble(altered=True))
        error = desk.refused()
        assert isinstance(error, ModelCorrupt)
        assert f"{name} of {NAME} did not arrive as the hub promised" in error.cause
        desk.take()
        shutil.rmtree(desk.models)


def test_a_file_that_ends_early_is_found_and_named(desk: Desk, tiny: Repository) -> None:
    desk.hub.trouble("model.safetensors", Trouble(end=50), Trouble(end=50))
    error = desk.refused()
    assert isinstance(error, ModelCorrupt)
    assert f"model.safetensors of {NAME} ends after 50 bytes" in error.cause


def test_a_file_that_is_too_long_is_found(desk: Desk, tiny: Repository) -> None:
    desk.hub.trouble("tokenizer.json", Trouble(body=b"{}" * 99))
    error = desk.refused()
    assert isinstance(error, ModelCorrupt)
    assert "tokenizer.json" in error.cause and "instead of 2" in error.cause


def test_a_beginning_that_is_another_files_is_thrown_away(desk: Desk, tiny: Repository) -> None:
    begun = desk.models / ".fetching-hub-tiny--llama" / "model.safetensors"
    begun.parent.mkdir(parents=True)
    begun.write_bytes(b"x" * 60)
    desk.take()
    assert desk.hub.ranges("model.safetensors") == ["bytes=60-", None]
    assert "what was kept of model.safetensors is of no use" in desk.said


def test_weights_that_turn_out_to_be_none_leave_nothing_behind(
    desk: Desk, tiny: Repository
) -> None:
    tiny.files["model.safetensors"] = b"as promised, but no weights"
    error = desk.refused()
    assert type(error) is ModelError
    assert "model.safetensors is not a safetensors file" in error.cause
    assert desk.names() == [".lock"]


def test_what_has_arrived_is_kept_where_a_library_is_missing(
    desk: Desk, tiny: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.hub.trouble("model.safetensors", Trouble(cut=100), Trouble(403))
    desk.refused()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "huggingface_hub", None)
        assert "Python cannot find huggingface_hub" in desk.refused().cause
    desk.hub.asked.clear()
    desk.take()
    assert desk.hub.ranges("model.safetensors") == ["bytes=100-"]


def test_what_other_plans_have_left_unfinished_is_named_with_its_size(
    desk: Desk, tiny: Repository
) -> None:
    for name, count in (("hub-tiny--llama", 1), ("hub-a--b", 3), ("hub-c--d", 0)):
        begun = desk.models / f".fetching-{name}" / "model.safetensors"
        begun.parent.mkdir(parents=True)
        begun.write_bytes(bytes(count * 2**20))
    desk.take()
    (line,) = [line for line in desk.lines if "unfinished" in line]
    assert "'.fetching-hub-a--b' (3.0 MiB), '.fetching-hub-c--d' (0.0 MiB)" in line
    assert f"'{desk.models}'" in line and "tiny" not in line and "remove" in line
    assert desk.names() == [".fetching-hub-a--b", ".fetching-hub-c--d", ".lock", "hub-tiny--llama"]


def test_a_listing_without_hashes_is_no_listing(desk: Desk, tiny: Repository) -> None:
    info = tiny.info(NAME)
    del info["siblings"][0]["blobId"]
    desk.hub.trouble("api", Trouble(body=json.dumps(info).encode()))
    assert "is no Hugging Face hub" in desk.refused().cause


def test_a_page_in_place_of_the_hub_is_told(desk: Desk, tiny: Repository) -> None:
    for body in (b"<html>Log in!</html>", b"[]", b"{}", b'{"id": "a", "sha": "main"}'):
        desk.hub.trouble("api", Trouble(body=body))
        error = desk.refused()
        assert isinstance(error, HubUnreachable)
        assert "is no Hugging Face hub" in error.cause and "HF_ENDPOINT" in error.fix


def test_names_that_lead_elsewhere_are_not_taken(desk: Desk, tiny: Repository) -> None:
    info = tiny.info(NAME)
    for name in ("../tokenizer_up.json", "/tokenizer_root.json", "tokenizer\n.json"):
        info["siblings"].append({"rfilename": name, "size": 2, "blobId": git_blob(b"{}")})
    desk.hub.trouble("api", Trouble(body=json.dumps(info).encode()))
    assert len(desk.take().files) == 4


# Who may have it


def test_a_gated_model_without_a_token(desk: Desk, tiny: Repository) -> None:
    """MD-GATED: three messages, and no token in any."""
    tiny.gated = True
    error = desk.refused()
    assert isinstance(error, HubRefused)
    assert "is gated" in error.cause and "no token was sent" in error.cause
    assert f"Accept the licence at {desk.hub.address}/{NAME}, set HF_TOKEN" in error.fix
    assert desk.names() == [".lock"]


def test_a_gated_model_whose_licence_is_not_accepted(desk: Desk, tiny: Repository) -> None:
    tiny.gated = True
    error = desk.refused(token=TOKEN)
    assert isinstance(error, HubRefused)
    assert "the account of the token has no access" in error.cause
    assert f"Accept the licence at {desk.hub.address}/{NAME} with that account" in error.fix


def test_a_gated_model_whose_licence_is_accepted(desk: Desk, tiny: Repository) -> None:
    tiny.gated = tiny.accepted = True
    desk.take(token=TOKEN)
    assert TOKEN not in desk.said


def test_the_token_is_shown_to_the_hub_alone(desk: Desk, tiny: Repository) -> None:
    desk.take(token=TOKEN)
    shown = {each.path.split("/")[1]: each.headers.get("Authorization") for each in desk.hub.asked}
    assert shown == {"api": f"Bearer {TOKEN}", "tiny": f"Bearer {TOKEN}", "cdn": None}


def test_a_token_that_is_not_valid(desk: Desk, tiny: Repository) -> None:
    error = desk.refused(token=TOKEN.lower())
    assert isinstance(error, HubRefused)
    assert "does not accept the token" in error.cause and "HF_TOKEN" in error.fix
    assert TOKEN.lower() not in f"{error} {desk.said}"


@pytest.mark.parametrize("token", ["hf_a b", "hf_\x01", "hf_é"])
def test_a_token_that_no_header_can_hold(desk: Desk, tiny: Repository, token: str) -> None:
    error = desk.refused(token=token)
    assert isinstance(error, HubRefused)
    assert "another character that no token has" in error.cause
    assert token not in str(error)
    assert desk.hub.asked == []


@pytest.mark.parametrize("token", [False, TOKEN])
def test_a_model_that_the_hub_does_not_know(desk: Desk, token: str | bool) -> None:
    error = desk.refused("hub:tiny/lama", token=token)
    assert isinstance(error, HubRefused)
    assert "knows no model 'tiny/lama'" in error.cause
    assert ("no token was sent" in error.cause) is (token is False)
    assert f"{desk.hub.address}/tiny/lama" in error.fix


def test_a_private_model_is_told_like_one_that_is_not_there(desk: Desk, tiny: Repository) -> None:
    tiny.private = True
    assert "or it is private and no token was sent" in desk.refused().cause
    assert "that the account of the token may see" in desk.refused(token=TOKEN).cause
    tiny.accepted = True
    desk.take(token=TOKEN)


@pytest.mark.parametrize("revision", ["v9", "f" * 40])
def test_a_revision_that_is_not_there(desk: Desk, tiny: Repository, revision: str) -> None:
    error = desk.refused(f"hub:{NAME}@{revision}")
    assert isinstance(error, HubRefused)
    assert f"no branch, tag or commit '{revision}'" in error.cause
    assert f"{desk.hub.address}/{NAME}/tree/main" in error.fix


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "120"}, "120 s"),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, "until Wed, 21 Oct 2026 07:28:00 GMT"),
        ({"ratelimit": '"api";r=0;t=55'}, "55 s"),
        ({}, "some minutes"),
    ],
)
def test_a_hub_that_wants_fewer_requests_says_how_long_to_wait(
    desk: Desk, tiny: Repository, headers: dict[str, str], wait: str
) -> None:
    desk.hub.trouble("api", Trouble(429, headers))
    error = desk.refused()
    assert isinstance(error, HubBusy)
    assert error.fix.startswith(f"Wait {wait} and run the same command again")
    desk.hub.trouble("model.safetensors", Trouble(429, headers))
    assert isinstance(desk.refused(), HubBusy)
    assert desk.pauses == []


def test_any_other_refusal_is_told_in_the_hubs_words(desk: Desk, tiny: Repository) -> None:
    said = f"Access to this\x1b[31m resource is disabled for {TOKEN}."
    desk.hub.trouble("api", Trouble(403, {"message": said.replace("\x1b", " ")}))
    error = desk.refused(token=TOKEN)
    assert "(status 403: Access to this [31m resource is disabled for …)" in error.cause


def test_a_hub_that_is_not_there(desk: Desk) -> None:
    error = desk.refused(endpoint="http://127.0.0.1:9")  # the port of the discard service
    assert isinstance(error, HubUnreachable)
    assert "http://127.0.0.1:9 cannot be reached" in error.cause
    for word in ("HF_ENDPOINT", "HF_HUB_OFFLINE=1", "run the same command again"):
        assert word in error.fix


@pytest.mark.parametrize("address", ["hf-mirror.example", "ftp://a", "http://", "http://[", "a b"])
def test_an_endpoint_that_is_no_address(desk: Desk, address: str) -> None:
    error = desk.refused(endpoint=address)
    assert isinstance(error, UsageError)
    assert "HF_ENDPOINT" in error.cause


def test_a_password_in_the_endpoint_is_not_repeated(desk: Desk) -> None:
    error = desk.refused(endpoint="http://me:secret@127.0.0.1:9")
    assert "secret" not in str(error) and "http://127.0.0.1:9 " in error.cause


# Caches, and no network


def test_what_the_users_hub_cache_holds_is_not_fetched(desk: Desk, tiny: Repository) -> None:
    root = desk.fill_cache(tiny, "config.json", "model.safetensors")
    before = sorted(root.rglob("*"))
    desk.take()
    assert sorted(desk.hub.fetched()) == ["LICENSE", "tokenizer.json"]
    taken = desk.models / "hub-tiny--llama" / "model.safetensors"
    assert not taken.is_symlink()
    assert taken.samefile(root / "blobs" / sha256(tiny.files["model.safetensors"]))
    assert sorted(root.rglob("*")) == before
    shutil.rmtree(desk.cache)
    verify(f"hub:{NAME}", desk.models)


def test_what_a_cache_on_another_disk_holds_is_copied(
    desk: Desk, tiny: Repository, other_disk: Path
) -> None:
    desk.cache = other_disk
    root = desk.fill_cache(tiny)
    manifest = desk.take(cache=other_disk)
    assert desk.hub.fetched() == []
    assert "copying model.safetensors" in desk.said
    shutil.rmtree(root)
    assert verify(f"hub:{NAME}", desk.models) == manifest


def test_a_damaged_copy_in_a_cache_is_not_used(desk: Desk, tiny: Repository) -> None:
    root = desk.fill_cache(tiny)
    blob = root / "blobs" / sha256(tiny.files["model.safetensors"])
    blob.write_bytes(bytes(len(tiny.files["model.safetensors"])))
    desk.take()
    assert desk.hub.fetched() == ["model.safetensors"]
    assert "not using" in desk.said and "its SHA-256 is another" in desk.said


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("revision", ["main", "commit"])
def test_offline_a_model_comes_from_the_cache(
    desk: Desk, tiny: Repository, links: bool, revision: str
) -> None:
    desk.fill_cache(tiny, links=links)
    (desk.cache / "models--tiny--llama" / "blobs" / "half.incomplete").write_bytes(b"x")
    asked = f"hub:{NAME}@{tiny.commit if revision == 'commit' else revision}"
    manifest = desk.take(asked, offline=True)
    assert manifest.commit == tiny.commit
    assert "from a hub cache, offline" in manifest.origin
    assert desk.hub.asked == []
    shutil.rmtree(desk.cache)
    assert desk.take(asked, offline=True) == manifest


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (["config.json", "tokenizer.json"], "only a part of it, without model.safetensors"),
        (["tokenizer.json", "model.safetensors"], "only a part of it, without config.json"),
        ([], "does not hold it"),
    ],
)
def test_offline_what_is_not_whole_in_the_cache_is_missing(
    desk: Desk, tiny: Repository, kept: list[str], words: str
) -> None:
    if kept:
        desk.fill_cache(tiny, *kept)
    error = desk.refused(offline=True)
    assert isinstance(error, ModelMissing)
    assert words in error.cause and "HF_HUB_OFFLINE" in error.cause
    assert "--hub_cache" in error.fix
    assert desk.names() == [".lock"]


def test_offline_another_commit_than_the_caches_is_missing(desk: Desk, tiny: Repository) -> None:
    desk.fill_cache(tiny)
    assert "does not hold it" in desk.refused(f"hub:{NAME}@{'0' * 40}", offline=True).cause


def test_offline_a_damaged_cache_is_told(desk: Desk, tiny: Repository) -> None:
    root = desk.fill_cache(tiny)
    blob = root / "blobs" / sha256(tiny.files["model.safetensors"])
    blob.write_bytes(bytes(len(tiny.files["model.safetensors"])))
    error = desk.refused(offline=True)
    assert isinstance(error, ModelMissing)
    assert "model.safetensors" in error.cause and "is damaged" in error.cause


@pytest.mark.parametrize(
    ("environment", "cache"),
    [
        ({"HF_HUB_CACHE": "/c"}, "/c"),
        ({"HUGGINGFACE_HUB_CACHE": "/old"}, "/old"),
        ({"HF_HOME": "/h"}, "/h/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({}, os.path.expanduser("~/.cache/huggingface/hub")),
    ],
)
def test_the_cache_is_where_huggingface_hub_has_it(environment: dict[str, str], cache: str) -> None:
    assert HubSettings.from_environment(environment).cache == Path(cache)


@pytest.mark.parametrize(
    ("environment", "offline"),
    [
        ({"HF_HUB_OFFLINE": "1"}, True),
        ({"TRANSFORMERS_OFFLINE": "yes"}, True),
        ({"HF_HUB_OFFLINE": "0"}, False),
        ({}, False),
    ],
)
def test_offline_is_what_huggingface_hub_takes_for_it(
    environment: dict[str, str], offline: bool
) -> None:
    assert HubSettings.from_environment(environment).offline is offline


@pytest.mark.parametrize(("said", "waits"), [("3", 3), (" 60 ", 60), ("0", 10), ("-5", 10)])
def test_the_wait_is_what_huggingface_hub_makes_of_it(said: str, waits: float) -> None:
    assert HubSettings.from_environment({"HF_HUB_DOWNLOAD_TIMEOUT": said}).timeout_s == waits
    assert HubSettings.from_environment({}).timeout_s == 10


# The command


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(f"name: hub\nmodels: ['hub:{NAME}']\n")
    return path


def around(desk: Desk, **more: str) -> dict[str, str]:
    """The environment of a user whose hub is this one."""
    home = {"HF_HOME": str(desk.cache.parent / "home"), "HF_HUB_OFFLINE": "0", "HF_TOKEN": ""}
    return {"HF_ENDPOINT": desk.hub.address, **home, **more}


def test_the_command_takes_its_hub_and_token_from_the_environment(
    desk: Desk, tiny: Repository, plan: Path
) -> None:
    tiny.gated = tiny.accepted = True
    arguments = ("download", "--parameters_file", plan, "--models_dir", desk.models)
    ended = ecocompute(*arguments, environment=around(desk, HF_TOKEN=TOKEN, HF_DEBUG="1"))
    assert ended.status == 0, ended
    assert ended.out == "" and TOKEN not in ended.err and "it/s" not in ended.err
    assert {line.partition(" ")[0] for line in ended.err.splitlines()} == {f"hub:{NAME}:"}


def test_a_proxy_that_the_client_cannot_speak_to_is_no_traceback(
    desk: Desk, tiny: Repository, plan: Path
) -> None:
    arguments = ("download", "--parameters_file", plan, "--models_dir", desk.models)
    proxy = {"ALL_PROXY": "gopher://me:secret@127.0.0.1:9"}
    ended = ecocompute(*arguments, environment=around(desk, **proxy))
    assert_told(ended, 4, "the client cannot start", "proxy")
    assert "secret" not in ended.err


@pytest.mark.parametrize("name", ["HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT"])
def test_a_setting_that_the_client_cannot_read_is_no_traceback(
    desk: Desk, tiny: Repository, plan: Path, name: str
) -> None:
    arguments = ("download", "--parameters_file", plan, "--models_dir", desk.models)
    ended = ecocompute(*arguments, environment=around(desk, **{name: "soon"}))
    assert_told(ended, 2, "'soon'", name)


def test_offline_the_command_takes_a_cache_that_is_named(
    desk: Desk, tiny: Repository, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in around(desk, HF_HUB_OFFLINE="1").items():
        monkeypatch.setenv(name, value)
    desk.fill_cache(tiny)
    arguments = ["download", "--parameters_file", str(plan), "--models_dir", str(desk.models)]
    assert main(arguments) == 4
    assert main([*arguments, "--hub_cache", str(desk.cache / "nowhere")]) == 2
    assert main([*arguments, "--hub-cache", str(desk.cache)]) == 0
    assert main(arguments) == 0


def test_a_download_that_is_killed_goes_on_where_it_was(
    desk: Desk, tiny: Repository, plan: Path
) -> None:
    desk.hub.trouble("model.safetensors", Trouble(cut=100, hold=True))
    command = ["-m", "ecocompute_cube.cli", "download", "--parameters_file", str(plan)]
    process = subprocess.Popen(
        [sys.executable, *command, "--models_dir", str(desk.models)],
        env=surroundings(around(desk)),
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )
    begun = desk.models / ".fetching-hub-tiny--llama" / "model.safetensors"
    with contextlib.ExitStack() as stack:
        stack.callback(process.wait)
        stack.callback(process.send_signal, signal.SIGKILL)
        until(lambda: begun.exists() and begun.stat().st_size == 100)
    desk.hub.asked.clear()
    desk.take()
    assert desk.hub.ranges("model.safetensors") == ["bytes=100-"]
    assert desk.hub.fetched() == ["model.safetensors"]
    assert desk.names() == [".lock", "hub-tiny--llama"]


def test_a_disk_that_fills_up_in_the_middle_of_a_file(
    desk: Desk, tiny: Repository, plan: Path
) -> None:
    tiny.files["tokenizer.json"] = b" " * 4096 + b"{}"

    def no_file_above() -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, resource.RLIM_INFINITY))

    arguments = ("download", "--parameters_file", plan, "--models_dir", desk.models)
    ended = ecocompute(*arguments, environment=around(desk), before=no_file_above)
    assert ended.status == 7, ended
    assert "No room left on the disk" in ended.err and "--models_dir" in ended.err
    desk.take()
    assert desk.hub.ranges("tokenizer.json")[-1] == "bytes=2048-"


def test_a_models_folder_that_is_only_read_serves_what_it_has(desk: Desk, tiny: Repository) -> None:
    desk.take()
    (desk.models / ".lock").unlink()
    before = {path: path.stat().st_mtime_ns for path in desk.models.rglob("*")}
    desk.take(endpoint="http://127.0.0.1:9")
    assert {path: path.stat().st_mtime_ns for path in desk.models.rglob("*")} == before


def test_a_models_folder_that_cannot_be_written_is_told_before_the_hub_is_asked(
    desk: Desk, tiny: Repository
) -> None:
    desk.models = Path("/proc/models")
    error = desk.refused()
    assert isinstance(error, OutputError)
    assert f"hub:{NAME}" in error.cause and "--models_dir" in error.fix
    assert desk.hub.asked == []


def test_a_path_that_looks_like_a_name_of_the_hub_is_asked_about(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("name: a\nmodels: [Qwen/Qwen2-0.5B]\n")
    arguments = ["download", "--parameters_file", str(plan), "--models_dir", str(desk.models)]
    assert main(arguments) == 4
    assert "Did you mean hub:Qwen/Qwen2-0.5B" in capsys.readouterr().err


def test_a_forecast_needs_the_model_first(
    desk: Desk, tiny: Repository, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["plan", str(plan), "--models_dir", str(desk.models)]
    assert main(arguments) == 4
    told = capsys.readouterr().err
    assert f"hub:{NAME} is not downloaded yet, and only the hub knows its size" in told
    assert f"`ecocompute download --parameters_file FILE --models_dir {desk.models}` first" in told
    desk.take()
    tight = "workloads: [{output_tokens: 8}]\nprotocol: {mode: precise}\n"
    plan.write_text(plan.read_text() + tight)
    assert main(arguments) == 0
    assert "hub-tiny--llama_b1-p10-o8_FP16_eager" in capsys.readouterr().out


def test_a_forecast_of_a_damaged_model_says_that_it_is_damaged(
    desk: Desk, tiny: Repository, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.take()
    (desk.models / "hub-tiny--llama" / "manifest.json").write_text("{")
    assert main(["plan", str(plan), "--models_dir", str(desk.models)]) == 4
    assert "manifest.json cannot be understood" in capsys.readouterr().err


@pytest.mark.parametrize("smaller", [0, 1])
def test_a_forecast_knows_the_context_of_each_revision(
    desk: Desk, tiny: Repository, smaller: int
) -> None:
    shape = json.loads(tiny.files["config.json"])
    commits = []
    for position in range(2):
        context = 10 if position == smaller else 64
        config = shape | {"max_position_embeddings": context}
        tiny.files["config.json"] = json.dumps(config).encode()
        commits.append(tiny.commit)
        desk.take(f"hub:{NAME}@{tiny.commit}")
    plan = Plan(
        name="test",
        models=tuple(f"hub:{NAME}@{commit}" for commit in commits),
        workloads=(Workload(output_tokens=8),),
        protocol=Protocol(mode=Mode.PRECISE),
    )
    with pytest.raises(PlanError, match=f"hub:{NAME}@{commits[smaller]} takes 10 tokens"):
        forecast(plan, desk.models)


def test_reports_tell_two_revisions_apart(desk: Desk, tiny: Repository, tmp_path: Path) -> None:
    revisions = []
    for tokenizer in (b"{}", b'{"new": 1}'):
        tiny.files["tokenizer.json"] = tokenizer
        revisions.append(f"{NAME}@{tiny.commit}")
        desk.take(f"hub:{revisions[-1]}")
    names = sorted(f"{NAME}@{each.partition('@')[2][:12]}" for each in revisions)

    scripted = Scene(tmp_path)
    assert scripted.models == desk.models
    workload = {"prompt_tokens": 4, "output_tokens": 8}
    protocol = {"mode": "precise", "iterations": 1, "blocks": 2}
    models = [f"hub:{each}" for each in revisions]
    asked = plan_of_keys(models=models, arms=["FP16"], workloads=[workload], protocol=protocol)
    run = scripted.measure(asked)
    report = write_energy(run)

    told = [json.loads(path.read_text()) for path in run.glob("arms/*/energy.json")]
    assert sorted(each["workload"]["model_name"] for each in told) == names
    assert sorted(row["model"] for row in csv.DictReader(StringIO(as_csv([report])))) == names
    assert all(name in as_text(report) for name in names)
