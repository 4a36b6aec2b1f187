"""A hub of our own on the loopback: the part of the protocol that is used, and nothing else.

Large files are handed out by a second server, as the real hub's are by a CDN on another host. A
request that is not part of the protocol is answered with 418 and remembered: ``Hub.strangers``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

LARGE: Final = (".safetensors", ".bin", ".model", ".gguf")  # what a repository keeps in LFS
TOKEN: Final = "hf_SecretOfTheTests"  # noqa: S105 (of nobody)
STRANGER: Final = 418
INVALID: Final = "Invalid credentials in Authorization header"


@dataclass(frozen=True)
class Trouble:
    """One answer that is not the right one."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None  #: close the connection after so many bytes
    end: int | None = None  #: as if the file had only so many bytes
    altered: bool = False  #: one byte is another
    whole: bool = False  #: as if no range had been asked for
    hold: bool = False  #: after the cut, keep the connection open until the hub closes
    silent: bool = False  #: no answer at all until the hub closes
    body: bytes | None = None  #: in place of what should be there


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]

    @property
    def range(self) -> str | None:
        """The range asked for, if any."""
        return self.headers.get("Range")


@dataclass
class Repository:
    """Some files at one commit, and who may have them."""

    files: dict[str, bytes]
    license: str | None = "apache-2.0"
    revisions: tuple[str, ...] = ("main", "v1.0", "refs/pr/1")
    gated: bool = False
    private: bool = False
    accepted: bool = False  #: the token's account has accepted the licence

    @property
    def commit(self) -> str:
        """Another one for other files."""
        told = sorted((name, git_blob(data)) for name, data in self.files.items())
        return git_blob(repr(told).encode())

    def info(self, name: str) -> dict[str, Any]:
        """What the API says of it."""
        return {
            "_id": "0",
            "id": name,
            "sha": self.commit,
            "gated": "manual" if self.gated else False,
            "private": self.private,
            "tags": [],
            "cardData": {"license": self.license} if self.license else None,
            "siblings": [_sibling(name, data) for name, data in sorted(self.files.items())],
        }


def git_blob(data: bytes) -> str:
    data = b"blob %d\0" % len(data) + data
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _sibling(name: str, data: bytes) -> dict[str, Any]:
    told = {"rfilename": name, "size": len(data), "blobId": git_blob(data)}
    if name.endswith(LARGE):
        told["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 130}
    return told


class Hub:
    """The two servers, what they hold, and what they were asked."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.asked: list[Asked] = []
        self.strangers: list[str] = []
        self.closing = threading.Event()
        self._troubles: dict[str, Iterator[Trouble]] = {}
        self._hub = _server(self, _Front)
        self._cdn = _server(self, _Cdn)
        # One address with a name and one without: two hosts to any client.
        self.address = f"http://127.0.0.1:{self._hub.server_port}"
        self.cdn = f"http://localhost:{self._cdn.server_port}"

    def publish(self, name: str, folder: Path) -> Repository:
        """Put a folder's files into a repository."""
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        self.repositories[name] = Repository(files)
        return self.repositories[name]

    def trouble(self, what: str, *answers: Trouble) -> None:
        """Answer with these, one after the other, when a file or the ``api`` is asked for."""
        self._troubles[what] = iter(answers)

    def next_trouble(self, what: str) -> Trouble:
        return next(self._troubles.get(what, iter(())), Trouble())

    def fetched(self) -> list[str]:
        """Names of the files that were asked for, in order."""
        return [each.path.rpartition("/")[2] for each in self.asked if "/resolve/" in each.path]

    def ranges(self, name: str) -> list[str | None]:
        """The ranges in which the hub was asked for a file."""
        resolved = (each for each in self.asked if "/resolve/" in each.path)
        return [each.range for each in resolved if each.path.endswith(f"/{name}")]

    def close(self) -> None:
        self.closing.set()
        for server in (self._hub, self._cdn):
            server.shutdown()
            server.server_close()


@contextlib.contextmanager
def serving() -> Iterator[Hub]:
    """A hub that is asked nothing strange."""
    hub = Hub()
    try:
        yield hub
    finally:
        hub.close()
    assert not hub.strangers, f"asked for: {hub.strangers}"


def _server(hub: Hub, kind: type[_Handler]) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type(kind.__name__, (kind,), {"hub": hub}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    hub: Hub  # one answer a connection (HTTP/1.0), so that none stays open

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.hub.asked.append(
            Asked(self.path, {name.title(): value for name, value in self.headers.items()})
        )
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.answer(urlsplit(self.path).path)

    def __getattr__(self, name: str) -> object:
        """Every other method is strange."""
        if name.startswith("do_"):
            return self.strange
        raise AttributeError(name)

    def answer(self, path: str) -> None:
        raise NotImplementedError

    def strange(self) -> None:
        self.hub.strangers.append(f"{self.command} {self.path}")
        self.refuse(STRANGER)

    def refuse(self, status: int, code: str = "", message: str = "", **more: str) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message, **more}
        self.send(status, b"{}", {name: value for name, value in headers.items() if value})

    def send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, data: bytes, trouble: Trouble) -> None:
        """A file or what is left of it from the place that was asked for."""
        if trouble.altered:
            data = data[:-1] + bytes([data[-1] ^ 1])
        data = data[: trouble.end]
        start = 0 if trouble.whole else self._start()
        if start and start >= len(data):
            return self.refuse(416)
        rest = data[start:]
        headers = {"Content-Length": str(len(rest)), "Accept-Ranges": "bytes"}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self.send(206 if start else 200, rest[: trouble.cut], headers)
        if trouble.hold:
            self.wfile.flush()
            self.hub.closing.wait()
        return None

    def _start(self) -> int:
        asked = self.headers.get("Range", "bytes=0-")
        assert asked.startswith("bytes=") and asked.endswith("-"), asked
        return int(asked[len("bytes=") : -1])


