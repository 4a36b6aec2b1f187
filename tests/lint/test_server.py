"""An editor's conversation with ``ecocompute lint --lsp``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import pytest

from .rig import EIGHT

pytest.importorskip("pygls", reason="the extra lsp is not installed")

_WIDE: Final = EIGHT.replace("quant = ", 's = "😀"; quant = ')
_DEAD: Final = (
    "from transformers import BitsAndBytesConfig\nc = BitsAndBytesConfig(llm_int8_threshold=1.0)\n"
)


class Editor:
    """Speaks the protocol over the pipes of a server."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._to: IO[bytes] = process.stdin
        self._from: IO[bytes] = process.stdout
        self._last = 0

    def tell(self, method: str, **params: object) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, **params: object) -> Any:  # noqa: ANN401  # whatever is answered
        self._last += 1
        self._send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        return next(m["result"] for m in self._messages() if m.get("id") == self._last)

    def diagnostics(self) -> list[dict[str, Any]]:
        wanted = "textDocument/publishDiagnostics"
        message = next(m for m in self._messages() if m.get("method") == wanted)
        found: list[dict[str, Any]] = message["params"]["diagnostics"]
        return found

    def open(self, uri: str, text: str) -> list[dict[str, Any]]:
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", textDocument=document)
        return self.diagnostics()

    def _send(self, message: dict[str, object]) -> None:
        body = json.dumps(message).encode()
        self._to.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._to.flush()

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            length = 0
            while line := self._from.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            assert length, "the server ended"
            yield json.loads(self._from.read(length))


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    process = subprocess.Popen(
        [sys.executable, "-m", "ecocompute_cube.cli", "lint", "--lsp", "--gpu", "ada"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    speaking = Editor(process)
    speaking.ask("initialize", processId=None, rootUri=tmp_path.as_uri(), capabilities={})
    speaking.tell("initialized")
    yield speaking
    speaking.ask("shutdown")
    speaking.tell("exit")
    assert process.wait(20) == 0


def test_findings_come_and_go_while_one_types(editor: Editor, tmp_path: Path) -> None:
    uri = (tmp_path / "app.py").as_uri()
    (found,) = editor.open(uri, _WIDE)
    assert found["code"] == "ECO101" and found["source"] == "ecocompute"
    assert found["range"]["start"] == {"line": 1, "character": len('s = "😀"; quant = ') + 1 + 19}
    assert "RTX 4090" in found["message"]
    change = [{"text": "x = (\n"}]
    editor.tell(
        "textDocument/didChange",
        textDocument={"uri": uri, "version": 2},
        contentChanges=change,
    )
    assert editor.diagnostics() == []
    editor.tell("textDocument/didClose", textDocument={"uri": uri})
    assert editor.diagnostics() == []


def test_a_safe_edit_is_offered(editor: Editor, tmp_path: Path) -> None:
    uri = (tmp_path / "app.py").as_uri()
    (found,) = editor.open(uri, _DEAD)
    asked = {"textDocument": {"uri": uri}, "range": found["range"], "context": {"diagnostics": []}}
    (action,) = editor.ask("textDocument/codeAction", **asked)
    (edit,) = action["edit"]["changes"][uri]
    line = _DEAD.splitlines()[1]
    start, end = edit["range"]["start"]["character"], edit["range"]["end"]["character"]
    assert line[:start] + edit["newText"] + line[end:] == "c = BitsAndBytesConfig()"


def test_what_is_no_code_of_ours_is_left_alone(editor: Editor, tmp_path: Path) -> None:
    assert editor.open((tmp_path / "notes.txt").as_uri(), EIGHT) == []
    assert editor.open("untitled:one", EIGHT) == []
