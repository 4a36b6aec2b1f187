"""Write requirements/*.txt: one resolution, cut into the files that set-up installs.

    pyproject.toml ─▶ uv lock (in a scratch folder) ─▶ uv export, once a file ─▶ requirements/*.txt

The lock itself stays in the scratch folder, for it names the index it was made from; the files
hold names, versions, markers and hashes only. torch and its CUDA libraries are taken out of the
closure into files of their own, because set-up decides at run time whether they are wanted.
"""

import argparse
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from packaging.tags import Tag, cpython_tags
from packaging.utils import parse_wheel_filename

EXPORTS = {
    "core": ["--no-default-groups"],
    "report": ["--no-default-groups", "--extra", "report"],
    "upload": ["--no-default-groups", "--extra", "report", "--extra", "upload"],
    "service": ["--no-default-groups", "--extra", "service", "--extra", "lsp"],
    "measure": ["--no-default-groups", "--extra", "report", "--extra", "measure"],
    "build": ["--only-group", "build"],
    "test": ["--only-group", "test"],
    "fuzz": ["--only-group", "fuzz"],
    "check": ["--only-group", "check"],
}
HEADS = {
    "core": "What the `ecocompute` command needs to start, validate and explain.",
    "report": "core, and what `ecocompute report` needs.",
    "upload": "core, report, and what `ecocompute upload` needs.",
    "service": "core, and what `ecocompute serve`, `mcp` and `lint --lsp` need.",
    "measure": "core, report, and what `ecocompute measure` needs, less torch.",
    "torch": "torch alone: the default wheels.",
    "torch-cuda": "What a CUDA build of torch asks for; a CPU build does without.",
    "torch-cpu": "torch alone: PyTorch's own CPU wheels, for a pip that is pointed at them.",
    "image-torch": "What the container has: the torch that the boards in data/ ran, with its CUDA.",
    "build": "What installs this package from its sources.",
    "test": "What `make test` adds.",
    "fuzz": "What `make test-fuzz` adds.",
    "check": "What `make check` adds.",
    "mlcube": "The mlcube command, for an environment of its own: `make mlcube`.",
    "mlcube-build": "What builds the one package of mlcube.txt that has no wheel.",
    "archive-tools": "Validators of what a bundle holds, for an environment of their own.",
}
# mlcube 0.0.9 asks for omegaconf 2.1.0, whose metadata pip has refused since 24.1; 2.3.0 works.
# Newer releases of click print a warning about mlcube at every call.
MLCUBE = (
    "mlcube==0.0.9",
    "mlcube-docker==0.0.9",
    "mlcube-singularity==0.0.9",
    "setuptools<81",
    "click<8.2",
)
MLCUBE_OVERRIDE = "omegaconf==2.3.0"
# What reads the descriptions of a bundle. cffconvert wants an older jsonschema than we do.
ARCHIVE_TOOLS = (
    "mlcroissant==1.1.1",
    "roc-validator==0.13.0",
    "rocrate==0.16.0",
    "cffconvert==2.0.0",
)
# sha256 and bytes of torch 2.13.0+cpu, manylinux_2_28: they stand in PyTorch's own index and not in
# the default one. 3.11 x86_64: computed from the file. The others: as recorded alike in the public
# lock files of unrelated projects (aarch64: nixpkgs, pkgs/development/python-modules/torch/bin).
TORCH_VERSION = "2.13.0"
IMAGE_TORCH_VERSION = "2.11.0"  # with this one NF4 and INT8 ran on the boards in data/
TORCH_CPU_SHA256 = {
    ("3.11", "x86_64"): "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
    ("3.12", "x86_64"): "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",
    ("3.13", "x86_64"): "3fbf9c9d1f3c10c2d59d04aca426dee9ccc6ceb32d255c61e93acc3b4f75fae6",
    ("3.14", "x86_64"): "d20fa53ee744502fa4c69818a720b05ca0d37abd055d4f6e66cae155114bc691",
    ("3.11", "aarch64"): "84453b69508ec79902f899c5ed9495acb9e2bbe9fda5f1d5d6f19e3c3842e1a7",
    ("3.12", "aarch64"): "6f307c2c32d764ffc6ff6893b801fad6d4752f3e67966cb8abf1843427c02604",
    ("3.13", "aarch64"): "0b8f7d0423027ae8b90c7977c627f3379f325363a08224dffad9b4b2d684a83d",
    ("3.14", "aarch64"): "ca021f9eb2f8345c83fa03e3a04587308afb8df71bd472670b3ece00df58621c",
}
CUDA = re.compile(
    r"(nvidia-(?!ml-py)|cuda-|triton$)"
)  # nvidia-ml-py is a reader, not a library of CUDA
TORCH_CPU_BYTES = {"x86_64": 191_815_667, "aarch64": 155_020_718}
MACHINES = ("x86_64", "aarch64")
# tool.uv.environments, which uv repeats on every line. Set-up checks both; a container that does
# not had better fail than skip every line in silence.
EVERYWHERE = " ; python_full_version < '3.15' and sys_platform == 'linux' \\"
GLIBC_MINORS = range(17, 37)  # manylinux2014 (glibc 2.17) to Debian 12 (2.36)

