"""What ``bundle --check`` finds, also where every checksum was made to fit."""

from __future__ import annotations

import json
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ecocompute_cube.archive import check as checking
from ecocompute_cube.archive.about import Wishes
from ecocompute_cube.archive.check import as_text
from ecocompute_cube.errors import DocumentInvalid, EcoError, UsageError
from ecocompute_cube.model.bundle import MANIFEST_NAME, Layout
from ecocompute_cube.model.journal_file import JOURNAL_NAME

from .rig import RECORDED, ROOT, Desk, reseal

Json = dict[str, Any]
Harm = Callable[[Path], object]


def one(folder: Path, pattern: str) -> Path:
    return next(iter(sorted(folder.rglob(pattern))))


def in_json(path: Path, change: Callable[[Json], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=1, sort_keys=True))


def append(path: Path, text: str) -> None:
    path.write_bytes(path.read_bytes() + text.encode())


HARMS: dict[str, tuple[Harm, str]] = {
    "a trace is another": (lambda b: append(one(b, "*.csv.gz"), "x"), "checksum"),
    "a page was edited": (lambda b: append(one(b, "report.html"), "x"), "checksum"),
    "the list was edited": (lambda b: append(b / "SHA256SUMS", "x"), "checksum"),
    "a journal is gone": (lambda b: one(b, JOURNAL_NAME).unlink(), "missing_file"),
    "a schema is gone": (lambda b: one(b, "energy.schema.json").unlink(), "missing_file"),
    "the list is gone": (lambda b: (b / "SHA256SUMS").unlink(), "missing_file"),
    "a file was added": (lambda b: (b / "virus.exe").write_bytes(b"x"), "foreign_file"),
    "a link was added": (lambda b: (b / "link").symlink_to("/etc/passwd"), "link"),
    "a file is a link": (
        lambda b: (b / "README.md").rename(b / "copy").with_name("README.md").symlink_to("copy"),
        "link",
    ),
    "a strange name": (lambda b: (b / "a b").write_bytes(b"x"), "unsafe_name"),
    "a power folder": (
        lambda b: (b / "report").rename(b / "power"),
        "power_folder",
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_was_done_to_a_bundle_is_found(bundled: Desk, harm: str) -> None:
    do, code = HARMS[harm]
    do(bundled.out)
    assert code in bundled.codes()


def joule(document: Json) -> None:
    document["results"]["energy_per_token_mj"] *= 0.9
    document["results"]["total_energy_joules"] *= 0.9


FORGERIES: dict[str, tuple[Harm, str]] = {
    "a joule less": (lambda b: in_json(one(b, "energy.json"), joule), "figures"),
    "a cell of the table": (
        lambda b: (b / "report" / "results.csv").write_text(
            (b / "report" / "results.csv").read_text().replace(",random,", ",original,")
        ),
        "figures",
    ),
    "a document that is none": (
        lambda b: in_json(one(b, "energy.json"), lambda d: d.pop("results")),
        "document",
    ),
    "an arm that is left out": (lambda b: one(b, "energy.json").unlink(), "missing_file"),
    "a trace that is left out": (lambda b: one(b, "*.csv.gz").unlink(), "missing_file"),
    "a trace nobody recorded": (
        lambda b: shutil.copy(one(b, "*.csv.gz"), one(b, "*.csv.gz").with_name("z.csv.gz")),
        "foreign_file",
    ),
    "a journal cut short": (
        lambda b: one(b, JOURNAL_NAME).write_bytes(
            b"".join(one(b, JOURNAL_NAME).read_bytes().splitlines(keepends=True)[:-3])
        ),
        "journal",
    ),
    "a journal cut within a line": (
        lambda b: one(b, JOURNAL_NAME).write_bytes(one(b, JOURNAL_NAME).read_bytes()[:-3]),
        "journal",
    ),
    "a journal with a line changed": (
        lambda b: one(b, JOURNAL_NAME).write_bytes(
            one(b, JOURNAL_NAME).read_bytes().replace(b'"NVIDIA H200"', b'"NVIDIA H100"')
        ),
        "journal",
    ),
    "a page that says otherwise": (lambda b: append(b / "README.md", "Best card!"), "description"),
    "a citation of somebody else": (lambda b: append(b / "CITATION.cff", "x: y"), "description"),
    "a description that cannot be read": (
        lambda b: (b / ".zenodo.json").write_text('{"a": NaN}'),
        "description",
    ),
    "another environment": (
        lambda b: append(b / "environment.json", " "),
        "description",
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_with_every_checksum_made_to_fit_is_found(bundled: Desk, forgery: str) -> None:
    do, code = FORGERIES[forgery]
    do(bundled.out)
    reseal(bundled.out)
    assert code in bundled.codes()


def about(manifest: Json, **changes: str) -> None:
    manifest["about"] |= changes


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda m: about(m, title="The best model"), "description"),
        (lambda m: m["runs"][0].update(weights=["original"]), "journal"),
        (lambda m: m["runs"][0].update(boards=["NVIDIA H300"]), "journal"),
        (lambda m: m["runs"].clear(), "journal"),
    ],
)
def test_a_manifest_that_lies_is_found(
    bundled: Desk, change: Callable[[Json], None], code: str
) -> None:
    reseal(bundled.out, change)
    assert code in bundled.codes()


@pytest.mark.parametrize("layout", list(Layout))
def test_resealing_alone_is_no_harm(desk: Desk, layout: Layout) -> None:
    """So that the tests above fail for what they do, and not for how they do it."""
    desk.bundle(layout=layout)
    reseal(desk.out)
    assert desk.codes() == set()


def test_the_tree_of_mlcommons_holds_what_the_journals_give(desk: Desk) -> None:
    desk.bundle(layout=Layout.MLCOMMONS)
    in_json(one(desk.out, "SingleStream/energy.json"), joule)
    reseal(desk.out)
    assert desk.codes() == {"description"}


def test_a_bundle_of_another_version_is_computed_again_as_far_as_it_can_be(bundled: Desk) -> None:
    def by_another(manifest: Json) -> None:
        manifest["tool_version"] = "99.0"

    (bundled.out / "README.md").write_text("As version 99 writes it.")
    reseal(bundled.out, by_another)
    checked = bundled.check()
    assert checked.troubles == ()
    assert [each.code for each in checked.warnings] == ["not_computed_again"]
    in_json(one(bundled.out, "energy.json"), joule)
    reseal(bundled.out, by_another)
    assert bundled.codes() == {"figures"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"files": [NaN]}', "NaN"),
        ("{}", "Field required"),
        ("[", "not valid JSON"),
        ("", "empty"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_refused(bundled: Desk, text: str, words: str) -> None:
    (bundled.out / MANIFEST_NAME).write_text(text)
    with pytest.raises(DocumentInvalid, match=words):
        bundled.check()


@pytest.mark.parametrize(
    "path", ["../README.md", "/etc/passwd", "a//b", ".hidden", "a/../b", "a\n"]
)
def test_a_manifest_that_lists_unsafe_paths_is_refused(bundled: Desk, path: str) -> None:
    in_json(bundled.out / MANIFEST_NAME, lambda m: m["files"][0].update(path=path))
    with pytest.raises(DocumentInvalid, match=r"files\.0\.path"):
        bundled.check()


def test_what_is_no_bundle_is_told(tmp_path: Path, desk: Desk) -> None:
    for place in (tmp_path / "nowhere", desk.results):
        with pytest.raises(UsageError):
            desk.check(place)


def test_a_placeholder_in_place_of_a_creator_is_warned_of(desk: Desk) -> None:
    desk.bundle(wishes=Wishes())
    checked = desk.check()
    assert checked.exit_status == 0
    assert [each.code for each in checked.warnings] == ["creator_unnamed"]
    assert "--creator" in as_text(checked)


def test_whoever_signed_is_asked_for(bundled: Desk) -> None:
    signers = bundled.folder / "signers"
    signers.write_text("")
    codes = {each.code for each in bundled.check(signers=signers).troubles}
    assert codes == {"signature"}


def test_a_name_that_would_move_the_cursor_is_spelt_out(bundled: Desk) -> None:
    (bundled.out / "\x1b[2J").write_text("x")
    assert "\x1b" not in as_text(bundled.check())


@pytest.mark.parametrize("shelf", ["superseded", "container"])
def test_every_recorded_run_can_be_archived(tmp_path: Path, shelf: str) -> None:
    """Also those that no protocol would take: a bundle is about its evidence."""
    desk = Desk(tmp_path)
    desk.results = RECORDED.parent / shelf
    desk.bundle()
    assert desk.codes() == set()


# Zip files


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("around", ["bundle", "Mein Bündel", ""])
def test_a_round_trip_through_zip_changes_nothing(desk: Desk, layout: Layout, around: str) -> None:
    """With a folder's name around its files, as many programs put it there, and without."""
    desk.out = desk.folder / (around or "bundle")
    desk.bundle(layout=layout)
    top = (desk.folder, around) if around else (desk.out, ".")
    packed = Path(shutil.make_archive(str(desk.folder / "packed"), "zip", *top))
    assert desk.codes(packed) == set()
    shutil.unpack_archive(packed, desk.folder / "unpacked")
    assert desk.codes(desk.folder / "unpacked") == set()


def test_our_own_zip_unpacks_to_the_folder_that_would_have_been_written(desk: Desk) -> None:
    desk.bundle()
    desk.bundle(desk.folder / "b.zip")
    shutil.unpack_archive(desk.folder / "b.zip", desk.folder / "unpacked")
    same = zipfile.ZipFile(desk.folder / "b.zip")
    assert sorted(same.namelist()) == sorted(
        path.relative_to(desk.out).as_posix() for path in desk.out.rglob("*") if path.is_file()
    )
    assert same.testzip() is None
    assert desk.codes(desk.folder / "unpacked") == set()


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/evil",
        "a/../../evil",
        "C:\\evil",
        "a\\..\\evil",
        "a\x00b",
        "ü",
        "a b",
        "a/" * 99 + "evil",
    ],
)
def test_a_zip_file_with_a_name_that_leads_out_is_refused(desk: Desk, name: str) -> None:
    place = desk.folder / "b.zip"
    desk.bundle(place)
    with zipfile.ZipFile(place, "a") as archive:
        archive.writestr(zipfile.ZipInfo("x"), b"x")
        archive.filelist[-1].filename = name
    with pytest.raises(DocumentInvalid):
        desk.check(place)
    assert not list(desk.folder.rglob("evil"))


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b/c", "a"), ("A", "a/b")])
def test_a_zip_file_with_a_file_that_is_a_folder_too_is_refused(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    place = tmp_path / "odd.zip"
    with zipfile.ZipFile(place, "w") as archive:
        for name in (*names, "manifest.json"):
            archive.writestr(name, b"{}")
    with pytest.raises(DocumentInvalid, match="file and folder in one"):
        checking.check(place, None, lambda _: None)


def test_a_folder_deeper_than_any_bundle_is_told_and_not_walked(bundled: Desk) -> None:
    (bundled.out / "runs" / "/".join("a" * 200)).mkdir(parents=True)
    assert bundled.codes() == {"link"}
    shutil.rmtree(bundled.out / "runs" / "a")


def test_what_a_manifest_says_reaches_no_terminal_as_it_is(bundled: Desk) -> None:
    def add(manifest: Json) -> None:
        manifest["missing"] = [{"what": "x\x1b[2J\nall as it should be", "why": "y\u202e"}]

    reseal(bundled.out, add)
    told = as_text(bundled.check())
    assert "known_missing" in told and "\\x1b[2J" in told
    assert not set(told) & {"\x1b", "\u202e"} and "\nall as" not in told


def test_a_zip_file_with_a_link_is_refused(desk: Desk) -> None:
    place = desk.folder / "b.zip"
    desk.bundle(place)
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(place, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(DocumentInvalid, match="no plain file"):
        desk.check(place)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_file_with_two_files_of_one_name_is_refused(desk: Desk) -> None:
    place = desk.folder / "b.zip"
    desk.bundle(place)
    with zipfile.ZipFile(place, "a") as archive:
        archive.writestr("README.md", b"another")
    with pytest.raises(DocumentInvalid, match="twice"):
        desk.check(place)


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_zip_file_that_is_cut_is_told_and_never_called_whole(desk: Desk, share: float) -> None:
    place = desk.folder / "whole.zip"
    if not place.exists():
        desk.bundle(place)
    data = place.read_bytes()
    cut = desk.folder / "cut.zip"
    cut.write_bytes(data[: int(share * len(data))])
    with pytest.raises(EcoError):
        desk.check(cut)


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(share=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_zip_file_with_one_byte_changed_is_never_worse_than_told(
    desk: Desk, share: float, flip: int
) -> None:
    """Times and comments of a zip file are no part of the bundle: those may change."""
    place = desk.folder / "whole.zip"
    if not place.exists():
        desk.bundle(place)
    data = bytearray(place.read_bytes())
    data[int(share * len(data))] ^= flip
    (desk.folder / "changed.zip").write_bytes(data)
    try:
        checked = desk.check(desk.folder / "changed.zip")
    except EcoError:
        return
    assert checked.manifest == desk.check(place).manifest


# Words


def test_every_code_is_explained() -> None:
    page = (ROOT / "docs" / "bundle.md").read_text()
    codes = get_args(checking.Code)
    assert [code for code in codes if f"`{code}`" not in page] == []
