"""The packaged table of published measurements is what the published files give."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from ecocompute_cube.model.published import TABLE, published

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "tests" / "fixtures" / "published"
PAGES: Final = (TABLE.with_name("SOURCES.md"), SOURCES / "SOURCES.md")


def check(sources: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/published.py", str(sources), "--check"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_files_give_the_committed_table() -> None:
    ended = check(SOURCES)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


def test_a_table_that_differs_is_told(tmp_path: Path) -> None:
    copy = shutil.copytree(SOURCES, tmp_path / "published")
    file = copy / "quant-energy" / "rtx5090_bnb_2026-09-20.csv"
    file.write_bytes(file.read_bytes().replace(b"1572.156", b"1572.157"))
    ended = check(copy)
    assert (ended.returncode, ended.stdout) == (1, "measured.csv is not what the files give\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.parent.name)
def test_every_file_has_its_place_among_the_sources(page: Path) -> None:
    told = page.read_text(encoding="utf-8")
    files = {row.file.partition(": ")[2] for row in published()}
    assert len(files) == 11 and {file for file in files if file not in told} == set()


def test_every_remark_is_explained() -> None:
    told = set(re.findall(r"^\| `([a-z_]+)` \|", PAGES[0].read_text(encoding="utf-8"), re.M))
    used = {remark for row in published() for remark in row.remarks}
    assert used and used - told == set()
