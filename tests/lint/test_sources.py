"""Which files are read, and that those which are not are named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ecocompute_cube.errors import UsageError
from ecocompute_cube.lint.settings import Settings
from ecocompute_cube.lint.sources import LARGEST, kind_of, telling

from .rig import EIGHT, codes, looked, put


def reasons(folder: Path, **asked: object) -> dict[str, str]:
    found = looked(folder, **asked)
    return {Path(each.path).name: each.reason for each in found.skipped}


def test_a_broken_file_is_named_and_its_neighbours_are_read(tmp_path: Path) -> None:
    put(tmp_path, app__py=EIGHT, broken__py=EIGHT + "def f(:\n")
    found = looked(tmp_path)
    assert codes(found) == ["ECO101"] and found.files == 2
    assert reasons(tmp_path) == {"broken.py": "no Python 3 that can be read: line 3"}


def test_python_2_is_named(tmp_path: Path) -> None:
    put(tmp_path, old__py=EIGHT + 'print "hello"\n')
    assert "no Python 3" in reasons(tmp_path)["old.py"]


def test_a_stated_encoding_is_read(tmp_path: Path) -> None:
    text = "# -*- coding: latin-1 -*-\n# é\n" + EIGHT
    put(tmp_path, latin__py=text.encode("latin-1"))
    found = looked(tmp_path)
    assert codes(found) == ["ECO101"] and found.findings[0].place.line == 4


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (EIGHT.encode() + b"# \xe9\n", "not in UTF-8"),
        (b"# -*- coding: klingon -*-\n" + EIGHT.encode(), "encoding"),
        (EIGHT.encode("utf-16"), "UTF-16"),
        (EIGHT.encode() + b"\0", "binary"),
    ],
)
def test_what_cannot_be_decoded_is_named(tmp_path: Path, data: bytes, reason: str) -> None:
    put(tmp_path, odd__py=data)
    assert reason in reasons(tmp_path)["odd.py"]


def test_a_byte_order_mark_and_carriage_returns_move_nothing(tmp_path: Path) -> None:
    put(tmp_path, dos__py=b"\xef\xbb\xbf" + EIGHT.replace("\n", "\r\n").encode())
    place = looked(tmp_path).findings[0].place
    assert (place.line, place.column) == (2, 28)


def test_columns_count_characters(tmp_path: Path) -> None:
    put(tmp_path, wide__py=EIGHT.replace("quant = ", 'é, quant = "ü", '))
    assert (
        looked(tmp_path).findings[0].place.column == len('é, quant = "ü", BitsAndBytesConfig(') + 1
    )


def test_a_large_file_is_named_unless_asked_for(tmp_path: Path) -> None:
    put(tmp_path, large__py=EIGHT + "# " + "x" * LARGEST)
    assert "larger than 1 MB" in reasons(tmp_path)["large.py"]
    assert codes(looked(tmp_path, largest=None)) == ["ECO101"]


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    put(tmp_path, a___app__py=EIGHT)
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "one.py").symlink_to(tmp_path / "two.py")
    (tmp_path / "two.py").symlink_to(tmp_path / "one.py")
    (tmp_path / "same.py").symlink_to(tmp_path / "a" / "app.py")
    found = reasons(tmp_path)
    assert found["up"] == "a link to a folder"
    assert "cannot be read" in found["one.py"]
    assert codes(looked(tmp_path)) == ["ECO101"]


def test_no_pipe_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert reasons(tmp_path) == {"pipe.py": "no regular file"}


def test_environments_and_excluded_paths_are_passed(tmp_path: Path) -> None:
    put(tmp_path, **{"node_modules___x__py": EIGHT, "tests___x__py": EIGHT, "app__py": EIGHT})
    ours = Settings(exclude=("**/tests",))
    assert len(looked(tmp_path, excluded=ours.excluded).findings) == 1


def test_a_path_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        looked(tmp_path / "nowhere")


def test_a_file_of_another_kind_is_named_where_it_was_asked_for(tmp_path: Path) -> None:
    put(tmp_path, picture__png=b"\x89PNG")
    assert reasons(tmp_path / "picture.png") == {
        "picture.png": "not a kind of file that is read here"
    }
    assert reasons(tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.py", "python"),
        ("A.IPYNB", "notebook"),
        ("Dockerfile", "shell"),
        ("Dockerfile.gpu", "shell"),
        ("serve.dockerfile", "shell"),
        ("x.yml", "yaml"),
        ("Modelfile", "modelfile"),
        ("notes.txt", None),
    ],
)
def test_a_name_tells_the_kind(name: str, kind: str | None) -> None:
    assert kind_of(Path(name)) == kind


def test_most_files_are_passed_by_a_look_at_their_bytes() -> None:
    assert not telling(b"import torch\nmodel.forward(x)\n", "python")
    assert not telling(b"def from_pretrained(): ...\n", "python")
    assert telling(EIGHT.encode(), "python")


def test_many_files_are_read_by_two_processes_alike(tmp_path: Path) -> None:
    for n in range(405):
        (tmp_path / f"f{n:03}.py").write_text(EIGHT if n % 100 == 0 else "x = 1\n")
    found = looked(tmp_path)
    assert found.files == 405 and len(found.findings) == 5
    assert [each.path for each in found.findings] == sorted(each.path for each in found.findings)
