"""What names a model of the hub, and what only looks like it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ecocompute_cube.errors import PlanError
from ecocompute_cube.model.hub_reference import HubReference, meant_hub, parse_hub
from ecocompute_cube.model.plan import Plan, model_slug, public_reference, slug
from ecocompute_cube.model.plan_file import read_plan

COMMIT = "c540970f9e29518b1d8f06ab8b24cba66ad77b6d"

letters = "abXY019"
names = st.from_regex(r"[a-zA-Z0-9_]([a-zA-Z0-9_.-]{0,20}[a-zA-Z0-9_])?", fullmatch=True).filter(
    lambda name: "--" not in name and ".." not in name and not name.endswith(".git")
)
revisions = (
    st.just("main")
    | st.text("0123456789abcdef", min_size=40, max_size=40)
    | st.text("0123456789abcdef", min_size=12, max_size=12)
    | st.lists(st.text(letters + "-_", min_size=1, max_size=9), min_size=1, max_size=3)
    .map("/".join)
    .filter(lambda name: name[0] != "-" and "/-" not in name)
)
references = st.builds(
    HubReference,
    names | st.tuples(names, names).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    revisions,
)


def parsed_or_refused(text: str) -> HubReference | PlanError:
    try:
        return parse_hub(text)
    except PlanError as error:
        return error


@settings(deadline=None)
@given(references)
def test_what_is_written_is_read_back(reference: HubReference) -> None:
    assert parse_hub(str(reference)) == reference
    assert public_reference(str(reference)) == str(reference)


@settings(deadline=None)
@given(references)
def test_its_slug_is_safe_in_paths_and_not_too_long(reference: HubReference) -> None:
    assert slug(reference.slug) == reference.slug
    assert re.fullmatch(r"hub-[A-Za-z0-9.-]+", reference.slug)
    assert len(reference.slug) < 120


@settings(deadline=None)
@given(st.lists(references, unique=True, min_size=2, max_size=4))
@example([HubReference("a-b/c"), HubReference("a/b-c"), HubReference("a_b/c")])
@example([HubReference("gpt2", "v1"), HubReference("gpt2/v1"), HubReference("gpt2-v1")])
@example([HubReference("a/b", COMMIT), HubReference("a/b", COMMIT[:12])])
@example([HubReference("a/b", "x/y"), HubReference("a/b", "x-y"), HubReference("a/b", "x_y")])
def test_no_two_references_share_a_slug(some: list[HubReference]) -> None:
    assert len({each.slug for each in some}) == len(some)


@settings(deadline=None)
@given(st.text(max_size=40) | st.text("hub:@/.-_aB1", max_size=30))
def test_any_text_is_a_reference_or_a_plan_error(text: str) -> None:
    found = parsed_or_refused(f"hub:{text}")
    if isinstance(found, PlanError):
        assert str(found).isprintable() and found.fix
    else:
        assert parse_hub(str(found)) == found


def test_nothing_behind_the_name_means_main() -> None:
    assert public_reference("hub:Qwen/Qwen2-0.5B@main") == "hub:Qwen/Qwen2-0.5B"
    assert parse_hub("hub:gpt2").revision == "main"


def test_only_a_whole_commit_is_one() -> None:
    assert parse_hub(f"hub:gpt2@{COMMIT.upper()}").commit == COMMIT
    assert parse_hub(f"hub:gpt2@{COMMIT[:12]}").commit is None
    assert parse_hub("hub:gpt2@refs/pr/1").revision == "refs/pr/1"


def test_slugs_read_like_the_names() -> None:
    assert model_slug("hub:Qwen/Qwen2-0.5B") == "hub-Qwen--Qwen2-0.5B"
    assert model_slug("hub:gpt2@v1.0") == "hub-gpt2---v1.0"
    assert model_slug(f"hub:gpt2@{COMMIT}") == "hub-gpt2---c540970f9e29"
    assert model_slug("local:hub-gpt2") == "local-hub-gpt2"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("hub:", "a name is missing"),
        ("hub:/gpt2", "a name is missing"),
        ("hub:gpt2/", "a name is missing"),
        ("hub:@main", "a name is missing"),
        ("hub:datasets/a/b", "more than one slash"),
        ("hub:a/b c", "letters, digits"),
        ("hub: gpt2", "letters, digits"),
        ("hub:../gpt2", "letters, digits"),
        ("hub:-a/b", "letters, digits"),
        ("hub:a/b.", "letters, digits"),
        (f"hub:{'a' * 97}", "at most 96"),
        ("hub:a--b", "'--'"),
        ("hub:a/b..c", "'..'"),
        ("hub:a/b.git", "'.git'"),
        ("hub:文/件", "letters, digits"),
        ("hub:gpt2@", "no revision behind the @"),
        ("hub:gpt2@a b", "'a b' is no branch, tag or commit"),
        ("hub:gpt2@../main", "no branch, tag or commit"),
        ("hub:gpt2@a..b", "no branch, tag or commit"),
        ("hub:gpt2@/main", "no branch, tag or commit"),
        ("hub:gpt2@-x", "no branch, tag or commit"),
        ("hub:gpt2@v1@v2", "no branch, tag or commit"),
        ("hub:gpt2@a.lock", "no branch, tag or commit"),
    ],
)
def test_a_malformed_name_is_refused_with_its_fault(text: str, fault: str) -> None:
    with pytest.raises(PlanError, match=re.escape(fault)) as caught:
        public_reference(text)
    assert "hub:OWNER/NAME@REVISION" in caught.value.fix


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Hub:gpt2", "hub:gpt2"),
        ("hf:Qwen/Qwen2-0.5B", "hub:Qwen/Qwen2-0.5B"),
        ("hf://Qwen/Qwen2-0.5B@v1", "hub:Qwen/Qwen2-0.5B@v1"),
        ("huggingface:gpt2", "hub:gpt2"),
        ("https://huggingface.co/Qwen/Qwen2-0.5B", "hub:Qwen/Qwen2-0.5B"),
        ("huggingface.co/Qwen/Qwen2-0.5B/", "hub:Qwen/Qwen2-0.5B"),
        ("https://hf.co/Qwen/Qwen2-0.5B/tree/v1?x=1", "hub:Qwen/Qwen2-0.5B@v1"),
        ("hub:https://huggingface.co/gpt2", "hub:gpt2"),
    ],
)
def test_another_way_to_say_it_is_answered_with_ours(tmp_path: Path, text: str, meant: str) -> None:
    assert meant_hub(text) == meant
    (tmp_path / "plan.yaml").write_text(json.dumps({"name": "a", "models": [text]}))
    with pytest.raises(PlanError, match=re.escape(f"Did you mean {meant}?")):
        read_plan(tmp_path / "plan.yaml")


@pytest.mark.parametrize("text", ["mine", "Qwen/Qwen2-0.5B", "~/models/hub", "/hub/a", "hubs:a"])
def test_a_folder_is_a_folder(text: str) -> None:
    assert meant_hub(text) is None


def test_a_plan_keeps_the_name_as_it_is_meant(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("name: a\nmodels: ['hub:Qwen/Qwen2-0.5B@main', hub:gpt2]")
    plan = read_plan(tmp_path / "plan.yaml")
    assert plan.public().models == ("hub:Qwen/Qwen2-0.5B", "hub:gpt2")
    assert plan.sha256 == plan.public().sha256


def test_main_is_the_same_model_said_twice() -> None:
    with pytest.raises(ValueError, match="same model stands twice"):
        Plan(name="a", models=("hub:gpt2", "hub:gpt2@main"))


def test_a_contrast_may_name_a_model_of_the_hub() -> None:
    contrast = {"arm": {"model": "hub:gpt2@main"}, "against": {"model": "hub:gpt2@v1"}}
    models = ["hub:gpt2", "hub:gpt2@v1"]
    data = {"name": "a", "models": models, "arms": ["FP16"], "contrasts": [contrast]}
    (pair,) = Plan.model_validate_json(json.dumps(data)).expanded_contrasts()
    assert pair.arm == "hub-gpt2_b1-p10-o256_FP16_eager"
    assert pair.against == "hub-gpt2---v1_b1-p10-o256_FP16_eager"
