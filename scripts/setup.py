"""Make the virtual environment that this checkout runs in, or find that nothing is left to do.

    make setup ─▶ setup.sh (finds a Python) ─▶ setup.py run
    make test  ─▶ …                         ─▶ setup.py test     = run + requirements/test.txt
    make check ─▶ …                         ─▶ setup.py check    = fuzz + requirements/check.txt
    make test-fuzz ─▶ …                     ─▶ setup.py fuzz     = test + requirements/fuzz.txt

One stage installs one file of requirements/, pinned and hashed. What is done stands in
`.venv/ecocompute-setup.json` with the hash of what it was done from, so a second call reads one
file and stops. A stage that was cut off while it wrote makes the next call start from nothing.

Environment: PYTHON (setup.sh has resolved it; here it only says that the user insists), VENV
(default .venv), TORCH: `cuda` for the default Linux wheel and its libraries, `cpu` for the small
build where pip can find one, `none` for the torch that the interpreter already has, `auto` (as if
not set) for the small build if no NVIDIA GPU shows and pip can find one, else the default wheel.
Standard library only: it runs before anything is installed.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from setup_state import (
    STATE_NAME,
    Request,
    SetUpError,
    State,
    alone,
    read_state,
    site_mtime_ns,
    write_state,
)

RUN_STAGES = ("venv", "build", "measure", "service", "torch", "package")
TARGETS = {
    "run": RUN_STAGES,
    "test": (*RUN_STAGES, "test"),
    "check": (*RUN_STAGES, "test", "fuzz", "check"),  # types of what the fuzzer is asked
    "fuzz": (*RUN_STAGES, "test", "fuzz"),
}
TORCH_MODES = ("auto", "cpu", "cuda", "none")
TORCH_FILES = ("torch", "torch-cuda", "torch-cpu")
MACHINES = ("x86_64", "aarch64")  # what requirements/*.txt hold wheels for
DISK_CPU_GB, DISK_CUDA_GB = 1.7, 5.7  # .venv as built on Debian 12, x86_64
PIP_FAILED = (
    "pip did not install {} (its own words are above); when that is put right, run make again: "
    "what is done already is not done twice."
)
NETWORK_FAILED = re.compile(
    r"timed out|TimeoutError|ConnectionError|ProtocolError|ProxyError|SSLError|IncompleteRead|"
    r"Max retries exceeded|[Cc]onnection (?:broken|reset|refused|aborted)|name resolution|"
    r"Failed to connect|HTTP error 5"
)
PIP_FOREIGN = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")  # would install somewhere else


def main() -> int:
    try:
        set_up(read_request(sys.argv[1:], os.environ))
    except SetUpError as error:
        return complain(str(error), status=2)
    except KeyboardInterrupt:
        return complain("interrupted; run make again to go on.", status=130)
    except OSError as error:
        return complain(f"cannot use {error.filename}: {error.strerror}.", status=7)
    return 0


def complain(sentence: str, *, status: int) -> int:
    print(f"ecocompute: {sentence}", file=sys.stderr)
    return status


def read_request(arguments: list[str], environment: Mapping[str, str]) -> Request:
    root = Path(__file__).resolve().parent.parent
    torch = environment.get("TORCH") or None
    if arguments not in [[target] for target in TARGETS]:
        raise SetUpError(f"setup.py takes one of {', '.join(TARGETS)}.")
    if torch not in (None, *TORCH_MODES):
        raise SetUpError(f"TORCH={torch} is not known; it is one of {', '.join(TORCH_MODES)}.")
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        raise SetUpError(
            f"set-up knows Linux on {' and '.join(MACHINES)}, and this is {sys.platform} "
            f"on {platform.machine()}; `ecocompute report` installs anywhere with "
            "`pip install '.[report]'`."
        )
    return Request(
        root=root,
        venv=(root / (environment.get("VENV") or ".venv")).resolve(),
        target=arguments[0],
        python=base_python(),
        insists_on_python=bool(environment.get("PYTHON")),
        torch=torch,
    )


def base_python() -> Path:
    """Return the interpreter that environments are made from, also when this one is in one."""
    if sys.prefix == sys.base_prefix:
        return Path(sys.executable).resolve()
    return Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}").resolve()


def set_up(request: Request) -> None:
    if not pending(request, read_state(request)):
        return
    with alone(request.venv):
        state = read_state(request)
        todo = pending(request, state)  # again: whoever held the lock may have done it all
        if not todo:
            return
        announce(request, state, todo)
        if "venv" in todo or state is None:
            state = begin(request, state)
        for number, stage in enumerate(todo, 1):
            state = run_stage(request, state, stage, f"[{number}/{len(todo)}]")
        print(f"ecocompute: {request.venv.name} is ready.", flush=True)


# ------------------------------------------------------------------------------------- what is left


def pending(request: Request, state: State | None) -> list[str]:
    """Return the stages still to do, in order."""
    stages = stages_of(request, state)
    if not is_sound(request, state):
        return stages
    done = state.done if state else {"venv": digest_of(request, "venv")}
    return [stage for stage in stages if done.get(stage) != digest_of(request, stage)]


def stages_of(request: Request, state: State | None) -> list[str]:
    skipped = "torch" if torch_mode(request, state) == "none" else None
    return [stage for stage in TARGETS[request.target] if stage != skipped]


def torch_mode(request: Request, state: State | None) -> str:
    """Return the mode asked for, else the one that the environment has."""
    return request.torch or (state.torch if state else "auto")


def is_sound(request: Request, state: State | None) -> bool:
    """Return whether the environment can be built on. One that is not ours counts if it has pip."""
    if state is None:
        return is_filled(request.venv) and is_usable_stranger(request)
    return (
        request.venv_python.exists()
        and state.root == str(request.root)
        and state.python == str(request.venv_python.resolve())
        and state.torch == torch_mode(request, state)
        and not (request.insists_on_python and state.python != str(request.python))
        and (state.busy is None or state.site_mtime_ns == site_mtime_ns(request))
    )


def is_filled(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def is_usable_stranger(request: Request) -> bool:
    script = "import pip, sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))"
    usable = request.venv_python.exists() and succeeds(request.venv_python, "-I", "-c", script)
    same = not request.insists_on_python or request.venv_python.resolve() == request.python
    if usable and same and request.torch != "none":
        return True
    raise SetUpError(
        f"{request.venv} was not made by `make setup` and cannot be used as it is; move it away, "
        "or name another place: make setup VENV=.venv-ecocompute"
    )


def digest_of(request: Request, stage: str) -> str:
    """Return the hash of everything that the stage's outcome depends on."""
    parts = {
        "venv": [],
        "package": [request.root / "pyproject.toml", request.root / "ecocompute_cube/__init__.py"],
        "torch": [request.requirements(file) for file in TORCH_FILES],
    }.get(stage, [request.requirements(stage)])
    return hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()


