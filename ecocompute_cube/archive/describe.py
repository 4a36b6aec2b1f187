"""What descriptions of a bundle are made from, and the short ones: citation, licence, Zenodo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from ecocompute_cube.archive.words import as_html, as_json
from ecocompute_cube.model.base import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecocompute_cube.archive.computed import Energy
    from ecocompute_cube.archive.runs import Run
    from ecocompute_cube.model.bundle import (
        About,
        BundledFile,
        BundledRun,
        Creator,
        Layout,
        Missing,
    )

Json = dict[str, Any]

PROTOCOL_DOI: Final = "10.5281/zenodo.22958675"  # EcoCompute Protocol v1.1
#: Stands wherever a result might be taken for one of MLPerf's.
NOT_MLPERF: Final = "unverified, not an MLPerf result, GPU-only NVML energy"


class Contents(NamedTuple):
    """Everything that a description may speak of."""

    about: About
    layout: Layout
    tool_version: str
    runs: tuple[BundledRun, ...]
    energies: tuple[Energy, ...]
    missing: tuple[Missing, ...]
    files: tuple[BundledFile, ...]  #: what has been written so far
    data: str  #: where in the bundle runs, report and schemas lie: empty, or a folder with a slash

    def run_folder(self, run: BundledRun) -> str:
        """A run's folder in the bundle."""
        return f"{self.data}runs/{run.folder}"


def citation(told: About) -> bytes:
    """CITATION.cff, in version 1.2.0 of its format."""
    document = {
        "cff-version": "1.2.0",
        "message": "If you use these data, please cite them as below.",
        "type": "dataset",
        "title": told.title,
        "abstract": "\n".join(told.description),
        "authors": [_author(each) for each in told.creators],
        "version": told.version,
        "date-released": told.date,
        "license": str(told.license),
        "keywords": list(told.keywords),
        "references": [
            {
                "type": "standard",
                "title": "EcoCompute Protocol v1.1",
                "authors": [{"family-names": "Zhang", "given-names": "Hongping"}],
                "doi": PROTOCOL_DOI,
            }
        ],
    }
    if not told.keywords:  # the format knows no empty list
        del document["keywords"]
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
    return text.encode()


def _author(creator: Creator) -> Json:
    family, _, given = (part.strip() for part in creator.name.partition(","))
    author: Json = {"name": creator.name}
    if family and given:
        author = {"family-names": family, "given-names": given}
        if creator.affiliation:  # the format has none for a group
            author["affiliation"] = creator.affiliation
    if creator.orcid:
        author["orcid"] = f"https://orcid.org/{creator.orcid}"
    return author


def license_note(told: About) -> bytes:
    """LICENSE.txt: which licence, and where its text stands."""
    names = "; ".join(creator.name for creator in told.creators)
    return (
        f"{told.title}\n{names}\n\n"
        f"The data in this bundle may be used under {told.license}:\n{told.license.url}\n"
    ).encode()


def zenodo(told: About) -> bytes:
    """.zenodo.json, with the names of Zenodo's deposit metadata. The description is HTML there."""
    return as_json(
        {
            "upload_type": "dataset",
            "title": told.title,
            "creators": [_zenodo_creator(each) for each in told.creators],
            "description": "".join(f"<p>{as_html(part)}</p>" for part in told.description),
            "access_right": "open",
            "license": told.license.lower(),
            "publication_date": told.date,
            "version": told.version,
            "keywords": list(told.keywords),
            "language": "eng",
            "related_identifiers": [{"identifier": PROTOCOL_DOI, "relation": "references"}],
        }
    )


def _zenodo_creator(creator: Creator) -> Json:
    given = {
        "name": creator.name,
        "orcid": creator.orcid,
        "affiliation": creator.affiliation,
    }
    return {key: value for key, value in given.items() if value}


def environment(runs: Sequence[Run]) -> bytes:
    """environment.json: boards, drivers, hosts and packages of every session."""
    return as_json(
        {
            "format": "ecocompute-environment/1",
            "runs": [
                {
                    "run_id": printable(run.opened.run_id),
                    "sessions": [_plain(each.model_dump(mode="json")) for each in run.sessions],
                }
                for run in runs
            ],
        }
    )


def _plain(value: object) -> object:
    """The same without a character that a terminal would obey."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
