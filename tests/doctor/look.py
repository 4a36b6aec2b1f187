"""Looks at the machine below ``STUB_ROOT`` in a process of its own, and prints what was found.

``look.py OUTPUT``: as JSON. ``LOOK_PACKAGES`` are the installed packages, as JSON; ``LOOK_NEEDS`` a
plan's name, bytes on disk, bytes of memory, and boards if more than one.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ecocompute_cube.doctor import Machine, Needs, examine
from ecocompute_cube.model.base import Absent


def main(output: str) -> None:
    plan, *rest = json.loads(os.environ.get("LOOK_NEEDS", '["small", 1000, 1000]'))
    needs = Needs(plan, *rest) if plan else Absent(reason="no plan was named")
    packages = json.loads(os.environ["LOOK_PACKAGES"])
    machine = Machine(packages, os.environ, Path(os.environ["STUB_ROOT"]))
    print(examine(machine, needs, Path(output)).model_dump_json())
    assert "torch" not in sys.modules


if __name__ == "__main__":
    main(sys.argv[1])
