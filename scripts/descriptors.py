"""Write the descriptors that follow from mlcube.yaml, or find those that no longer do.

    mlcube.yaml ─▶ mlcube.cpu.yaml         for hosts without a GPU: measure rehearses
                ─▶ container_config.yaml   MedPerf's form of the same three tasks

`python scripts/descriptors.py` writes both (`make schema` calls it); with `--check` it only names
those that are not what mlcube.yaml says, and ends with status 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "mlcube.yaml"
PLAN, REHEARSAL = "config/protocol.yaml", "config/rehearsal.yaml"
MADE_BY = "made from mlcube.yaml by `make schema` (python scripts/descriptors.py)"
MEASURES = "measure"  # the one task that needs a board

CPU_HEAD = f"""\
# For hosts without a GPU, {MADE_BY}.
# Rehearses, measures no energy: mlcube run --mlcube=mlcube.cpu.yaml --task=download,measure,report
"""
MEDPERF_HEAD = f"""\
# For MedPerf, {MADE_BY}.
# MedPerf itself never ran it. MedPerf pulls images: push this one, and write the name it has there.
# Unless told otherwise MedPerf gives a container no network, which `download` needs.
"""
_HEAD = re.compile(r"\A(?:#.*\n)*")


class SourceError(Exception):
    """mlcube.yaml is not of the shape that the others are made from; says what is missing."""


def main(arguments: Sequence[str]) -> int:
    try:
        made = descriptors((ROOT / SOURCE).read_text(encoding="utf-8"))
    except SourceError as error:
        sys.stderr.write(f"{SOURCE} {error}\n")
        return 1
    if list(arguments) == ["--check"]:
        wrong = [name for name, text in made.items() if present(name) != text]
        for name in wrong:
            sys.stderr.write(f"{name} is not what {SOURCE} says: run make schema\n")
        return 1 if wrong else 0
    for name, text in made.items():
        (ROOT / name).write_text(text, encoding="utf-8")
    return 0


def present(name: str) -> str | None:
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.exists() else None


def descriptors(source: str) -> dict[str, str]:
    """Every file that is made, by its name."""
    return {
        "mlcube.cpu.yaml": CPU_HEAD + rehearsing(_HEAD.sub("", source)),
        "container_config.yaml": MEDPERF_HEAD + medperf(yaml.safe_load(source)),
    }


def rehearsing(source: str) -> str:
    """The same text, comments and all, without an accelerator and with the plan that needs none."""
    text = replaced(source, "accelerator_count: 1", "accelerator_count: 0", times=1)
    return replaced(text, f"default: {PLAN}", f"default: {REHEARSAL}", times=2)


def replaced(text: str, old: str, new: str, *, times: int) -> str:
    found = text.count(old)
    if found != times:
        raise SourceError(f"has '{old}' {found} times, and {times} are expected.")
    return text.replace(old, new)


def medperf(cube: dict[str, Any]) -> str:
    """The task table in MedPerf's words. It mounts inputs read-only and knows no defaults."""
    config = {
        "container_type": "DockerImage",
        "image": cube["docker"]["image"],
        "tasks": {name: medperf_task(name, task) for name, task in cube["tasks"].items()},
    }
    return yaml.safe_dump(config, sort_keys=False, default_flow_style=None, width=120)


def medperf_task(name: str, task: dict[str, Any]) -> dict[str, Any]:
    inputs, outputs = (volumes(task["parameters"][side]) for side in ("inputs", "outputs"))
    mounted = {**inputs, **outputs}
    command = [name, *(f"--{each}={volume['mount_path']}" for each, volume in mounted.items())]
    run_args = {"command": command, **({"gpus": "all"} if name == MEASURES else {})}
    return {"run_args": run_args, "input_volumes": inputs, "output_volumes": outputs}


def volumes(parameters: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {
        name: {"mount_path": mount_path(name, parameter), "type": parameter["type"]}
        for name, parameter in parameters.items()
    }


def mount_path(name: str, parameter: dict[str, str]) -> str:
    suffix = Path(parameter["default"]).suffix if parameter["type"] == "file" else ""
    return f"/cube/{name}{suffix}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
