"""A plan says the same wherever it is read, and keeps the host's folders to itself."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ecocompute_cube.errors import PlanError
from ecocompute_cube.model.plan import (
    Contrast,
    Plan,
    Precision,
    against_itself,
    parse_arm,
    public_reference,
    slug,
)

calm = settings(deadline=None, max_examples=100)
paths = st.lists(
    st.text(
        st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=9
    ),
    min_size=1,
    max_size=4,
)
models = st.sampled_from(["embedded", "random:smollm2-135m", "random:qwen2-7b"]) | paths.map(
    lambda parts: "/" + "/".join(parts)
)


def plan(**changes: object) -> Plan:
    return Plan.model_validate_json(json.dumps({"name": "p", **changes}))


def _sorted(workload: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(workload.items()))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans in mode precise, over every field."""
    number = st.integers(1, 10**6)
    workload = st.fixed_dictionaries(
        {"prompt_tokens": number, "output_tokens": st.integers(2, 10**6), "batch": number}
    )
    few = draw(number)
    data: dict[str, Any] = {
        "name": draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)),
        "models": draw(
            st.lists(models, min_size=1, max_size=3, unique_by=lambda m: slug(public_reference(m)))
        ),
        "arms": draw(
            st.lists(st.sampled_from(["FP16", "NF4", "INT8/eager"]), min_size=1, unique=True)
        ),
        "workloads": draw(st.lists(workload, min_size=1, max_size=3, unique_by=_sorted)),
        "protocol": {
            "mode": "precise",
            "iterations": draw(st.none() | st.integers(1, 10_000)),
            "window_s": draw(st.floats(0.001, 3600)),
            "blocks": draw(st.integers(1, 1000)),
            "sessions": draw(st.integers(1, 1000)),
            "warmup": {"min_passes": few, "max_passes": few + draw(number)},
            "seed": draw(st.integers(0, 2**64)),
        },
        "quality": {
            "enabled": draw(st.booleans()),
            "text": draw(st.just("builtin") | paths.map(lambda parts: "/" + "/".join(parts))),
        },
    }
    return Plan.model_validate_json(json.dumps(data))


@calm
@given(plans())
def test_a_plan_survives_json(asked: Plan) -> None:
    assert Plan.model_validate_json(asked.model_dump_json()) == asked
    assert Plan.model_validate_json(json.dumps(asked.model_dump(mode="json"))) == asked


@calm
@given(plans())
def test_the_public_plan_names_no_folder_and_is_public_already(asked: Plan) -> None:
    public = asked.public()
    assert public.public() == public
    assert "/" not in "".join(public.models) + public.quality.text
    for model in asked.models:
        if model.startswith("/"):
            assert f"local:{PurePath(model).name}" in public.models


@calm
@given(plans())
def test_arms_have_ids_of_their_own_that_are_safe_in_paths(asked: Plan) -> None:
    ids = [arm.id for arm in asked.expanded()]
    assert len(set(ids)) == len(ids) == len(asked.models) * len(asked.arms) * len(asked.workloads)
    assert all(slug(part) == part for each in ids for part in each.split("_"))
    named = {side for c in asked.expanded_contrasts() for side in (c.arm, c.against)}
    assert named <= set(ids)


def test_the_hash_is_of_what_is_asked_and_not_of_how_it_is_written() -> None:
    here = plan(models=["/home/me/m"], protocol={"blocks": 3, "seed": 0})
    there = plan(protocol={"seed": 0, "blocks": 3}, models=["local:m"])
    assert here.sha256 == there.sha256
    assert here.sha256 != plan(models=["local:m"], protocol={"blocks": 4}).sha256


def test_spelling_out_the_defaults_changes_no_hash() -> None:
    full = plan().model_dump(mode="json")
    assert Plan.model_validate_json(json.dumps(full)).sha256 == plan().sha256


def test_the_hash_of_a_plan_stays_what_it_was() -> None:
    """Runs are resumed and pooled by it: another value here orphans every unfinished run."""
    asked = Plan.model_validate_json(WRITTEN)
    written: dict[str, object] = json.loads(WRITTEN)
    assert asked.model_dump(mode="json") == written, "a new field: spell it out below"
    assert asked.sha256 == "176ae8304f10afb0b91060818869de3de3f47040b7802514dc7db111a14cad6e"


