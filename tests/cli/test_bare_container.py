"""A container as docker gives it without further options: small /dev/shm, a user id and no name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ecocompute_cube.model.base import present
from ecocompute_cube.model.journal import QualityScored, SessionOpened
from ecocompute_cube.model.journal_file import read_journal

from .rig import REAL, ROOT
from .tiny import write_tiny

#: Docker gives 64 MiB; with one page it is plain that nothing needs more. Then root is left.
BARE = (
    "unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
    'mount -t tmpfs -o size=4k tmpfs /dev/shm && exec unshare --user --map-user=54321 "$@"', "sh",
)  # fmt: skip
#: Two arms of the tiny model, and little of either.
PLAN = {
    "name": "bare",
    "models": ["tiny"],
    "arms": ["FP16", "NF4"],
    "workloads": [{"output_tokens": 12}],
    "protocol": {"mode": "precise"},
    "quality": {"max_windows": 1, "window_tokens": 32},
}


def bare(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BARE, *command],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_a_nameless_user_with_a_page_of_shared_memory_rehearses(tmp_path: Path) -> None:
    """CT-UID."""
    if bare("true").returncode != 0:
        pytest.skip("this machine makes no user namespaces with mounts")
    write_tiny(tmp_path / "tiny")
    plan = tmp_path / "plan.yaml"
    plan.write_text(json.dumps(PLAN))
    folders = (f"--models_dir={tmp_path / 'models'}", f"--parameters_file={plan}")
    start = (sys.executable, "-m", REAL)
    surroundings = {"HOME": "/proc/none", "OMP_NUM_THREADS": "1", "TMPDIR": tempfile.gettempdir()}
    fetched = bare(*start, "download", *folders, **surroundings)
    assert fetched.returncode == 0, fetched.stderr
    output = f"--output_dir={tmp_path / 'results'}"
    ended = bare(*start, "measure", *folders, output, "--rehearse", **surroundings)
    assert ended.returncode == 0, ended.stderr
    (journal,) = (tmp_path / "results").glob("*/journal.jsonl")
    facts = read_journal(journal).records
    assert len([fact for fact in facts if isinstance(fact, QualityScored)]) == 2
    (session,) = (fact for fact in facts if isinstance(fact, SessionOpened))
    assert present(session.isolation) and session.isolation.shm_mib == 0
    for log in journal.parent.glob("logs/*"):
        assert "Traceback" not in log.read_text(encoding="utf-8", errors="replace")
