"""A runtime that does what a test wrote down, in the arm's own process.

The folder named by ``STAGE`` holds one file for each thing to do: ``FP16.load.hang`` hangs while
FP16 loads. A hanging arm writes its process id to ``FP16.load.hung``; without the first file the
next run of the same command goes through.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ecocompute_cube.backends.base import Kernels, Profile
from ecocompute_cube.backends.fake import FakeSession
from ecocompute_cube.model.base import Absent

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecocompute_cube.backends.base import Scores, Session
    from ecocompute_cube.model.journal import Certificate
    from ecocompute_cube.model.manifest import Manifest
    from ecocompute_cube.model.plan import Arm

TOKEN_S = 0.0002


def stage() -> Path:
    return Path(os.environ["STAGE"])


def act(precision: str, point: str) -> None:
    """Do what is written down for this moment."""
    for action, do in ACTIONS.items():
        if (stage() / f"{precision}.{point}.{action}").exists():
            do(f"{precision}.{point}")


def _hang(name: str) -> None:
    (stage() / f".{name}").write_text(str(os.getpid()))
    (stage() / f".{name}").rename(stage() / f"{name}.hung")
    while True:
        signal.pause()


def _die(name: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _leave(name: str) -> None:
    raise SystemExit(3)


def _run_out(name: str) -> None:
    raise MemoryError


def _fill(name: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as a print into a full log does


def _break(name: str) -> None:
    raise RuntimeError("the library broke\nin two lines")


def _chatter(name: str) -> None:
    print('{"fact": null}')  # a library's own print
    os.write(1, b"\xff\xfe from C\n")
    subprocess.run(["echo", "from a process of its own"], check=True)
    read = subprocess.run(["cat"], stdout=subprocess.PIPE, check=True)  # would eat the orders
    sys.stdout.write(f"read {len(read.stdout)} bytes\n")


def _import(name: str) -> None:
    raise ImportError("libwhatever.so.12: cannot open shared object file")


def _spawn(name: str) -> None:
    process = subprocess.Popen(["sleep", "600"])
    (stage() / f"{name}.spawned").write_text(str(process.pid))


def _garble(name: str, text: bytes = b"junk\n") -> None:
    """Write into every pipe there is, the one for answers among them."""
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.readlink(entry).startswith("pipe:"):
                os.write(int(entry.name), text)


def _garble_half(name: str) -> None:
    _garble(name, b'{"fact": {"kind": "rea')


def _vanish(name: str) -> None:
    (stage() / "gone").touch()  # what the stand-in for the driver's library may look for


def _complain(name: str) -> None:
    sys.stderr.write("an unimportant line\nCUDA is\t\x1b[31mnot here.\n")
    sys.stderr.flush()


ACTIONS: dict[str, Callable[[str], None]] = {
    "spawn": _spawn,
    "complain": _complain,
    "vanish": _vanish,
    "garble": _garble,
    "garble-half": _garble_half,
    "chatter": _chatter,
    "hang": _hang,
    "die": _die,
    "leave": _leave,
    "run-out": _run_out,
    "fill": _fill,
    "break": _break,
    "import": _import,
}


class Backend:
    """Loads nothing, and decodes by sleeping."""

    def __init__(self, device: str) -> None:
        act("any", "start")
        self._device = device

    def load(self, arm: Arm, manifest: Manifest, folder: Path) -> Session:
        act(arm.precision, "load")
        return _Session(arm, self._device)

    def kernels(self) -> Kernels | Absent:
        act("any", "calibrate")
        return Absent(reason="nothing to calibrate with")


class _Session(FakeSession):
    def __init__(self, arm: Arm, device: str) -> None:
        super().__init__(arm, lambda duration_s, _: time.sleep(duration_s), TOKEN_S, 0.0)
        self._place = device
        self._passes = 0

    def certificate(self) -> Certificate:
        return super().certificate().model_copy(update={"devices": tuple(self._place.split(","))})

    def generate(self, iteration: int, output_tokens: int) -> object:
        self._passes += 1
        act(self._arm.precision, "warm" if self._passes == 1 else "window")
        return super().generate(iteration, output_tokens)

    def score(self, text: str, window_tokens: int, max_windows: int | None) -> Scores:
        act(self._arm.precision, "score")
        return super().score(text, window_tokens, max_windows)

    def profile(self) -> Profile:
        act(self._arm.precision, "profile")
        return super().profile()

    def close(self) -> None:
        act(self._arm.precision, "close")
