"""Runs on a scripted board with names that nobody should trust."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ecocompute_cube.model.plan import Plan
from ecocompute_cube.report.write import write_energy

from ..run.rig import Scene, install_model, plan

MODELS = ("random:smollm2-135m", "random:qwen2-0.5b")

#: A name that would do something on a page, in a table, in a spreadsheet and on a terminal.
HOSTILE = "=1+1</text><script>alert(1)</script>&amp;\"'|\x1b[31m\x07\x9b2J\u202e\r\n@x"


def quick(**changes: object) -> Plan:
    settings: dict[str, object] = {
        "workloads": [{"output_tokens": 64}],
        "arms": ["FP16", "NF4"],
        "protocol": {"mode": "precise", "iterations": 1, "blocks": 3},
    }
    return plan(**{**settings, **changes})


def scene(folder: Path, names: Sequence[str] = ("Scripted model",)) -> Scene:
    """A machine with one or two models by these names."""
    set_up = Scene(folder)
    for reference, name in zip(MODELS, names, strict=False):
        place = set_up.models / reference.replace(":", "-")
        if not place.exists():
            install_model(set_up.models, reference)
        manifest = json.loads((place / "manifest.json").read_text())
        (place / "manifest.json").write_text(json.dumps({**manifest, "name": name}))
    return set_up


def measured(set_up: Scene, asked: Plan, **how: bool) -> Path:
    run = set_up.measure(asked, **how)
    write_energy(run)
    return run
