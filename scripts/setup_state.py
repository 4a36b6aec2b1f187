"""What set-up remembers: the request, the state written into the environment, and the lock.

`busy` and `site_mtime_ns` are written before a stage begins. If a later call finds `busy` set, the
stage was cut off; if site-packages changed since, it was cut off while writing, and nothing in the
environment can be trusted.
"""

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

STATE_NAME = "ecocompute-setup.json"


class SetUpError(Exception):
    """What is wrong and what to do about it, in one sentence."""


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    root: Path
    venv: Path
    target: str
    python: Path
    insists_on_python: bool
    torch: str | None

    @property
    def venv_python(self) -> Path:
        return self.venv / "bin" / "python"

    def requirements(self, stage: str) -> Path:
        return self.root / "requirements" / f"{stage}.txt"


@dataclass(frozen=True)
class State:
    """What has been done, as written into the environment."""

    root: str
    python: str
    torch: str
    done: Mapping[str, str] = field(default_factory=dict)
    busy: str | None = None  # a stage that has begun and not ended
    site_mtime_ns: int = 0  # of site-packages when that stage began


def read_state(request: Request) -> State | None:
    path = request.venv / STATE_NAME
    if not path.exists():
        return None
    try:
        return State(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):  # cut off, or of another version: start from nothing
        return State(root="", python="", torch="")


def write_state(request: Request, state: State) -> State:
    path = request.venv / STATE_NAME
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(asdict(state), indent=1), encoding="utf-8")
    draft.replace(path)
    return state


@contextmanager
def alone(venv: Path) -> Iterator[None]:
    """Hold the lock beside the environment; a second set-up waits and says so."""
    with Path(f"{venv}.lock").open("a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("ecocompute: another make is setting up; waiting for it.", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def site_mtime_ns(request: Request) -> int:
    """Return when the list of installed packages last changed; pip cannot install without that."""
    return max((path.stat().st_mtime_ns for path in site_packages(request)), default=0)


def site_packages(request: Request) -> list[Path]:
    return list(request.venv.glob("lib/python3.*/site-packages"))