OWN_ENVIRONMENTS = ("mlcube", "archive-tools")  # set-up installs them nowhere, and says no size
CPU_TORCH = "torch+cpu"  # its name among the stanzas and the sizes

Stanzas = dict[str, str]


def main() -> None:
    args = parse_arguments()
    lock = resolve(args.uv, args.root, args.work / "native", TORCH_VERSION)
    files = {name: export(args.uv, args.work / "native", flags) for name, flags in EXPORTS.items()}
    files |= split_torch(files["measure"])
    image_lock = resolve(args.uv, args.root, args.work / "image", IMAGE_TORCH_VERSION)
    image = export(args.uv, args.work / "image", EXPORTS["measure"])
    files |= {"image-torch": beside(image, files["measure"])} | compile_mlcube(args.uv, args.work)
    files["archive-tools"] = compiled(args.uv, args.work, ARCHIVE_TOOLS)
    sizes = wheel_sizes(lock)
    image_sizes = wheel_sizes(image_lock)
    for name, stanzas in files.items():
        path = args.root / "requirements" / f"{name}.txt"
        known = image_sizes if name == "image-torch" else sizes
        path.write_text(render(name, stanzas, known), encoding="utf-8")
        print(
            f"{path.relative_to(args.root)}: {len(stanzas)} packages, {size_line(stanzas, known)}"
        )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("uv", "root", "work"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    return parser.parse_args()


def resolve(uv: Path, root: Path, work: Path, torch: str) -> dict[str, Any]:
    """Lock the project's requirements and return the lock. A fixed version spares building it."""
    work.mkdir(parents=True)
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    project = project.replace('dynamic = ["version"]', 'version = "0"')
    project = project.replace(f'"torch=={TORCH_VERSION}"', f'"torch=={torch}"')
    (work / "pyproject.toml").write_text(project, encoding="utf-8")
    subprocess.run([uv, "lock", "--quiet", "--project", work], check=True)
    return tomllib.loads((work / "uv.lock").read_text(encoding="utf-8"))


def export(uv: Path, work: Path, flags: list[str]) -> Stanzas:
    """Return one file's packages: name to its lines, hashes and comments included."""
    command: list[str | Path] = [
        uv,
        "export",
        "--quiet",
        "--frozen",
        "--no-emit-project",
        "--no-header",
        *flags,
    ]
    return stanzas_of(
        subprocess.run(
            [*command, "--project", work], check=True, capture_output=True, text=True
        ).stdout
    )


def stanzas_of(text: str) -> Stanzas:
    stanzas = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE | re.IGNORECASE)
    plain = (stanza.rstrip().replace(EVERYWHERE, " \\") for stanza in stanzas if "==" in stanza)
    return {stanza.split("==")[0]: stanza for stanza in plain}


def split_torch(measure: Stanzas) -> dict[str, Stanzas]:
    """Take torch and the CUDA closure out of `measure`, in place."""
    cuda = {name: measure.pop(name) for name in list(measure) if CUDA.match(name)}
    torch = measure.pop("torch")
    if not torch.startswith(f"torch=={TORCH_VERSION} "):
        raise SystemExit(
            f"TORCH_CPU_SHA256 is for torch {TORCH_VERSION}, the lock has {torch[:20]}"
        )
    hashes = [f"    --hash=sha256:{sha}" for sha in TORCH_CPU_SHA256.values()]
    cpu = " \\\n".join([f"torch=={TORCH_VERSION}+cpu", *hashes])
    return {"torch": {"torch": torch}, "torch-cuda": cuda, "torch-cpu": {CPU_TORCH: cpu}}


