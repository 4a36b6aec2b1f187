"""A service of our own on the loopback that keeps records as InvenioRDM's records API does.

It is strict where the real one is: a token on everything, the right content types, no unknown key
at the top, drafts that are stored although they are wrong (with ``errors``), files that are begun,
sent and committed in this order, no publication of what is wrong or empty, and none twice. What is
no part of the protocol is answered with 418 and remembered: ``Zenodo.strangers``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

TOKEN: Final = "SecretOfTheTests"  # noqa: S105 (of nobody)
STRANGER: Final = 418
_TOP: Final = {"access", "files", "metadata", "pids", "parent", "custom_fields"}
_METADATA: Final = {
    "resource_type", "title", "publication_date", "creators", "description", "publisher", "rights",
    "subjects", "version", "languages", "dates", "related_identifiers",
}  # fmt: skip
_LICENSES: Final = {"cc-by-4.0", "cc-by-sa-4.0", "cc0-1.0", "odbl-1.0", "odc-by-1.0", "pddl-1.0"}
_RELATIONS: Final = {"references", "issupplementto", "isderivedfrom", "isdocumentedby"}
_MOST_FILES: Final = 100

Json = dict[str, Any]


@dataclass(frozen=True)
class Trouble:
    """One answer that is not the right one."""

    status: int = 503
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"<html>not JSON</html>"
    done: bool = False  #: the work is done all the same, and only the answer is lost
    hang_up: bool = False  #: no answer at all
    altered: bool = False  #: what arrives is not what was sent
    endless: bool = False  #: the body goes on until somebody hangs up


@dataclass
class File:
    """A file of a draft."""

    data: bytes | None = None
    committed: bool = False

    def entry(self, key: str) -> Json:
        """What the API says of it."""
        told: Json = {"key": key, "status": "completed" if self.committed else "pending"}
        if self.committed:
            digest = hashlib.md5(self.data or b"", usedforsecurity=False).hexdigest()
            told |= {"checksum": f"md5:{digest}", "size": len(self.data or b"")}
        return told


@dataclass
class Kept:
    """A record, or the draft of one."""

    body: Json
    files: dict[str, File] = field(default_factory=dict)
    published: bool = False
    version_of: str | None = None


class Zenodo:
    """The server, what it keeps, and what it was asked."""

    def __init__(self) -> None:
        self.records: dict[str, Kept] = {}
        self.asked: list[str] = []  #: "METHOD /path"
        self.strangers: list[str] = []
        self.publications = 0
        self._made = 1000
        self._troubles: dict[str, Iterator[Trouble]] = {}
        self._server = _server(self)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def trouble(self, what: str, *answers: Trouble) -> None:
        """Answer with these, one after the other, to "METHOD end-of-path"."""
        self._troubles[what] = iter(answers)

    def next_trouble(self, asked: str) -> Trouble | None:
        method, _, path = asked.partition(" ")
        for what, answers in self._troubles.items():
            wanted, _, end = what.partition(" ")
            if method == wanted and path.endswith(end):
                return next(answers, None)
        return None

    def next_id(self) -> str:
        self._made += 1
        return str(self._made)

    def sent(self, end: str) -> int:
        """How often a file's bytes were sent."""
        return sum(each.startswith("PUT ") and each.endswith(end) for each in self.asked)

    def only(self) -> Kept:
        (record,) = self.records.values()
        return record

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def serving() -> Iterator[Zenodo]:
    """A service that is asked nothing strange."""
    zenodo = Zenodo()
    try:
        yield zenodo
    finally:
        zenodo.close()
    assert not zenodo.strangers, f"asked for: {zenodo.strangers}"


def _server(zenodo: Zenodo) -> ThreadingHTTPServer:
    handler = type("Handler", (_Handler,), {"zenodo": zenodo})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


class _Refusal(Exception):
    def __init__(self, status: int, message: str, *errors: Json) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"status": status, "message": message, "errors": list(errors)}


def _wrong(place: str, *messages: str) -> Json:
    return {"field": place, "messages": list(messages)}