# ------------------------------------------------------------------------------- saying it up front


def announce(request: Request, state: State | None, todo: list[str]) -> None:
    """Say what will be downloaded, how much of it, and where it goes; all before the first byte."""
    lines = [f"setting up {request.venv.name} with Python {platform.python_version()}."]
    if state is not None and "venv" in todo:
        lines.append(
            "What is there was cut off, moved or made for another Python: it is made anew."
        )
    files = [stage for stage in todo if stage not in ("venv", "package", "torch")]
    if files or "torch" in todo:
        lines += ["To download now, as far as pip does not have it yet:"]
        lines += [
            f"  {total_mb(request, files):4.0f} MB  packages, pinned and hashed in requirements/"
        ]
    if "torch" in todo:
        lines += torch_lines(request, torch_mode(request, state))
    if "measure" in todo:
        lines += [
            "Later, when a run first needs it: the default model, 93 MB, which becomes 270 MB."
        ]
    print("\n".join(f"ecocompute: {line}" for line in lines), flush=True)


def torch_lines(request: Request, mode: str) -> list[str]:
    small = f"  {total_mb(request, ['torch-cpu']):4.0f} MB  PyTorch, the CPU build"
    large_gb = total_mb(request, ["torch", "torch-cuda"]) / 1000
    large = f"  {large_gb:4.1f} GB  PyTorch with its CUDA libraries"
    free = f"free here: {shutil.disk_usage(request.root).free / 1e9:.0f} GB"
    if mode == "cpu":
        return [small, f"On disk {DISK_CPU_GB} GB; {free}."]
    if mode == "cuda" or has_nvidia_gpu():
        return [large, f"On disk {DISK_CUDA_GB} GB; {free}."]
    return [
        f"{small}, if pip can find one (requirements/README.md says how), or else",
        f"{large}, of no use here: no NVIDIA GPU shows",
        f"On disk {DISK_CPU_GB} GB, or {DISK_CUDA_GB} GB; {free}.",
    ]