def beside(image: Stanzas, measure: Stanzas) -> Stanzas:
    """Return what the image has that `measure` has not: torch and its closure.

    Everything else must be the same there, or a container would measure other software.
    """
    rest = {name: image.pop(name) for name in list(image) if name in measure}
    if rest != measure:
        changed = sorted(name for name in measure if rest.get(name) != measure[name])
        raise SystemExit(f"with torch {IMAGE_TORCH_VERSION} these differ: {', '.join(changed)}")
    return image


def compile_mlcube(uv: Path, work: Path) -> dict[str, Stanzas]:
    """Resolve mlcube with its one repaired requirement; setuptools apart, for it builds another."""
    (work / "override.txt").write_text(MLCUBE_OVERRIDE, encoding="utf-8")
    stanzas = compiled(uv, work, MLCUBE, "--overrides", work / "override.txt")
    return {"mlcube-build": {"setuptools": stanzas.pop("setuptools")}, "mlcube": stanzas}


def compiled(uv: Path, work: Path, wanted: tuple[str, ...], *more: str | Path) -> Stanzas:
    """Resolve what is wanted for an environment of its own, for every Python from 3.11 on."""
    (work / "wanted.in").write_text("\n".join(wanted), encoding="utf-8")
    options = ["--quiet", "--universal", "--generate-hashes", "--no-header", "--no-annotate"]
    done = subprocess.run(
        [uv, "pip", "compile", *options, "--python-version", "3.11", *more, work / "wanted.in"],
        check=True,
        capture_output=True,
        text=True,
    )
    return stanzas_of(done.stdout)


def wheel_sizes(lock: dict[str, Any]) -> dict[tuple[str, str], int]:
    """Return bytes to download for (package, machine), by the wheel that Python 3.11 takes."""
    sizes = {(CPU_TORCH, machine): size for machine, size in TORCH_CPU_BYTES.items()}
    return sizes | {
        (package["name"], machine): size
        for package in lock["package"]
        for machine in MACHINES
        if (size := best_wheel_size(package.get("wheels", []), supported_tags(machine))) is not None
    }


def supported_tags(machine: str) -> list[Tag]:
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in reversed(GLIBC_MINORS)]
    platforms += [f"manylinux2014_{machine}", f"linux_{machine}"]
    pure = [Tag("py3", "none", platform) for platform in [*platforms, "any"]]
    return [*cpython_tags((3, 11), platforms=platforms), *pure, Tag("py2", "none", "any")]


def best_wheel_size(wheels: list[dict[str, Any]], supported: list[Tag]) -> int | None:
    order = {tag: rank for rank, tag in enumerate(supported)}
    ranked = [
        (min(ranks), wheel["size"])
        for wheel in wheels
        if (ranks := [order[tag] for tag in wheel_tags(wheel["url"]) if tag in order])
    ]
    return min(ranked)[1] if ranked else None


def wheel_tags(url: str) -> frozenset[Tag]:
    return parse_wheel_filename(url.rsplit("/", 1)[-1].replace("%2B", "+"))[3]


def size_line(stanzas: Stanzas, sizes: dict[tuple[str, str], int]) -> str:
    """Return the line that set-up reads to say what will be downloaded; MB of 10^6 bytes."""
    totals = {
        machine: sum(sizes.get((name, machine), 0) for name in stanzas) / 1e6
        for machine in MACHINES
    }
    return "download: " + ", ".join(
        f"{machine} {total:.1f} MB" for machine, total in totals.items()
    )


def render(name: str, stanzas: Stanzas, sizes: dict[tuple[str, str], int]) -> str:
    head = [HEADS[name], "Written by scripts/lock.sh (`make lock`). Do not edit."]
    if not name.startswith(OWN_ENVIRONMENTS):
        head.append(size_line(stanzas, sizes))
    body = [stanzas[key] for key in sorted(stanzas)]
    return "\n".join([*(f"# {line}" for line in head), *body, ""])


if __name__ == "__main__":
    main()
