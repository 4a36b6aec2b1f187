"""croissant.json: the bundle for those who load data sets by MLCommons' Croissant 1.0."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any, Final

from ecocompute_cube.archive.computed import CSV_NAME
from ecocompute_cube.archive.words import as_json
from ecocompute_cube.model.plan import slug

if TYPE_CHECKING:
    from ecocompute_cube.archive.describe import Contents
    from ecocompute_cube.model.bundle import About, BundledFile, Creator

Json = dict[str, Any]

CROISSANT_NAME: Final = "croissant.json"
#: The format's own, word for word: readers compare it (Croissant 1.0, appendix "JSON-LD context").
_CONTEXT: Final[Json] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_TYPES: Final = {
    ".csv": "text/csv",
    ".gz": "application/gzip",
    ".html": "text/html",
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".md": "text/markdown",
    ".png": "image/png",
    ".sig": "text/plain",
    ".svg": "image/svg+xml",
}
_WHOLE: Final = re.compile(r"-?\d+")
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")


def media_type(path: str) -> str:
    """By the end of a name."""
    return next((kind for end, kind in _TYPES.items() if path.endswith(end)), "text/plain")


def croissant(contents: Contents, results_csv: bytes) -> bytes:
    """Every file with its hash, and results.csv as a set of records."""
    told = contents.about
    table = f"{contents.data}report/{CSV_NAME}"
    return as_json(
        {
            "@context": _CONTEXT,
            "@type": "sc:Dataset",
            "conformsTo": "http://mlcommons.org/croissant/1.0",
            "name": slug(told.title)[:100],
            "alternateName": told.title,
            "description": "\n\n".join(told.description),
            "license": told.license.url,
            "creator": [_creator(each) for each in told.creators],
            "citeAs": _bibtex(told),
            "datePublished": told.date,
            "version": told.version,
            "keywords": list(told.keywords),
            "inLanguage": "en",
            "isLiveDataset": False,
            "distribution": [_file(each) for each in contents.files],
            "recordSet": [_records(table, results_csv)],
        }
    )


def _creator(creator: Creator) -> Json:
    person = {"@type": "sc:Person" if "," in creator.name else "sc:Organization"}
    given = {
        "name": creator.name,
        "url": f"https://orcid.org/{creator.orcid}" if creator.orcid else None,
        "affiliation": creator.affiliation,
    }
    return person | {key: value for key, value in given.items() if value}


def _bibtex(told: About) -> str:
    names = " and ".join(creator.name for creator in told.creators)
    given = {
        "title": told.title,
        "author": names,
        "year": told.date[:4],
        "version": told.version,
    }
    fields = ", ".join(f"{key}={{{_braced(value)}}}" for key, value in given.items())
    return f"@misc{{ecocompute-{told.date}, {fields}}}"


def _braced(text: str) -> str:
    """Without what BibTeX would obey."""
    return re.sub(r"[\\{}$%]", "", text)


def _file(file: BundledFile) -> Json:
    return {
        "@type": "cr:FileObject",
        "@id": file.path,
        "name": file.path,
        "contentUrl": file.path,
        "contentSize": f"{file.bytes} B",
        "encodingFormat": media_type(file.path),
        "sha256": file.sha256,
    }


def _records(table: str, text: bytes) -> Json:
    rows = list(csv.reader(io.StringIO(text.decode())))
    names, cells = rows[0], rows[1:]
    return {
        "@type": "cr:RecordSet",
        "@id": "results",
        "name": "results",
        "description": "One record an arm: what was measured, with intervals, and what it was "
        "compared with. Energy is GPU-only, by NVML.",
        "field": [
            _field(table, name, [row[place] for row in cells]) for place, name in enumerate(names)
        ],
    }


def _field(table: str, name: str, cells: list[str]) -> Json:
    return {
        "@type": "cr:Field",
        "@id": f"results/{name}",
        "name": name,
        "description": f"Column {name} of {CSV_NAME}; an empty cell is an absent value.",
        "dataType": _data_type(cells),
        "source": {"fileObject": {"@id": table}, "extract": {"column": name}},
    }


def _data_type(cells: list[str]) -> str:
    """A whole number cannot be absent for those who load it; a real one can."""
    if cells and all(_WHOLE.fullmatch(cell) for cell in cells):
        return "sc:Integer"
    given = [cell for cell in cells if cell]
    return "sc:Float" if given and all(map(_NUMBER.fullmatch, given)) else "sc:Text"
