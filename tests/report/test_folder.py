"""One report in its folder, whole, wherever the program is stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ecocompute_cube.errors import OutputError
from ecocompute_cube.report.folder import put_together

NAMES = ("figures/a.svg", "results.csv", "report.html", "report.json")


def files(content: bytes) -> dict[str, bytes]:
    return dict.fromkeys(NAMES, content)


class Stopped(Mapping[str, bytes]):
    """Files whose names are asked for a third time when they are renamed; then it is Ctrl-C."""

    def __init__(self, after: int) -> None:
        self._files = files(b"new")
        self._after = after
        self._walks = 0

    def __getitem__(self, name: str) -> bytes:
        return self._files[name]

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[str]:
        self._walks += 1
        renaming = self._walks == 3
        for place, name in enumerate(self._files):
            if renaming and place == self._after:
                raise KeyboardInterrupt
            yield name


def test_a_report_takes_the_place_of_an_earlier_one_and_what_is_gone_goes(tmp_path: Path) -> None:
    put_together(tmp_path, {**files(b"old"), "figures/b.svg": b"old"}, ())
    put_together(tmp_path, files(b"new"), ["figures/b.svg", "figures/never.svg"])
    found = {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*.*")}
    assert found == files(b"new")


@pytest.mark.parametrize("after", range(len(NAMES)))
def test_a_stop_between_two_names_leaves_no_file_that_speaks_for_two_reports(
    tmp_path: Path, after: int
) -> None:
    put_together(tmp_path, files(b"old"), ())
    with pytest.raises(KeyboardInterrupt):
        put_together(tmp_path, Stopped(after), ())
    assert not (tmp_path / "report.json").exists()
    assert {p.name for p in tmp_path.iterdir()} == {"figures", "results.csv", "report.html"}
    put_together(tmp_path, files(b"new"), ())
    assert {name: (tmp_path / name).read_bytes() for name in NAMES} == files(b"new")


def test_what_cannot_be_written_leaves_the_earlier_report_whole(tmp_path: Path) -> None:
    put_together(tmp_path, files(b"old"), ())
    (tmp_path / "results.csv").unlink()
    (tmp_path / "results.csv").mkdir()
    with pytest.raises(OutputError, match=r"results\.csv"):
        put_together(tmp_path, files(b"new"), ())
    assert (tmp_path / "report.json").read_bytes() == b"old"
