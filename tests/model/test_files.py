"""A file is written whole or not at all."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from ecocompute_cube.errors import DiskFull, OutputError
from ecocompute_cube.model.files import sync_folder, write_whole


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_whole(path, b"old")
    before = path.stat().st_ino
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_ino != before  # a reader of the old one keeps the old one
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def synced(monkeypatch: pytest.MonkeyPatch, path: Path) -> list[tuple[bool, bytes | None]]:
    """Whether a folder is forced to disk, and what stands at ``path`` then, once a call."""
    calls = []

    def look(descriptor: int) -> None:
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if folder:
            assert os.path.samestat(os.fstat(descriptor), path.parent.stat())
        calls.append((folder, path.read_bytes() if path.exists() else None))

    monkeypatch.setattr(os, "fsync", look)
    return calls


def test_the_file_is_on_the_disk_before_its_name_and_its_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.json"
    calls = synced(monkeypatch, path)
    write_whole(path, b"new")
    assert calls == [(False, None), (True, b"new")]


def test_a_folder_that_cannot_be_forced_to_disk_is_an_output_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OutputError, match=r"write report\.json"):
        write_whole(tmp_path / "report.json", b"new")
    assert (tmp_path / "report.json").read_bytes() == b"new"  # whole, and no other file
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_a_folder_is_let_go_of_after_it_was_forced_to_disk(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    sync_folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync_folder(tmp_path / "nowhere")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_follow_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "file", b"x")
        assert os.umask(mask) == mask  # and the mask is as it was
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_a_write_that_fails_for_any_reason_leaves_the_old_file_and_nothing_else(
    tmp_path: Path,
) -> None:
    path = tmp_path / "report.json"
    write_whole(path, b"old")
    with pytest.raises(TypeError):
        write_whole(path, cast("bytes", 5))
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_a_folder_in_the_way_is_an_output_error_and_stays(tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()
    with pytest.raises(OutputError, match=r"write report\.json"):
        write_whole(tmp_path / "report.json", b"x")
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_a_missing_folder_is_an_output_error_that_names_no_path(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        write_whole(tmp_path / "nowhere" / "report.json", b"x")
    assert str(tmp_path) not in str(caught.value)


FULL = """
import resource, sys
from pathlib import Path
from ecocompute_cube.errors import EcoError
from ecocompute_cube.model.files import write_whole
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_whole(Path(sys.argv[1]), b"x" * 5000)
except EcoError as error:
    print(error.code)
    raise SystemExit(error.exit_status)
"""


def test_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    """OUT-ENOSPC."""
    path = tmp_path / "report.json"
    write_whole(path, b"old")
    ended = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout.strip()) == (DiskFull.exit_status, DiskFull.code)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


KILLED = """
import resource, signal, sys
from pathlib import Path
from ecocompute_cube.model.files import write_whole
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # the kernel kills at byte 1000
write_whole(Path(sys.argv[1]), b"x" * 5000)
"""


def test_a_process_killed_while_it_writes_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_whole(path, b"old")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert ended.returncode == -signal.SIGXFSZ
    assert path.read_bytes() == b"old"