def test_a_plan_by_the_adaptive_rule_is_another_plan() -> None:
    adaptive = plan(protocol={"stop": {"rule": "adaptive"}})
    assert adaptive.sha256 != plan().sha256
    assert Plan.model_validate_json(adaptive.model_dump_json()) == adaptive
    assert plan(protocol={"stop": {"rule": "fixed"}}).sha256 == plan().sha256


@pytest.mark.parametrize(
    ("stop", "told"),
    [
        ({"rule": "adaptive", "min_blocks": 7}, "greater than or equal to 8"),
        ({"rule": "adaptive", "min_blocks": 12, "max_blocks": 11}, "at least min_blocks"),
        ({"rule": "adaptive", "half_width_pct": 0}, "greater than 0"),
        ({"rule": "fixed", "max_blocks": 9}, "Extra inputs"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused(stop: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        plan(protocol={"stop": stop})


def test_a_number_of_blocks_beside_the_adaptive_rule_is_refused() -> None:
    with pytest.raises(ValidationError, match="rule 'fixed'"):
        plan(protocol={"blocks": 9, "stop": {"rule": "adaptive"}})


WRITTEN = """
{
 "format": "ecocompute-plan/1",
 "name": "golden",
 "models": [
  "random:smollm2-135m",
  "local:m"
 ],
 "arms": [
  "FP16",
  "NF4/eager"
 ],
 "workloads": [
  {
   "prompt_tokens": 10,
   "output_tokens": 256,
   "batch": 1
  }
 ],
 "contrasts": [
  {
   "arm": {
    "model": null,
    "precision": "NF4",
    "runtime": null
   },
   "against": {
    "model": null,
    "precision": "FP16",
    "runtime": null
   }
  }
 ],
 "protocol": {
  "mode": "protocol-v1.1",
  "iterations": null,
  "window_s": 20.0,
  "blocks": 3,
  "sessions": 1,
  "cooldown_s": 0.0,
  "warmup": {
   "full_first": true,
   "min_passes": 3,
   "max_passes": 6,
   "output_tokens": 64,
   "settled_pct": 5.0,
   "settled_c": 2.0
  },
  "threshold_pct": 2.0,
  "confidence": 0.95,
  "seed": 0
 },
 "quality": {
  "enabled": true,
  "text": "builtin",
  "window_tokens": 1024,
  "max_windows": null
 }
}
"""


def test_each_precision_is_compared_with_fp16_of_its_own_kind() -> None:
    asked = plan(models=["random:smollm2-135m", "random:qwen2-7b"], arms=["NF4", "FP16", "INT8"])
    pairs = [
        (c.arm.split("_")[0], c.arm.split("_")[2], c.against.split("_")[0])
        for c in asked.expanded_contrasts()
    ]
    assert pairs == [
        (f"random-{model}", precision, f"random-{model}")
        for model in ("smollm2-135m", "qwen2-7b")
        for precision in ("NF4", "INT8")
    ]
    assert all("_FP16_" in c.against for c in asked.expanded_contrasts())


def test_a_contrast_of_ones_own_is_added_once() -> None:
    own = {"arm": {"precision": "NF4"}, "against": {"precision": "INT8"}}
    asked = plan(models=["random:smollm2-135m"], contrasts=[own, own])
    nf4, int8 = (arm.id for arm in asked.expanded()[1:])
    assert asked.expanded_contrasts()[-1] == Contrast(arm=nf4, against=int8)
    assert len(asked.expanded_contrasts()) == 3


def test_a_replica_is_compared_with_its_original_and_with_nothing_else() -> None:
    own = {"arm": {"precision": "NF4"}, "against": {"precision": "INT8"}}
    asked = plan(models=["random:smollm2-135m"], arms=["NF4#2", "FP16", "NF4", "INT8"])
    with_own = plan(
        models=["random:smollm2-135m"], arms=["NF4#2", "FP16", "NF4", "INT8"], contrasts=[own]
    )
    again, fp16, nf4, int8 = (arm.id for arm in asked.expanded())
    assert set(asked.expanded_contrasts()) == {
        Contrast(arm=again, against=nf4),
        Contrast(arm=nf4, against=fp16),
        Contrast(arm=int8, against=fp16),
    }
    assert set(with_own.expanded_contrasts()) - set(asked.expanded_contrasts()) == {
        Contrast(arm=nf4, against=int8)
    }
    pairs = [
        (c.arm, c.against) for c in asked.expanded_contrasts() if against_itself(c.arm, c.against)
    ]
    assert pairs == [(again, nf4)]


@pytest.mark.parametrize(
    ("arms", "told"),
    [
        (["FP16", "FP16"], "FP16#2"),
        (["FP16#2", "NF4"], "list its original too"),
        (["FP16", "FP16#1"], "pattern"),
        (["FP16", "FP16#2", "fp16#2"], "stands twice"),
    ],
)
def test_a_replica_is_written_with_its_number(arms: list[str], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        plan(arms=arms)


def test_a_rehearsal_is_the_same_arms_made_small() -> None:
    asked = plan(protocol={"mode": "precise", "blocks": 9}, workloads=[{"output_tokens": 8}, {}])
    small = asked.rehearsed()
    assert [w.output_tokens for w in small.workloads] == [8, 32]
    assert (small.protocol.blocks, small.protocol.sessions, small.protocol.iterations) == (1, 1, 1)
    adaptive = plan(protocol={"stop": {"rule": "adaptive"}}).rehearsed()
    assert adaptive.protocol.most_blocks == 1
    assert [a.precision for a in small.expanded()] == [a.precision for a in asked.expanded()]


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("NF4", "NF4/eager"),
        ("nf4/eager", "NF4/eager"),
        ("int8", "INT8/eager"),
        ("fp16#2", "FP16/eager#2"),
    ],
)
def test_an_arm_is_a_precision_and_a_runtime(text: str, reads: str) -> None:
    assert str(parse_arm(text)) == reads


def test_an_unknown_architecture_is_refused_with_the_known_ones() -> None:
    with pytest.raises(PlanError, match="qwen2-7b"):
        public_reference("random:gpt")


def test_what_stands_in_for_fp16_must_be_an_arm() -> None:
    assert Plan(name="a", arms=("FP16", "NF4"), baseline=Precision.NF4).baseline is Precision.NF4
    with pytest.raises(ValidationError, match="INT8 is not among the arms"):
        Plan(name="a", arms=("FP16", "NF4"), baseline=Precision.INT8)


def test_one_board_leaves_no_trace_and_more_are_another_plan() -> None:
    assert "boards" not in plan(boards=1).model_dump(mode="json")
    assert plan(boards=1).sha256 == plan().sha256 != plan(boards=2).sha256
    assert plan(boards=2).public().boards == 2
    assert plan(boards=2).rehearsed().boards == 1  # on the CPU there are none
    for boards in (0, -1, 17, 1.5, "2"):
        with pytest.raises(ValidationError):
            plan(boards=boards)


def test_capitals_do_not_matter_in_either_half_of_an_arm() -> None:
    (arm,) = Plan(name="a", arms=("fp16/LOOP",)).expanded()
    assert (arm.precision, arm.runtime) == ("FP16", "loop")


@pytest.mark.parametrize(
    ("arms", "boards", "refused"),
    [
        (["FP16/graph", "NF4/compiled"], 2, True),
        (["FP16/graph", "FP16/loop"], 2, False),
        (["FP16/graph"], 1, False),
    ],
)
def test_a_plan_of_captured_arms_alone_is_not_split_over_boards(
    arms: list[str], boards: int, refused: bool
) -> None:
    asked = json.dumps(
        {"name": "a", "models": ["random:qwen2-0.5b"], "arms": arms, "boards": boards}
    )
    if refused:
        with pytest.raises(ValidationError, match="add FP16/loop"):
            Plan.model_validate_json(asked)
    else:
        assert Plan.model_validate_json(asked).boards == boards
