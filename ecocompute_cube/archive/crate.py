"""ro-crate-metadata.json: the bundle for those who exchange research objects by RO-Crate 1.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ecocompute_cube.archive.croissant import media_type
from ecocompute_cube.archive.words import as_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ecocompute_cube.archive.describe import Contents
    from ecocompute_cube.model.bundle import BundledFile, BundledRun, Creator

Json = dict[str, Any]

CRATE_NAME: Final = "ro-crate-metadata.json"
_PROFILE: Final = "https://w3id.org/ro/crate/1.1"
_TOOL: Final = "#ecocompute-cube"
#: RO-Crate 1.1 has no word for a hash; this one is from its workflow-run terms.
_SHA256: Final = {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}


def crate(contents: Contents) -> bytes:
    """The graph: the bundle, its files, its creators, and how each run was made."""
    told = contents.about
    creators = [_creator(number, each) for number, each in enumerate(told.creators, start=1)]
    runs = [_run(contents, run) for run in contents.runs]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": told.title,
        "description": "\n\n".join(told.description),
        "datePublished": told.date,
        "version": told.version,
        "keywords": ", ".join(told.keywords),
        "license": {"@id": told.license.url},
        "author": _references(each["@id"] for each in creators),
        "hasPart": _references(quote(file.path) for file in contents.files),
        "mentions": _references(each["@id"] for each in runs),
    }
    return as_json(
        {
            "@context": [f"{_PROFILE}/context", _SHA256],
            "@graph": [
                {
                    "@id": CRATE_NAME,
                    "@type": "CreativeWork",
                    "about": {"@id": "./"},
                    "conformsTo": {"@id": _PROFILE},
                },
                root,
                *map(_file, contents.files),
                *creators,
                *_affiliations(told.creators),
                _license(contents),
                _tool(contents),
                *runs,
            ],
        }
    )


def _file(file: BundledFile) -> Json:
    return {
        "@id": quote(file.path),
        "@type": "File",
        "name": file.path,
        "contentSize": str(file.bytes),
        "encodingFormat": media_type(file.path),
        "sha256": file.sha256,
    }


def _creator(number: int, creator: Creator) -> Json:
    orcid = f"https://orcid.org/{creator.orcid}"
    person: Json = {
        "@id": orcid if creator.orcid else f"#creator-{number}",
        "@type": "Person" if "," in creator.name else "Organization",
        "name": creator.name,
    }
    if creator.affiliation:
        person["affiliation"] = {"@id": _affiliation_id(creator.affiliation)}
    return person


def _affiliations(creators: tuple[Creator, ...]) -> list[Json]:
    names = sorted({each.affiliation for each in creators if each.affiliation})
    return [{"@id": _affiliation_id(name), "@type": "Organization", "name": name} for name in names]


def _affiliation_id(name: str) -> str:
    return f"#affiliation-{quote(name, safe='')}"


def _license(contents: Contents) -> Json:
    told = contents.about.license
    return {"@id": told.url, "@type": "CreativeWork", "name": str(told), "identifier": told.url}


def _tool(contents: Contents) -> Json:
    return {
        "@id": _TOOL,
        "@type": "SoftwareApplication",
        "name": "EcoCompute cube",
        "softwareVersion": contents.tool_version,
    }


def _run(contents: Contents, run: BundledRun) -> Json:
    """How the files of a run came about."""
    folder = f"{contents.run_folder(run)}/"
    journal = [f.path for f in contents.files if f.path.startswith(f"{folder}journal.jsonl")]
    boards = ", ".join(run.boards) or "no board: a rehearsal"
    return {
        "@id": f"#run-{quote(run.folder)}",
        "@type": "CreateAction",
        "name": f"Run {run.run_id}",
        "description": f"Plan {run.plan} on {boards}; models: {', '.join(run.models)}.",
        "startTime": run.started_utc,
        "endTime": run.ended_utc,
        "instrument": {"@id": _TOOL},
        "result": _references(map(quote, journal)),
    }


def _references(identifiers: Iterable[str]) -> Json | list[Json]:
    """One alone stands without a list around it (RO-Crate 1.1, 4.1)."""
    found = [{"@id": each} for each in identifiers]
    return found[0] if len(found) == 1 else found
