"""One record of a service with InvenioRDM's records API: its draft, its files, its publication."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from ecocompute_cube.analysis.documents import text_at
from ecocompute_cube.archive.describe import PROTOCOL_DOI
from ecocompute_cube.archive.service import Answer, Client, Upload
from ecocompute_cube.archive.sink import reading
from ecocompute_cube.archive.words import as_html
from ecocompute_cube.errors import ServiceRefused, ServiceUnreachable
from ecocompute_cube.model.bundle import BundleManifest, Creator

Json = dict[str, Any]

_PIECE: Final = 2**20
_COMPLETED: Final = "completed"
_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_LOOKS_S: Final = (2.0, 5.0, 15.0)  # after a publication whose answer was lost


class Payload(NamedTuple):
    """One file of a record."""

    key: str
    path: Path
    size: int
    md5: str


class Published(NamedTuple):
    """A record that is public."""

    record: str
    doi: str | None
    page: str


def metadata_of(manifest: BundleManifest) -> Json:
    """A draft's whole body."""
    told = manifest.about
    first = min(run.started_utc for run in manifest.runs)[:10]
    last = max(run.ended_utc for run in manifest.runs)[:10]
    return {
        "access": {"record": "public", "files": "public"},
        "files": {"enabled": True},
        "metadata": {
            "resource_type": {"id": "dataset"},
            "title": told.title,
            "publication_date": told.date,
            "creators": [_creator(each) for each in told.creators],
            "description": "".join(f"<p>{as_html(part)}</p>" for part in told.description),
            "publisher": "Zenodo",
            "rights": [{"id": told.license.lower()}],
            "subjects": [{"subject": word} for word in told.keywords],
            "version": told.version,
            "languages": [{"id": "eng"}],
            "dates": [{"date": f"{first}/{last}", "type": {"id": "collected"}}],
            "related_identifiers": [
                {
                    "identifier": PROTOCOL_DOI,
                    "scheme": "doi",
                    "relation_type": {"id": "references"},
                }
            ],
        },
    }


def _creator(creator: Creator) -> Json:
    family, _, given = (part.strip() for part in creator.name.partition(","))
    person: Json = {"type": "organizational", "name": creator.name}
    if family and given:
        person = {"type": "personal", "family_name": family, "given_name": given}
    if creator.orcid:
        person["identifiers"] = [{"scheme": "orcid", "identifier": creator.orcid}]
    more = {"affiliations": [{"name": creator.affiliation}]} if creator.affiliation else {}
    return {"person_or_org": person, **more}