def total_mb(request: Request, stages: list[str]) -> float:
    return sum(download_mb(request, stage) for stage in stages)


def download_mb(request: Request, stage: str) -> float:
    """Return the size that the head of the stage's requirements file states, in 10^6 bytes."""
    text = request.requirements(stage).read_text(encoding="utf-8")
    stated = re.search(rf"^# download:.*\b{platform.machine()} ([\d.]+) MB", text, re.MULTILINE)
    return float(stated[1]) if stated else 0.0


def has_nvidia_gpu() -> bool:
    return any(
        Path(name).exists() for name in ("/dev/nvidiactl", "/proc/driver/nvidia", "/dev/dxg")
    )


# --------------------------------------------------------------------------------------- the stages


def begin(request: Request, old: State | None) -> State:
    """Write the first state; for one of our own that is unsound, empty its folder first."""
    adopted = old is None and is_filled(request.venv)
    if not adopted:
        request.venv.mkdir(parents=True, exist_ok=True)
    state = State(
        root=str(request.root),
        python=str(request.venv_python.resolve() if adopted else request.python),
        torch=torch_mode(request, old),
        done={"venv": digest_of(request, "venv")} if adopted else {},
        busy=None if adopted else "venv",
    )
    write_state(request, state)
    if not adopted:
        empty(request.venv)
    return state


def empty(venv: Path) -> None:
    """Remove everything but the state, which says that the folder is ours."""
    for path in venv.iterdir():
        if path.name == STATE_NAME:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def run_stage(request: Request, state: State | None, stage: str, count: str) -> State:
    assert state is not None  # noqa: S101 -- begin() made one
    print(f"ecocompute: {count} {stage}", flush=True)
    busy = replace(state, busy=stage, site_mtime_ns=site_mtime_ns(request))
    write_state(request, busy)
    if stage == "venv":
        make_venv(request, state)
    elif stage == "package":
        install_package(request)
    elif stage == "torch":
        install_torch(request, state.torch)
    else:
        install_requirements(request, stage)
    done = {**state.done, stage: digest_of(request, stage)}
    return write_state(request, replace(state, busy=None, site_mtime_ns=0, done=done))


def make_venv(request: Request, state: State) -> None:
    options = ["--system-site-packages"] if state.torch == "none" else []
    made = run_quietly(request.python, "-I", "-m", "venv", *options, request.venv)
    if made.returncode != 0:
        discard(request)
        last = (made.stdout.strip().splitlines() or ["it said nothing"])[-1]
        raise SetUpError(f"`{request.python} -m venv` failed and was cleaned up after: {last}")
    if state.torch == "none" and not sees_torch(request):
        discard(request)
        raise SetUpError(
            f"TORCH=none, but {request.python} has no torch to lend; leave TORCH out to install "
            "one, or name the interpreter that has it: make setup TORCH=none PYTHON=…"
        )


