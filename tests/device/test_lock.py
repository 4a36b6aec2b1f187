"""A board is held by one run at a time, whoever runs it; nothing stale is left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ecocompute_cube.device.lock import Claim, claim, lock_name
from ecocompute_cube.model.base import sha256_hex

from .conftest import ONE, ROOT

OTHER = ONE.replace("1", "2")


@pytest.fixture
def root() -> Iterator[Path]:
    """A machine whose /dev/shm anybody may write to, as the system's."""
    place = Path(tempfile.mkdtemp())  # other users may not look into pytest's own folder
    place.chmod(0o755)
    (place / "dev/shm").mkdir(parents=True)
    (place / "dev/shm").chmod(0o1777)
    yield place
    shutil.rmtree(place)


def held(root: Path, uuid: str = ONE) -> Claim:
    found = claim(uuid, root)
    assert found is not None
    assert found.trouble is None
    return found


def file(root: Path) -> Path:
    return root / "dev/shm" / lock_name(ONE)


def trouble(root: Path) -> str | None:
    found = claim(ONE, root)
    assert found is not None
    return found.trouble


def test_a_held_board_is_not_had_twice_and_others_are_free(root: Path) -> None:
    first = held(root)
    assert claim(ONE, root) is None
    held(root, OTHER).close()
    first.close()
    held(root).close()


def test_giving_back_twice_harms_nobody(root: Path) -> None:
    first = held(root)
    first.close()
    first.close()


def test_the_file_names_no_board_and_not_the_hash_in_documents(root: Path) -> None:
    held(root).close()
    (path,) = (root / "dev/shm").iterdir()
    assert re.fullmatch(r"ecocompute-[0-9a-f]{32}\.lock", path.name)
    assert sha256_hex(ONE.encode())[:32] not in path.name
    assert path.read_bytes() == b""


def test_a_run_that_is_killed_leaves_no_lock(root: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from ecocompute_cube.device.lock import claim\n"
        f"held = claim({ONE!r}, Path(sys.argv[1])); print(held.trouble, flush=True)\n"
        "sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(root)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "None\n"
        assert claim(ONE, root) is None
        process.kill()
        process.wait(timeout=20)
    held(root).close()


def test_what_a_run_starts_does_not_hold_its_lock(root: Path) -> None:
    first = held(root)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        first.close()
        held(root).close()
        child.kill()


def test_every_user_may_open_the_lock_whatever_the_umask(root: Path) -> None:
    before = os.umask(0o077)
    try:
        held(root).close()
    finally:
        assert os.umask(before) == 0o077
    assert stat.S_IMODE(file(root).stat().st_mode) == 0o666


def test_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    file(root).symlink_to(tmp_path / "victim")
    assert "cannot be opened: Too many levels of symbolic links" in (trouble(root) or "")
    assert not (tmp_path / "victim").exists()


def test_what_is_no_file_is_not_waited_for(root: Path) -> None:
    os.mkfifo(file(root))
    assert "not a file" in (trouble(root) or "")
    file(root).unlink()
    file(root).mkdir()
    assert "not a file" in (trouble(root) or "")


def test_a_machine_without_shared_memory_goes_unlocked_and_says_so(tmp_path: Path) -> None:
    assert trouble(tmp_path) == "there is no /dev/shm"


#: Asks as root, and then as a user without a name.
TWO_USERS = f"""
import json, os, sys
from pathlib import Path
from ecocompute_cube.device.lock import claim
root, answers = Path(sys.argv[1]), []
def told(found):
    return "busy" if found is None else found.trouble
first = claim({ONE!r}, root)
answers.append(told(first))
os.setegid(54321); os.seteuid(54321)
answers.append(told(claim({ONE!r}, root)))
first.close()
mine = claim({ONE!r}, root)
answers.append(told(mine))
os.seteuid(0)
answers.append(told(claim({ONE!r}, root)))
(root / "dev/shm").chmod(0o755)
os.seteuid(54321)
answers.append(told(claim({OTHER!r}, root)))
print(json.dumps(answers))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")
def test_two_users_share_a_lock_and_one_who_may_not_write_is_told(root: Path) -> None:
    command = [sys.executable, "-c", TWO_USERS, str(root)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    refused = "its lock in /dev/shm cannot be opened: Permission denied"
    assert json.loads(ended.stdout) == [None, "busy", None, "busy", refused]