class _Front(_Handler):
    """The hub itself: its API, small files, and redirects for large ones."""

    def answer(self, path: str) -> None:
        if "ecocompute-cube/" not in self.headers["User-Agent"]:
            return self.strange()
        parts = unquote(path).strip("/").split("/")
        if path.startswith("/api/models/"):
            return self._info(path.removeprefix("/api/models/"))
        if "resolve" in parts:
            at = parts.index("resolve")
            return self._file("/".join(parts[:at]), *parts[at + 1 :])
        return self.strange()

    def _info(self, rest: str) -> None:
        name, _, revision = rest.partition("/revision/")
        if not revision or parse_qs(urlsplit(self.path).query) != {"blobs": ["true"]}:
            return self.strange()
        repository = self._repository(name, self.hub.next_trouble("api"))
        if repository is None:
            return None
        if unquote(revision) not in (*repository.revisions, repository.commit):
            return self.refuse(404, "RevisionNotFound", "Invalid rev id")
        return self.send(200, json.dumps(repository.info(name)).encode(), {})

    def _file(self, name: str, commit: str, *file: str) -> None:
        trouble = self.hub.next_trouble(file[-1])
        repository = self._repository(name, trouble)
        if repository is None:
            return None
        if self.headers["Accept-Encoding"] != "identity" or commit != repository.commit:
            return self.strange()
        if len(file) != 1 or file[0] not in repository.files:
            return self.refuse(404, "EntryNotFound", "Entry not found")
        if repository.gated and not (repository.accepted and "Authorization" in self.headers):
            status = 403 if "Authorization" in self.headers else 401
            return self.refuse(status, "GatedRepo", f"Access to model {name} is restricted.")
        data = repository.files[file[0]]
        if file[0].endswith(LARGE):
            return self._redirect(name, commit, file[0], trouble)
        return self.send_file(data, trouble)

    def _repository(self, name: str, trouble: Trouble) -> Repository | None:
        """A repository that this client may see; otherwise it has had its answer."""
        sent = self.headers.get("Authorization")
        known = self.hub.repositories.get(name)
        if trouble.silent:
            self.hub.closing.wait()
        elif trouble.body is not None:
            self.send(trouble.status, trouble.body, trouble.headers)
        elif trouble.status >= 400:
            self.refuse(trouble.status, **trouble.headers)
        elif sent not in (None, f"Bearer {TOKEN}"):
            self.refuse(401, message=INVALID)
        elif known is None or (known.private and not known.accepted):
            self.refuse(404 if sent else 401, "RepoNotFound", "Repository not found")
        else:
            return known
        return None

    def _redirect(self, name: str, commit: str, file: str, trouble: Trouble) -> None:
        data = self.hub.repositories[name].files[file]
        self.hub.trouble(sha256(data), trouble)
        headers = {
            "Location": f"{self.hub.cdn}/cdn/{name}/{file}?signed=1",
            "X-Repo-Commit": commit,
            "X-Linked-Etag": f'"{sha256(data)}"',
            "X-Linked-Size": str(len(data)),
            "X-Xet-Hash": "0" * 64,  # which invites clients to another protocol
        }
        self.send(302, b"", headers)


class _Cdn(_Handler):
    """Large files. Whoever shows a token here has shown it to a stranger."""

    def answer(self, path: str) -> None:
        if "Authorization" in self.headers or not path.startswith("/cdn/"):
            return self.strange()
        name, _, file = path.removeprefix("/cdn/").rpartition("/")
        data = self.hub.repositories[name].files[file]
        return self.send_file(data, self.hub.next_trouble(sha256(data)))