def discard(request: Request) -> None:
    empty(request.venv)
    (request.venv / STATE_NAME).unlink()
    request.venv.rmdir()


def sees_torch(request: Request) -> bool:
    script = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    return succeeds(request.venv_python, "-I", "-c", script)


def install_torch(request: Request, mode: str) -> None:
    """Install the build that the mode asks for, and CUDA's libraries only where it names them."""
    small = mode == "cpu" or (mode == "auto" and not has_nvidia_gpu() and finds_cpu_torch(request))
    install_requirements(request, "torch-cpu" if small else "torch")
    if torch_wants_cuda(request):
        install_requirements(request, "torch-cuda")


def finds_cpu_torch(request: Request) -> bool:
    """Ask pip. Only a network that fails is no answer; all else means that it cannot be had here.

    A constraint of the user's makes "no such version" a conflict, in words that change with pip.
    """
    dry_run = ["--dry-run", "--progress-bar=off", *pinned(request, "torch-cpu")]
    asked = run_quietly(*pip_command(request), *dry_run, environment=pip_environment())
    if asked.returncode == 0:
        return True
    if "No matching distribution" in asked.stdout:
        return False
    said = [line for line in asked.stdout.splitlines() if not line.startswith("WARNING: ")]
    if any(NETWORK_FAILED.search(line) for line in said):
        print(asked.stdout, file=sys.stderr)
        raise SetUpError(PIP_FAILED.format("PyTorch"))
    reasons = [line for line in said if line.startswith("ERROR: ")]
    print(f"ecocompute: no CPU build for pip here: {(reasons or ['no reason'])[0]}", flush=True)
    return False


def torch_wants_cuda(request: Request) -> bool:
    """Ask the torch that got installed: a CPU build names none of the CUDA packages."""
    script = "import importlib.metadata as m; print(*m.requires('torch') or [], sep='\\n')"
    wanted = run_quietly(request.venv_python, "-I", "-c", script).stdout
    names = {re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in wanted.splitlines()}
    text = request.requirements("torch-cuda").read_text(encoding="utf-8")
    return not names.isdisjoint(re.findall(r"^([\w.-]+)==", text, re.MULTILINE))


def install_requirements(request: Request, stage: str) -> None:
    pip_install(request, pinned(request, stage), what=f"requirements/{stage}.txt")


def pinned(request: Request, stage: str) -> list[str | Path]:
    file = request.requirements(stage)
    return ["--no-deps", "--require-hashes", "--only-binary=:all:", "--requirement", file]


def install_package(request: Request) -> None:
    """Install this checkout so that its sources stay live, with the hatchling of build.txt."""
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--editable"]
    pip_install(request, [*options, request.root], what="this package")


def pip_install(request: Request, options: Sequence[str | Path], *, what: str) -> None:
    """Install: on a terminal as pip does it, elsewhere silent unless it fails, and then in full."""
    command = [*pip_command(request), *options]
    if sys.stdout.isatty():
        failed = subprocess.run(command, env=pip_environment(), check=False).returncode != 0
    else:
        ended = run_quietly(*command, "--progress-bar=off", environment=pip_environment())
        failed = ended.returncode != 0
        if failed:
            print(ended.stdout, file=sys.stderr)
    if failed:
        raise SetUpError(PIP_FAILED.format(what))


def pip_command(request: Request) -> list[str | Path]:
    pip = ["-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    return [request.venv_python, *pip]


def pip_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in PIP_FOREIGN}
    return {**kept, "PIP_USER": "0"}


def succeeds(*command: str | Path) -> bool:
    return run_quietly(*command).returncode == 0


def run_quietly(
    *command: str | Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=False,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


if __name__ == "__main__":
    sys.exit(main())