class _Handler(BaseHTTPRequestHandler):
    zenodo: Zenodo

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("do_"):
            return self._do
        raise AttributeError(name)

    def _do(self) -> None:
        asked = f"{self.command} {self.path}"
        self.zenodo.asked.append(asked)
        trouble = self.zenodo.next_trouble(asked)
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._answer(data, trouble)

    def _answer(self, data: bytes, trouble: Trouble | None) -> None:
        if trouble and trouble.altered:
            data = bytes([data[0] ^ 1]) + data[1:]
        elif trouble and not trouble.done:
            return self._fail(trouble)
        try:
            status, body = self._done(data)
        except _Refusal as refusal:
            status, body = refusal.status, refusal.body
        if trouble and trouble.done:
            return self._fail(trouble)
        return self._send(status, b"" if body is None else json.dumps(body).encode(), {})

    def _fail(self, trouble: Trouble) -> None:
        if trouble.hang_up:
            self.close_connection = True
            self.connection.close()
        elif trouble.endless:
            self._send(trouble.status, b"", {"Content-Length": str(10**12)})
            while True:
                self.wfile.write(b" " * 2**16)
        else:
            self._send(trouble.status, trouble.body, trouble.headers)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response_only(status)
        length = str(len(body))
        for name, value in {"Content-Length": length, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _done(self, data: bytes) -> tuple[int, Json | None]:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            status = 403 if "Authorization" in self.headers else 401
            raise _Refusal(status, "Permission denied.")
        for pattern, methods in _ROUTES:
            found = re.fullmatch(pattern, self.path)
            if found and self.command in methods:
                answer: tuple[int, Json | None] = getattr(self, methods[self.command])(
                    data, *found.groups()
                )
                return answer
        self.zenodo.strangers.append(f"{self.command} {self.path}")
        raise _Refusal(STRANGER, "no part of the protocol")

    def _json(self, data: bytes) -> Any:  # noqa: ANN401 (whatever was sent)
        if self.headers.get("Content-Type") != "application/json":
            raise _Refusal(415, "Invalid 'Content-Type' header. Expected application/json")
        try:
            return json.loads(data)
        except ValueError:
            raise _Refusal(400, "The browser (or proxy) sent a request that is no JSON.") from None

    def _draft(self, record: str) -> Kept:
        kept = self.zenodo.records.get(record)
        if kept is None or kept.published:
            raise _Refusal(404, "The persistent identifier does not exist.")
        return kept

    # Drafts

    def create(self, data: bytes) -> tuple[int, Json]:
        body = self._checked(self._json(data))
        return 201, self._kept(Kept(body))

    def version(self, data: bytes, record: str) -> tuple[int, Json]:
        if data:
            raise _Refusal(400, "nothing was expected")
        old = self.zenodo.records.get(record)
        if old is None or not old.published:
            raise _Refusal(404, "The persistent identifier does not exist.")
        body = json.loads(json.dumps(old.body))
        for dropped in ("publication_date", "version"):
            body["metadata"].pop(dropped, None)
        return 201, self._kept(Kept(body, version_of=record))

    def _kept(self, kept: Kept) -> Json:
        record = self.zenodo.next_id()
        self.zenodo.records[record] = kept
        return self._told(record)

    def _told(self, record: str) -> Json:
        kept = self.zenodo.records[record]
        told = {"id": record, **kept.body, "is_published": kept.published}
        if kept.published:
            return told | {"pids": {"doi": {"identifier": f"10.5072/zenodo.{record}"}}}
        return told | {"errors": _errors(kept.body)}

    def read_draft(self, _: bytes, record: str) -> tuple[int, Json]:
        self._draft(record)
        return 200, self._told(record)

    def write_draft(self, data: bytes, record: str) -> tuple[int, Json]:
        self._draft(record).body = self._checked(self._json(data))
        return 200, self._told(record)

    def read_record(self, _: bytes, record: str) -> tuple[int, Json]:
        kept = self.zenodo.records.get(record)
        if kept is None or not kept.published:
            raise _Refusal(404, "The persistent identifier does not exist.")
        return 200, self._told(record)

    def _checked(self, body: Any) -> Json:  # noqa: ANN401 (whatever was sent)
        if not isinstance(body, dict) or set(body) - _TOP:
            raise _Refusal(400, "A validation error occurred.", _wrong("x", "Unknown field."))
        metadata = body.get("metadata", {})
        kept = {key: value for key, value in metadata.items() if key in _METADATA}
        return {**body, "metadata": kept}  # what it does not know is dropped without a word

    def publish(self, data: bytes, record: str) -> tuple[int, Json]:
        kept = self._draft(record)
        errors = _errors(kept.body)
        if not kept.files or not all(file.committed for file in kept.files.values()):
            errors.append(_wrong("files.enabled", "Missing uploaded files."))
        if errors or data:
            raise _Refusal(400, "A validation error occurred.", *errors)
        kept.published = True
        self.zenodo.publications += 1
        return 202, self._told(record)

    # Files

    def list_files(self, _: bytes, record: str) -> tuple[int, Json]:
        files = self._draft(record).files
        return 200, {"enabled": True, "entries": [f.entry(key) for key, f in files.items()]}

    def begin_files(self, data: bytes, record: str) -> tuple[int, Json]:
        files, wanted = self._draft(record).files, self._json(data)
        if not isinstance(wanted, list) or any(set(each) != {"key"} for each in wanted):
            raise _Refusal(400, "A validation error occurred.", _wrong("key", "Expected a list."))
        keys = [each["key"] for each in wanted]
        if any(key in files for key in keys):
            raise _Refusal(400, f"File with key {keys[0]} already exists.")
        if len(files) + len(keys) > _MOST_FILES:
            raise _Refusal(400, "Uploading too many files.")
        files.update({key: File() for key in keys})
        return 201, {"entries": [files[key].entry(key) for key in keys]}

    def _file(self, record: str, key: str) -> File:
        file = self._draft(record).files.get(key)
        if file is None:
            raise _Refusal(404, f'Record has no file named "{key}".')
        return file

    def read_file(self, _: bytes, record: str, key: str) -> tuple[int, Json]:
        return 200, self._file(record, key).entry(key)

    def send_file(self, data: bytes, record: str, key: str) -> tuple[int, Json]:
        if self.headers.get("Content-Type") != "application/octet-stream":
            raise _Refusal(415, "Invalid 'Content-Type' header.")
        if "Content-Length" not in self.headers:
            raise _Refusal(411, "A length is required.")
        file = self._file(record, key)
        if file.committed:
            raise _Refusal(403, "The file is completed.")
        file.data = data
        return 200, file.entry(key)

    def commit_file(self, data: bytes, record: str, key: str) -> tuple[int, Json]:
        file = self._file(record, key)
        if file.data is None or file.committed or data:
            raise _Refusal(400, "File upload transfer is not completed.")
        file.committed = True
        return 200, file.entry(key)

    def delete_file(self, _: bytes, record: str, key: str) -> tuple[int, None]:
        self._file(record, key)
        del self._draft(record).files[key]
        return 204, None


_RECORD: Final = r"/api/records/(\d+)"
_FILE: Final = rf"{_RECORD}/draft/files/([\w.%-]+)"
_ROUTES: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    (r"/api/records", {"POST": "create"}),
    (_RECORD, {"GET": "read_record"}),
    (rf"{_RECORD}/versions", {"POST": "version"}),
    (rf"{_RECORD}/draft", {"GET": "read_draft", "PUT": "write_draft"}),
    (rf"{_RECORD}/draft/actions/publish", {"POST": "publish"}),
    (rf"{_RECORD}/draft/files", {"GET": "list_files", "POST": "begin_files"}),
    (_FILE, {"GET": "read_file", "DELETE": "delete_file"}),
    (rf"{_FILE}/content", {"PUT": "send_file"}),
    (rf"{_FILE}/commit", {"POST": "commit_file"}),
)


