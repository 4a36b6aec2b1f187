"""What others' programs say of a bundle: ``make test-archive`` fetches and asks them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from ecocompute_cube.archive.about import Wishes
from ecocompute_cube.model.bundle import Creator, Layout

from ..report.stage import HOSTILE
from .rig import ONE_BLOCK, ROOT, SOMEBODY, THREE_BLOCKS, Desk

pytestmark = pytest.mark.archive

TOOLS: Final = Path(os.environ.get("ECO_ARCHIVE_TOOLS") or ROOT / ".venv-archive" / "bin")
CONTEXT: Final = "https://w3id.org/ro/crate/1.1/context"

#: The validator wants the JSON-LD context from the web; rocrate ships a copy, of a later version
#: that has all of the same terms.
FILL: Final = """
import io, pathlib, sys
import requests, requests_cache, rocrate, urllib3
body = (pathlib.Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld").read_bytes()
session = requests_cache.CachedSession(sys.argv[1], backend="sqlite", expire_after=-1)
response = requests.Response()
response.status_code, response.url, response._content = 200, sys.argv[2], body
response.headers["Content-Type"] = "application/ld+json"
response.request = session.prepare_request(requests.Request("GET", sys.argv[2]))
response.raw = urllib3.HTTPResponse(io.BytesIO(body), response.headers, preload_content=False)
session.cache.save_response(response)
"""


def tool(name: str, *words: str | Path, cwd: Path | None = None) -> str:
    """Run a tool of theirs that finds nothing wrong; what it said."""
    path = TOOLS / name
    if not path.exists():
        if os.environ.get("ECO_REQUIRE_ARCHIVE"):
            pytest.fail(f"There is no {path}: sh scripts/archive_tools.sh")
        pytest.skip(f"There is no {path}: sh scripts/archive_tools.sh")
    done = subprocess.run(
        [path, *words], cwd=cwd, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(params=["standard", "mlcommons", "hostile"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    """A bundle of two runs; once with names that would do something."""
    desk = Desk(tmp_path, ONE_BLOCK, THREE_BLOCKS)
    if request.param == "hostile":
        creator = Creator(name=ascii(HOSTILE), affiliation=ascii(HOSTILE))
        desk.bundle(wishes=Wishes(title=HOSTILE, creators=(creator, SOMEBODY)))
    else:
        desk.bundle(layout=Layout(request.param))
    return desk


def test_mlcroissant_validates_and_loads_it(made: Desk) -> None:
    tool("mlcroissant", "validate", "--jsonld", "croissant.json", cwd=made.out)
    words = ("load", "--jsonld", "croissant.json", "--record_set", "results", "--num_records", "9")
    told = tool("mlcroissant", *words, cwd=made.out)
    assert told.count("'results/run_id'") == 6
    assert "'results/energy_per_token_mj': 2705." in told


def test_mlcroissant_sees_that_the_table_was_changed(made: Desk) -> None:
    table = next(made.out.rglob("results.csv"))
    table.write_text(table.read_text() + "x\n")
    words = ("load", "--jsonld", "croissant.json", "--record_set", "results")
    with pytest.raises(AssertionError, match="not identical"):
        tool("mlcroissant", *words, cwd=made.out)


@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_the_validator_of_ro_crate_finds_nothing_that_is_required(made: Desk, name: str) -> None:
    place = made.folder / name
    if name.endswith(".zip"):
        layout = made.check().manifest.layout
        made.bundle(place, layout=layout)
    cache = made.folder / "cache"
    tool("python", "-c", FILL, cache, CONTEXT)
    words = ("-y", "validate", "--offline", "--cache-path", cache, "--no-paging", place)
    assert "valid ro-crate-1.1" in tool("rocrate-validator", *words)


def test_rocrate_reads_it(made: Desk) -> None:
    code = "import sys, rocrate.rocrate as r; print(len(r.ROCrate(sys.argv[1]).data_entities))"
    files = len(made.check().manifest.files)
    assert files - 7 <= int(tool("python", "-c", code, made.out)) <= files


def test_cffconvert_finds_a_citation_of_its_format(made: Desk) -> None:
    assert "valid according to schema version 1.2.0" in tool(
        "cffconvert", "--validate", cwd=made.out
    )
    assert "Doe" in tool("cffconvert", "--format", "bibtex", cwd=made.out)


def test_the_tools_are_those_that_the_page_names() -> None:
    page = (ROOT / "docs" / "bundle.md").read_text()
    pins = (ROOT / "requirements" / "archive-tools.txt").read_text()
    for name in ("mlcroissant", "roc-validator", "cffconvert"):
        version = pins.partition(f"\n{name}==")[2].split()[0]
        assert f"{name} {version}" in page, (name, version)