class Deposit:
    """A record by its id. Every method raises ServiceError."""

    def __init__(self, client: Client, record: str) -> None:
        self._client = client
        self.record = record
        self._draft = f"/api/records/{quote(record, safe='')}/draft"

    @classmethod
    def begun(cls, client: Client, body: Json) -> Deposit:
        """A new draft."""
        return cls(client, _id_of(client.post("/api/records", body), client))

    @classmethod
    def begun_as_version_of(cls, client: Client, record: str) -> Deposit:
        """A draft that will be the next version of a record that is public."""
        answer = client.post(f"/api/records/{quote(record, safe='')}/versions")
        return cls(client, _id_of(answer, client))

    def is_draft(self) -> bool:
        """Whether it is a draft and was never public; a public record that is edited is none."""
        answer = self._client.get(self._draft)
        return answer is not None and self._its(answer).get("is_published") is not True

    def published(self) -> Published | None:
        """The record, if it is public."""
        answer = self._client.get(f"/api/records/{quote(self.record, safe='')}")
        return None if answer is None else self._public(answer)

    def describe(self, body: Json) -> list[str]:
        """Put the description in place; what the service finds wrong with it."""
        return self._client.complaints(self._its(self._client.put(self._draft, body)))

    def _its(self, answer: Answer) -> Json:
        """The body, if it is this record's: login pages of networks answer to anything."""
        if str(answer.body.get("id")) != self.record:
            raise _stranger(self._client)
        return answer.body

    def put_files(self, payloads: list[Payload], advance: Callable[[int], None]) -> None:
        """Have exactly these files in the draft. What has arrived whole is not sent again."""
        there = self._files()
        for key in sorted(set(there) - {each.key for each in payloads}):
            self._client.delete(self._file(key))
        for payload in payloads:
            if self._is_whole(there.get(payload.key), payload):
                advance(payload.size)
                continue
            if payload.key in there:
                self._client.delete(self._file(payload.key))
            self._put_file(payload, advance)

    def _files(self) -> dict[str, Json]:
        answer = self._client.get(f"{self._draft}/files")
        entries = answer.body.get("entries", []) if answer else []
        return {str(each.get("key")): each for each in entries if isinstance(each, dict)}

    @staticmethod
    def _is_whole(entry: Json | None, payload: Payload) -> bool:
        return (
            entry is not None
            and entry.get("status") == _COMPLETED
            and entry.get("checksum") == f"md5:{payload.md5}"
        )

    def _put_file(self, payload: Payload, advance: Callable[[int], None]) -> None:
        self._client.post(f"{self._draft}/files", [{"key": payload.key}])
        place = self._file(payload.key)
        self._client.send(f"{place}/content", _upload(payload, advance))
        if not self._is_whole(self._committed(place), payload):
            self._client.delete(place)
            raise ServiceRefused(
                f"'{payload.key}' did not arrive as it was sent (its MD5 differs).",
                "Run the same command again: the file is sent anew.",
            )

    def _committed(self, place: str) -> Json | None:
        """The file's entry. Where an answer was lost, the second request is refused: look at it."""
        try:
            return self._client.post(f"{place}/commit", again=True).body
        except ServiceRefused:
            answer = self._client.get(place)
            if answer is None or answer.body.get("status") != _COMPLETED:
                raise
            return answer.body

    def _file(self, key: str) -> str:
        return f"{self._draft}/files/{quote(key, safe='')}"

    def publish(self, pause: Callable[[float], None]) -> Published:
        """Make it public, once: where the answer is lost, it is looked for, and not asked again."""
        try:
            return self._public(self._client.post(f"{self._draft}/actions/publish"))
        except ServiceUnreachable:
            for wait_s in _LOOKS_S:
                pause(wait_s)
                if (found := self.published()) is not None:
                    return found
            raise not_yet() from None

    def _public(self, answer: Answer) -> Published:
        doi = text_at(self._its(answer), "pids.doi.identifier")
        page = f"{self._client.service.address}/records/{self.record}"
        return Published(self.record, doi, page)


def _id_of(answer: Answer, client: Client) -> str:
    found = answer.body.get("id")
    if not isinstance(found, str | int) or not is_id(str(found)):
        raise _stranger(client)
    return str(found)


def is_id(text: str) -> bool:
    """Whether a record can have this id."""
    return bool(_ID.fullmatch(text))


def not_yet() -> ServiceUnreachable:
    """Of a record that was to be published, and is not to be seen."""
    return ServiceUnreachable(
        "It was asked to publish, and no answer came; it is not public so far.",
        "Run the same command again in a while: it looks first, and publishes only once.",
    )


def _stranger(client: Client) -> ServiceUnreachable:
    return ServiceUnreachable(
        f"What answers at {client.service.address} is not the records API.",
        "See whether a login page of the network answers in its place.",
    )


def _upload(payload: Payload, advance: Callable[[int], None]) -> Upload:
    """Its bytes, and how many of them have gone: none, whenever it begins anew."""
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        advance(-sent)
        sent = 0
        with reading(payload.path) as file:
            while piece := file.read(_PIECE):
                yield piece
                sent += len(piece)
                advance(len(piece))

    return Upload(payload.size, pieces)
