"""The ``ecocompute`` command with the stage in place of a model's runtime; all else is real."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from ecocompute_cube.cli import main
from ecocompute_cube.measure import real_equipment

if __name__ == "__main__":
    root = Path(os.environ.get("STAGE_ROOT", "/"))
    equipment = partial(real_equipment, backend="tests.cli.stage:Backend", root=root)
    raise SystemExit(main(sys.argv[1:], equipment))