def _errors(body: Json) -> list[Json]:
    """What is wrong with a description: it is stored all the same."""
    metadata = body.get("metadata", {})
    missing = "Missing data for required field."
    found = [
        _wrong(f"metadata.{key}", missing)
        for key in ("resource_type", "title", "publication_date", "creators", "publisher")
        if not metadata.get(key)
    ]
    if metadata.get("resource_type", {}).get("id") != "dataset":
        found.append(_wrong("metadata.resource_type", "Invalid value."))
    for number, creator in enumerate(metadata.get("creators", [])):
        found += _person(creator.get("person_or_org", {}), f"metadata.creators.{number}")
    for number, right in enumerate(metadata.get("rights", [])):
        if right.get("id") not in _LICENSES:
            found.append(_wrong(f"metadata.rights.{number}", f"Invalid value {right}."))
    for number, related in enumerate(metadata.get("related_identifiers", [])):
        if related.get("relation_type", {}).get("id") not in _RELATIONS:
            found.append(_wrong(f"metadata.related_identifiers.{number}", "Invalid value."))
    if not re.fullmatch(r"\d{4}(-\d\d(-\d\d)?)?", str(metadata.get("publication_date", ""))):
        found.append(_wrong("metadata.publication_date", "Please provide a valid date."))
    return found


def _person(person: Json, place: str) -> list[Json]:
    kind = person.get("type")
    if kind not in ("personal", "organizational"):
        return [_wrong(f"{place}.person_or_org.type", "Must be personal or organizational.")]
    wanted = "family_name" if kind == "personal" else "name"
    return [] if person.get(wanted) else [_wrong(f"{place}.person_or_org.{wanted}", "Missing.")]
