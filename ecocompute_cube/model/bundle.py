"""manifest.json of a bundle: who stands behind it, which runs it holds, every file with its hash.

Format history
    1  first
"""

from __future__ import annotations

import enum
from typing import Annotated, Final, Literal

from pydantic import Field

from ecocompute_cube.model.base import Count, Record, Sha256, UtcTime
from ecocompute_cube.model.manifest import Weights

FORMAT: Final = "ecocompute-bundle/1"
MANIFEST_NAME: Final = "manifest.json"
SUMS_NAME: Final = "SHA256SUMS"

#: One part of a path in a bundle: what every file system, shell and checksum list takes as it is.
_PART: Final = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}"
DEEPEST: Final = 16  # parts of a path; ours have nine at most
#: Such a path. The one hidden file is where Zenodo looks for it.
SAFE_PATH: Final = rf"^({_PART}(/{_PART}){{0,{DEEPEST - 1}}}|\.zenodo\.json)$"

#: A folder that no bundle has, in any case of its letters: in MLPerf's trees, meters at the wall.
POWER_FOLDER: Final = "power"

#: Stands where nobody was named. Checks warn of it, and no service is given it.
NOBODY: Final = "Unnamed, Creator"

Orcid = Annotated[str, Field(pattern=r"^([0-9]{4}-){3}[0-9]{3}[0-9X]$")]
Day = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class Layout(enum.StrEnum):
    """How the files of a bundle are arranged."""

    STANDARD = "standard"  #: a folder a run, beside the pages
    MLCOMMONS = "mlcommons"  #: the tree of MLPerf inference submissions. It is not one


class License(enum.StrEnum):
    """Licences that data may be given under, by their SPDX names."""

    CC_BY = "CC-BY-4.0"
    CC_BY_SA = "CC-BY-SA-4.0"
    CC0 = "CC0-1.0"
    ODBL = "ODbL-1.0"
    ODC_BY = "ODC-By-1.0"
    PDDL = "PDDL-1.0"

    @property
    def url(self) -> str:
        """Where its text stands."""
        return f"https://spdx.org/licenses/{self}.html"


class Creator(Record):
    """Somebody to credit."""

    name: str = Field(min_length=1, max_length=300)  #: `Family, Given`, or an organization's name
    orcid: Orcid | None = None
    affiliation: str | None = None


class About(Record):
    """What every description of the bundle says of it. No text holds a control character."""

    title: str = Field(min_length=1, max_length=400)
    description: tuple[str, ...]  #: paragraphs
    creators: tuple[Creator, ...] = Field(min_length=1)
    license: License  #: of the data
    version: str = Field(min_length=1, max_length=60)
    keywords: tuple[str, ...]
    date: Day  #: of publication; the last day of measuring, where none was given


class BundledRun(Record):
    """One run, as its journal describes it."""

    run_id: str
    folder: str  #: in the bundle
    journal_sha256: Sha256  #: of the journal's last line
    lines: Count
    started_utc: UtcTime
    ended_utc: UtcTime
    tool_version: str  #: that opened the journal
    plan: str  #: its name
    rehearsal: bool
    boards: tuple[str, ...]
    models: tuple[str, ...]
    weights: tuple[Weights, ...]  #: of the models, in their order
    arms: tuple[str, ...]
    signed: bool  #: a signature lies beside the journal


class Missing(Record):
    """Something that a reader may look for and not find."""

    what: str
    why: str


class BundledFile(Record):
    """One file."""

    path: str = Field(pattern=SAFE_PATH)
    bytes: Count
    sha256: Sha256


class BundleManifest(Record):
    """manifest.json. Lists every file but itself and SHA256SUMS."""

    format: Literal["ecocompute-bundle/1"]
    tool_version: str  #: of EcoCompute cube that made the bundle
    layout: Layout
    about: About
    runs: tuple[BundledRun, ...]
    missing: tuple[Missing, ...]
    files: tuple[BundledFile, ...]
