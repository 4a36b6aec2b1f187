"""What describes a bundle: right, readable by others, and deaf to what hostile names ask for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ecocompute_cube.archive.about import Wishes, about
from ecocompute_cube.archive.describe import citation, zenodo
from ecocompute_cube.archive.words import as_html, as_json, as_markdown, one_line
from ecocompute_cube.model.bundle import About, BundledRun, Creator, Layout, License
from ecocompute_cube.model.journal import Fact, RunOpened
from ecocompute_cube.model.manifest import Weights

from ..report.stage import HOSTILE
from .rig import ONE_BLOCK, ROOT, SOMEBODY, THREE_BLOCKS, Desk, files_of

Json = dict[str, Any]


def run(weights: Weights = Weights.ORIGINAL, **changes: object) -> BundledRun:
    given: Json = {
        "run_id": "20261130T120000Z-x",
        "folder": "20261130T120000Z-x",
        "journal_sha256": "0" * 64,
        "lines": 3,
        "started_utc": "2026-11-30T12:00:00Z",
        "ended_utc": "2026-12-01T12:00:00Z",
        "tool_version": "0.1.0",
        "plan": "x",
        "rehearsal": False,
        "boards": ("NVIDIA H200",),
        "models": ("A model",),
        "weights": (weights,),
        "arms": ("a",),
        "signed": False,
    }
    return BundledRun.model_validate(given | changes)


NOTHING: Final = Wishes()


def told(*runs: BundledRun, wishes: Wishes = NOTHING) -> About:
    return about(runs or (run(),), wishes)


# Titles and descriptions


def test_a_title_names_model_and_board() -> None:
    assert told().title == "GPU energy per token of A model on NVIDIA H200"


@pytest.mark.parametrize("title", [None, "Mine", "  "])
def test_random_weights_stand_in_the_title_and_in_the_description(title: str | None) -> None:
    found = told(run(Weights.RANDOM), wishes=Wishes(title=title))
    assert found.title.endswith("(random weights)")
    assert any(part.startswith("Random weights: those of A model") for part in found.description)


def test_some_random_weights_are_told_as_some() -> None:
    found = told(run(Weights.RANDOM, models=("Drawn",)), run())
    assert found.title.endswith("(partly random weights)")
    assert any("those of Drawn were drawn" in part for part in found.description)


def test_a_title_that_says_so_already_is_left_alone() -> None:
    title = "Random weights of three shapes"
    assert told(run(Weights.RANDOM), wishes=Wishes(title=title)).title == title


def test_dequantized_weights_and_rehearsals_are_told() -> None:
    found = told(run(Weights.DEQUANTIZED, rehearsal=True, boards=()))
    assert "no energy was measured (rehearsal)" in found.title
    text = " ".join(found.description)
    assert "Dequantized weights" in text and "no energy was measured" in text


def test_the_day_is_the_last_one_of_measuring() -> None:
    assert told().date == "2026-12-01"
    assert told(wishes=Wishes(date="2027-01-02")).date == "2027-01-02"


def test_data_are_under_cc_by_unless_somebody_says_otherwise() -> None:
    assert told().license is License.CC_BY
    assert told(wishes=Wishes(license="cc0-1.0")).license is License.CC0


# Names that nobody should trust

anything = st.text(max_size=60) | st.just(HOSTILE)
calm = settings(deadline=None, max_examples=100)


@calm
@given(text=anything)
def test_one_line_is_one_line_that_a_terminal_prints(text: str) -> None:
    assert one_line(text).isprintable()


@calm
@given(text=anything)
def test_markdown_shows_the_text_itself_and_nothing_else(text: str) -> None:
    """As a heading, in a cell and in a list: one piece of text each, no markup, no HTML."""
    page = f"# a {as_markdown(text)}\n\n| a |\n|---|\n| b {as_markdown(text)} |\n"
    page += f"\n* c {as_markdown(text)}\n"
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(page)
    inline = [token for token in tokens if token.type == "inline"]
    shown = ["".join(child.content for child in token.children or []) for token in inline]
    kinds = {child.type for token in inline for child in token.children or []}
    assert kinds <= {"text", "text_special"}
    want = one_line(text)
    assert [one_line(each) for each in shown] == [
        one_line(each) for each in (f"a {want}", "a", f"b {want}", f"c {want}")
    ]


@calm
@given(text=anything)
def test_html_holds_no_tag(text: str) -> None:
    assert not re.search(r"[<>\"']", as_html(text))


@calm
@given(text=anything)
def test_json_can_stand_in_a_page_and_reads_back(text: str) -> None:
    data = as_json({"name": text.encode("utf-8", "replace").decode()})
    assert b"<" not in data
    assert json.loads(data) == {"name": text.encode("utf-8", "replace").decode()}


@calm
@given(title=anything, name=anything.filter(lambda text: bool(text.strip())))
def test_a_citation_reads_back_whatever_the_names_are(title: str, name: str) -> None:
    creator = Creator(name=one_line(name) or "x")
    found = about((run(models=(one_line(title),)),), Wishes(title=title, creators=(creator,)))
    document = yaml.safe_load(citation(found))
    assert document["title"] == found.title
    (author,) = document["authors"]
    assert author.get("name", author.get("family-names")) is not None
    assert document["type"] == "dataset" and document["cff-version"] == "1.2.0"
    assert json.loads(zenodo(found))["title"] == found.title


@pytest.mark.parametrize("layout", list(Layout))
def test_a_hostile_name_reaches_no_path_no_page_and_no_description(
    desk: Desk, layout: Layout
) -> None:
    def renamed(fact: Fact) -> Fact:
        if not isinstance(fact, RunOpened):
            return fact
        models = [model.model_copy(update={"name": HOSTILE}) for model in fact.models]
        return fact.model_copy(update={"models": tuple(models)})

    desk.rewrite_journal(renamed)
    wishes = Wishes(creators=(Creator(name=one_line(HOSTILE), affiliation=one_line(HOSTILE)),))
    desk.bundle(layout=layout, wishes=wishes)
    found = files_of(desk.out)
    ours = {name: data for name, data in found.items() if not name.endswith(_THEIRS)}
    assert all(re.fullmatch(r"[\w./-]+", name, re.ASCII) for name in found)
    for name, data in ours.items():
        text = data.decode()
        assert name in _PLAIN or "<script" not in text, name
        assert all(c.isprintable() or c == "\n" for c in text), name
        if name.endswith(".json"):
            json.loads(text)
    assert yaml.safe_load(found["CITATION.cff"])["title"]
    assert desk.codes() == set()


#: No reader of these takes anything in them for markup.
_PLAIN = ("CITATION.cff", "LICENSE.txt")
#: Evidence and what `report` and `measure` make of it: JSON, or pages with tests of their own.
_THEIRS = (
    "journal.jsonl",
    "energy.json",
    "report.json",
    "report.html",
    "results.csv",
    ".gz",
    ".png",
)


# Zenodo and citation


def test_what_zenodo_reads_has_all_that_it_asks_for() -> None:
    found = json.loads(zenodo(told(wishes=Wishes(creators=(SOMEBODY,)))))
    assert found["upload_type"] == "dataset" and found["license"] == "cc-by-4.0"
    assert found["creators"] == [
        {"name": "Doe, Jane", "orcid": "0000-0002-1825-0097", "affiliation": "A University"}
    ]
    assert found["publication_date"] == "2026-12-01"
    known = "access_right creators description keywords language license publication_date "
    known += "related_identifiers title upload_type version"
    assert set(found) == set(known.split())  # Zenodo drops what it does not know without a word


def test_a_person_and_a_group_are_cited_in_their_ways() -> None:
    group = Creator(name="The Group", affiliation="Which the format has no place for")
    authors = yaml.safe_load(citation(told(wishes=Wishes(creators=(SOMEBODY, group)))))["authors"]
    assert authors[0] == {
        "family-names": "Doe",
        "given-names": "Jane",
        "orcid": "https://orcid.org/0000-0002-1825-0097",
        "affiliation": "A University",
    }
    assert authors[1] == {"name": "The Group"}


def test_what_zenodo_reads_and_what_is_cited_say_the_same() -> None:
    """ZN-META: where there is a .zenodo.json, Zenodo looks at no CITATION.cff."""
    found = told(wishes=Wishes(creators=(SOMEBODY,)))
    deposit, cited = json.loads(zenodo(found)), yaml.safe_load(citation(found))
    assert deposit["title"] == cited["title"]
    assert str(deposit["version"]) == str(cited["version"])
    assert deposit["license"].lower() == cited["license"].lower()
    (creator,), (author,) = deposit["creators"], cited["authors"]
    assert creator["name"] == f"{author['family-names']}, {author['given-names']}"
    assert author["orcid"].endswith(creator["orcid"])
    assert not (ROOT / ".zenodo.json").exists()  # the program's own citation is CITATION.cff's


# Croissant and RO-Crate: their own validators are asked in test_validators.py


def test_croissant_lists_every_file_with_its_hash_and_every_column(two_runs: Desk) -> None:
    done = two_runs.bundle()
    found = json.loads((two_runs.out / "croissant.json").read_text())
    hashes = {each["contentUrl"]: each["sha256"] for each in found["distribution"]}
    listed = {file.path: file.sha256 for file in done.manifest.files}
    assert hashes.items() <= listed.items()
    assert {name for name in listed if name.startswith(("runs/", "report/"))} <= set(hashes)
    (records,) = found["recordSet"]
    columns = [field["source"]["extract"]["column"] for field in records["field"]]
    header = (two_runs.out / "report" / "results.csv").read_text().splitlines()[0]
    assert columns == header.split(",")
    types = {field["name"]: field["dataType"] for field in records["field"]}
    assert (types["batch_size"], types["energy_per_token_mj"], types["model"]) == (
        "sc:Integer",
        "sc:Float",
        "sc:Text",
    )


def test_the_crate_knows_its_files_its_people_and_how_each_run_was_made(two_runs: Desk) -> None:
    two_runs.bundle()
    graph = json.loads((two_runs.out / "ro-crate-metadata.json").read_text())["@graph"]
    by_id = {each["@id"]: each for each in graph}
    assert len(by_id) == len(graph)
    root = by_id["./"]
    assert all((two_runs.out / part["@id"]).is_file() for part in root["hasPart"])
    assert root["author"]["@id"] == "https://orcid.org/0000-0002-1825-0097"
    actions = {each["name"] for each in graph if each["@type"] == "CreateAction"}
    assert actions == {f"Run {ONE_BLOCK}", f"Run {THREE_BLOCKS}"}
    named = {ref["@id"] for each in graph for ref in _references(each)}
    loose = {name for name in named if name not in by_id and not name.startswith("https://w3id")}
    assert loose == set()


def _references(entity: Json) -> list[Json]:
    values = [
        v for value in entity.values() for v in (value if isinstance(value, list) else [value])
    ]
    return [value for value in values if isinstance(value, dict) and "@id" in value]


# The tree of MLCommons


WORDS = "unverified, not an MLPerf result, GPU-only NVML energy"


def test_the_tree_has_a_system_and_measurements_beside_each_energy_json(two_runs: Desk) -> None:
    two_runs.bundle(layout=Layout.MLCOMMONS)
    top = two_runs.out / "open" / "Doe-Jane"
    results = sorted(top.glob("results/*/*/*/energy.json"))
    assert len(results) == 6
    for energy in results:
        scenario = energy.parent
        assert scenario.name == "SingleStream"
        system = top / "systems" / f"{scenario.parents[1].name}.json"
        about_system = json.loads(system.read_text())
        assert set(about_system) == SYSTEM_KEYS
        assert (about_system["division"], about_system["submitter"]) == ("open", "Doe-Jane")
        assert {key for key, value in about_system.items() if not value} <= MAY_BE_EMPTY
        measured = json.loads((scenario / "measurements.json").read_text())
        assert all(measured[key] for key in MEASUREMENT_KEYS)
        assert measured["weight_data_types"] in energy.read_text()
        assert (scenario / "user.conf").read_text() and WORDS in (
            scenario / "README.md"
        ).read_text()
        evidence = top / "documentation" / "ecocompute" / "runs"
        assert energy.read_bytes() in [path.read_bytes() for path in evidence.rglob("energy.json")]


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("Zoë Doe", "Zo-Doe"),
        ("数据, 能", "submitter-[0-9a-f]{8}"),  # not "unnamed", which is what nobody is
        ("Power", "submitter-[0-9a-f]{8}"),  # a folder of that name is for meters at the wall
    ],
)
def test_a_submitter_of_any_name_has_a_folder_that_is_named_in_the_tree(
    desk: Desk, name: str, folder: str
) -> None:
    desk.bundle(layout=Layout.MLCOMMONS, wishes=Wishes(creators=(Creator(name=name),)))
    (top,) = (desk.out / "open").iterdir()
    assert re.fullmatch(folder, top.name)
    told = [json.loads(each.read_text()) for each in top.glob("systems/*.json")]
    assert {each["submitter"] for each in told} == {top.name}
    assert desk.codes() == set()


def test_the_words_stand_wherever_a_result_might_be_taken_for_another(two_runs: Desk) -> None:
    two_runs.bundle(layout=Layout.MLCOMMONS)
    places = [two_runs.out / "README.md", *two_runs.out.rglob("systems/*.json")]
    places += [*two_runs.out.rglob("measurements.json"), *(two_runs.out / "open").rglob("*.md")]
    assert len(places) > 15
    assert [path for path in places if WORDS not in path.read_text()] == []
    assert "Result not verified by MLCommons Association" in _flat(two_runs.out / "README.md")


def _flat(path: Path) -> str:
    return " ".join(path.read_text().split())


def test_there_is_never_a_power_folder(two_runs: Desk) -> None:
    two_runs.bundle(layout=Layout.MLCOMMONS)
    assert not [path for path in two_runs.out.rglob("*") if path.name in ("power", "spl.txt")]


#: Of mlcommons/inference, submission checker, August 2026.
SYSTEM_KEYS = {
    "accelerator_frequency",
    "accelerator_host_interconnect",
    "accelerator_interconnect",
    "accelerator_interconnect_topology",
    "accelerator_memory_capacity",
    "accelerator_memory_configuration",
    "accelerator_model_name",
    "accelerator_on-chip_memories",
    "accelerators_per_node",
    "cooling",
    "division",
    "framework",
    "host_memory_capacity",
    "host_memory_configuration",
    "host_network_card_count",
    "host_networking",
    "host_networking_topology",
    "host_processor_caches",
    "host_processor_core_count",
    "host_processor_frequency",
    "host_processor_interconnect",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_storage_capacity",
    "host_storage_type",
    "hw_notes",
    "number_of_nodes",
    "operating_system",
    "other_software_stack",
    "status",
    "submitter",
    "sw_notes",
    "system_name",
    "system_type",
    "system_type_detail",
}
MAY_BE_EMPTY = {
    "host_processor_frequency",
    "host_processor_caches",
    "host_processor_interconnect",
    "accelerator_frequency",
    "accelerator_interconnect_topology",
    "accelerator_on-chip_memories",
    "system_type_detail",
}
MEASUREMENT_KEYS = (
    "input_data_types",
    "retraining",
    "starting_weights_filename",
    "weight_data_types",
    "weight_transformations",
)
