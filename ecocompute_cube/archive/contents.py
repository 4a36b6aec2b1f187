"""What lies around the evidence in a bundle: made from the runs alone, so a check can repeat it."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final

from ecocompute_cube.archive.crate import CRATE_NAME, crate
from ecocompute_cube.archive.croissant import CROISSANT_NAME, croissant
from ecocompute_cube.archive.describe import citation, environment, license_note, zenodo
from ecocompute_cube.archive.mlcommons import data_folder, tree
from ecocompute_cube.archive.readme import readme
from ecocompute_cube.model.bundle import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ecocompute_cube.archive.computed import Energy
    from ecocompute_cube.archive.describe import Contents
    from ecocompute_cube.archive.runs import Run
    from ecocompute_cube.model.bundle import About

ZENODO_NAME: Final = ".zenodo.json"
DESCRIPTIONS: Final = (
    "README.md",
    "LICENSE.txt",
    "CITATION.cff",
    ZENODO_NAME,
    CROISSANT_NAME,
    CRATE_NAME,
)


def data_of(layout: Layout, told: About) -> str:
    """Where runs, report and schemas lie: nothing, or a folder with a slash."""
    return data_folder(told.creators[0].name) if layout is Layout.MLCOMMONS else ""


def surroundings(
    layout: Layout, told: About, runs: Sequence[Run], energies: Sequence[Energy]
) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of the schemas, the environment, and the tree if there is one."""
    data = data_of(layout, told)
    schemas = files("ecocompute_cube") / "schemas"
    for schema in sorted(schemas.iterdir(), key=lambda each: each.name):
        if schema.name.endswith(".schema.json"):
            yield f"{data}schemas/{schema.name}", schema.read_bytes()
    yield f"{data}environment.json", environment(runs)
    if layout is Layout.MLCOMMONS:
        yield from tree(told.creators[0].name, runs, energies).items()


def descriptions(contents: Contents, table: bytes) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of each of DESCRIPTIONS; ``table`` is results.csv."""
    told = contents.about
    made = (
        readme(contents),
        license_note(told),
        citation(told),
        zenodo(told),
        croissant(contents, table),
        crate(contents),
    )
    yield from zip(DESCRIPTIONS, made, strict=True)
