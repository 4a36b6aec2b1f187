"""The site's files: what they hold, that they are alike each time, and what they never touch."""

from __future__ import annotations

import hashlib
import html
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from ecocompute_cube.analysis.curves import library
from ecocompute_cube.cli import main
from ecocompute_cube.errors import OutputError, UsageError
from ecocompute_cube.model.published import published
from ecocompute_cube.service.answers import ESTIMATE, OPTIMIZE
from ecocompute_cube.site import tested as models
from ecocompute_cube.site.build import PAGES, site_files
from ecocompute_cube.site.parameters import PARAMETERS
from ecocompute_cube.site.tables import tables
from ecocompute_cube.site.tradeoff import points
from ecocompute_cube.site.write import MANIFEST, write_site

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_BYTES = 1_600_000
Json: TypeAlias = Any


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return site_files()


def block(page: bytes, name: str) -> Json:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page.decode())
    assert found is not None
    return json.loads(found[1])


def loaded(files: Mapping[str, bytes], page: str) -> list[str]:
    """What the browser takes with a page."""
    text = files[page].decode()
    return re.findall(r'<(?:script|link)[^>]* (?:src|href)="([^"]+\.(?:js|css))"', text)


def test_every_page_has_its_place_and_says_what_it_is(files: dict[str, bytes]) -> None:
    titles = [page.title for page in PAGES]
    assert titles == [
        "Tested models",
        "Crossover",
        "Your model",
        "Optimize",
        "Run it yourself",
        "Accuracy × cost × carbon",
        "Method",
        "Datasets",
        "API",
    ]
    for page in PAGES:
        text = files[page.file].decode()
        assert f"<h1>{page.title}</h1>" in text
        assert text.count('aria-current="page"') == 1
        assert all(f'href="{other.file}"' in text for other in PAGES)


def test_what_a_page_loads_is_there_and_small(files: dict[str, bytes]) -> None:
    for page in PAGES:
        parts = loaded(files, page.file)
        assert "style.css" in parts and "page.js" in parts
        assert len(files[page.file]) + sum(len(files[part]) for part in parts) <= MOST_BYTES


def test_no_page_names_an_address_that_it_would_load(files: dict[str, bytes]) -> None:
    for page in PAGES:
        text = files[page.file].decode()
        assert not re.findall(r'(?:src|srcset|action|poster)="(?:https?:|/|\.\.)[^"]*"', text)
        assert all(not part.startswith(("http", "/", ".")) for part in loaded(files, page.file))
        assert "unsafe-eval" not in text and "default-src 'none'" in html.unescape(text)
        assert not re.search(r"<script(?! type=\"application/json\")(?![^>]* src=)", text)


def test_two_sites_are_the_same_bytes(files: dict[str, bytes]) -> None:
    assert site_files() == files


def test_the_server_s_paths_are_listed_where_there_is_a_server(files: dict[str, bytes]) -> None:
    served = site_files({"/v1/estimate": "does it save <energy>"})
    assert b"<code>/v1/estimate</code></td><td>does it save &lt;energy&gt;" in served["api.html"]
    assert b"Over HTTP" not in files["api.html"]


def test_the_api_page_knows_every_parameter_of_the_doors() -> None:
    for letter, names in (("e", ESTIMATE), ("o", OPTIMIZE)):
        assert {name for name, _, doors, _ in PARAMETERS if letter in doors} == {*names}


def test_the_tables_are_all_that_was_fitted(files: dict[str, bytes]) -> None:
    exported = block(files["model.html"], "tables")
    assert exported == json.loads(json.dumps(tables()))
    assert exported == block(files["optimize.html"], "tables")
    assert exported == json.loads(files["data/estimator.json"])
    assert len(exported["ratios"]) == len(library().ratios)


def test_each_session_of_the_curves_is_among_the_tested_models() -> None:
    shown = {
        (each.gpu, each.model, session["session"], session["arm"], session["kj"])
        for each in models.tested()
        for session in each.sessions
    }
    for (gpu, precision, runtime), curve in library().ratios.items():
        for anchor in curve.anchors:
            kj = float(f"{anchor.mj_per_token:.4g}")
            arm = f"{precision} {runtime}"
            assert (gpu, anchor.model, anchor.session, arm, kj) in shown


def test_a_brief_stands_alone(files: dict[str, bytes]) -> None:
    brief = block(files["index.html"], "tested")[0]["brief"]
    assert "NVIDIA A800" in brief and "10.5281/zenodo." in brief and "n = 1" in brief


def test_what_no_arm_beats_in_both_is_marked() -> None:
    found = points()
    assert len(found) > 30
    for point in found:
        rivals = [
            p for p in found if (p.model, p.session) == (point.model, point.session) and p != point
        ]
        beaten = any(p.change < point.change and p.delta < point.delta for p in rivals)
        beaten |= point.change > 0 and point.delta > 0  # FP16 beats it
        assert not (beaten and point.best)
    repeats = {row.id for row in published() if "replicate" in row.remarks}
    assert repeats and len(found) < len(published()) - len(repeats)


def test_the_index_of_the_data_has_their_hashes(files: dict[str, bytes]) -> None:
    for each in json.loads(files["data/index.json"])["files"]:
        content = files[f"data/{each['file']}"]
        assert each["sha256"] == hashlib.sha256(content).hexdigest()
        assert each["bytes"] == len(content)
        assert each["sha256"] in files["datasets.html"].decode()


def test_the_command_writes_a_site_and_replaces_an_older_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "site"
    assert main(["site", "--out", str(out)]) == 0
    assert "wrote index.html" in capsys.readouterr().err
    (out / "model.html").write_text("old")
    assert main(["site", "--out", str(out)]) == 0
    assert (out / "model.html").read_text() != "old"
    names = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert names == {*json.loads((out / MANIFEST).read_text())["files"], MANIFEST}


def test_a_folder_of_others_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "index.html").write_text("mine")
    assert main(["site", "--out", str(tmp_path)]) == 2
    assert "no site of ours" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    with pytest.raises(UsageError):
        write_site(tmp_path)


def test_a_place_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "site").write_text("")
    with pytest.raises(OutputError, match="site"):
        write_site(tmp_path / "site")
