"""One report in its folder, whole, wherever the program is stopped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ecocompute_cube.errors import OutputError
from ecocompute_cube.report.folder import UNFINISHED, put_together

REPORT_NAME = "report.json"
NAMES = ("figures/a.svg", "results.csv", "report.html", REPORT_NAME)
STALE = "figures/why.svg"


def files(content: bytes) -> dict[str, bytes]:
    return dict.fromkeys(NAMES, content)


def test_a_report_takes_the_place_of_an_earlier_one_and_what_is_gone_goes(tmp_path: Path) -> None:
    put_together(tmp_path, {**files(b"old"), "figures/b.svg": b"old"}, ())
    put_together(tmp_path, files(b"new"), ["figures/b.svg", "figures/never.svg"])
    found = {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*.*")}
    assert found == files(b"new")


def test_a_rename_that_fails_leaves_the_note(tmp_path: Path) -> None:
    old(tmp_path)
    (tmp_path / STALE).unlink()
    (tmp_path / STALE).mkdir()  # cannot be taken away as a file
    with pytest.raises(OutputError, match="replace the old report"):
        put_together(tmp_path, files(b"new"), [STALE])
    assert (tmp_path / UNFINISHED).exists() and not (tmp_path / REPORT_NAME).exists()


def test_what_cannot_be_written_leaves_the_earlier_report_whole(tmp_path: Path) -> None:
    put_together(tmp_path, files(b"old"), ())
    (tmp_path / "results.csv").unlink()
    (tmp_path / "results.csv").mkdir()
    with pytest.raises(OutputError, match=r"results\.csv"):
        put_together(tmp_path, files(b"new"), ())
    assert (tmp_path / "report.json").read_bytes() == b"old"


#: A process that ends itself, as a kill would, before the n-th change of a name in the folder.
KILLED = """
import os, sys
from pathlib import Path
from ecocompute_cube.report.folder import put_together
folder, number = Path(sys.argv[1]), int(sys.argv[2])
left = [number]
def hook(event, args):
    if event not in ("os.rename", "os.remove"):
        return
    target = str(args[1] if event == "os.rename" else args[0])
    if Path(target).parent in (folder, folder / "figures"):
        left[0] -= 1
        if left[0] == 0:
            os._exit(9)
sys.addaudithook(hook)
put_together(folder, {name: b"new" for name in sys.argv[3:]}, ["figures/why.svg"])
"""


def old(folder: Path) -> None:
    for name in (*NAMES, STALE):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"old")


def held(folder: Path) -> dict[str, bytes]:
    return {
        name: (folder / name).read_bytes() for name in (*NAMES, STALE) if (folder / name).exists()
    }


def killed(folder: Path, number: int) -> int:
    command = [sys.executable, "-c", KILLED, str(folder), str(number), *NAMES]
    return subprocess.run(command, check=False, capture_output=True).returncode


#: The note, report.json going, three pages, the stale figure, report.json coming, the note going.
CHANGES = 8


@pytest.mark.parametrize("number", range(1, CHANGES + 1))
def test_killed_before_any_name_it_is_the_old_report_the_new_one_or_says_so(
    tmp_path: Path, number: int
) -> None:
    old(tmp_path)
    assert killed(tmp_path, number) == 9
    found = held(tmp_path)
    if set(found.values()) == {b"old"} and REPORT_NAME in found:
        assert set(found) == {*NAMES, STALE}
    elif REPORT_NAME in found:
        assert found == files(b"new")
    else:
        assert "may be of two reports" in (tmp_path / UNFINISHED).read_text()
    put_together(tmp_path, files(b"newer"), [STALE])
    assert held(tmp_path) == files(b"newer")
    assert {path.name for path in tmp_path.iterdir()} == {
        "figures",
        "report.html",
        "report.json",
        "results.csv",
    }


def test_these_are_all_the_names_that_change(tmp_path: Path) -> None:
    old(tmp_path)
    assert killed(tmp_path, CHANGES + 1) == 0
    assert held(tmp_path) == files(b"new")
