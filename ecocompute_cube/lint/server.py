"""``ecocompute lint --lsp``: the same findings in an editor, while one types.

Needs pygls, which the extra ``lsp`` installs. What an editor has open is judged as it stands there,
saved or not; nothing is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ecocompute_cube import __version__
from ecocompute_cube.errors import UsageError
from ecocompute_cube.lint.evidence import told
from ecocompute_cube.lint.found import NotRead
from ecocompute_cube.lint.run import judge
from ecocompute_cube.lint.sources import LARGEST, kind_of, shown

try:
    from lsprotocol import types as lsp
    from pygls.lsp.server import LanguageServer
    from pygls.uris import to_fs_path
except ModuleNotFoundError as error:
    raise UsageError(
        f"The language server needs pygls ({error.name} is missing).",
        "Install it: pip install 'ecocompute-cube[lsp]'.",
    ) from None

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pygls.workspace import TextDocument

    from ecocompute_cube.lint.found import Edit, Finding, Place
    from ecocompute_cube.lint.settings import Settings

NAME: Final = "ecocompute"
_LEVELS: Final = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "note": lsp.DiagnosticSeverity.Information,
}


def serve(gpu: str | None, runtime: str | None, ours: Settings) -> int:
    """Speak with an editor on standard input and output until it ends."""
    server(gpu, runtime, ours).start_io()
    return 0


def server(gpu: str | None, runtime: str | None, ours: Settings) -> LanguageServer:
    """A server that judges what is opened, changed and saved."""
    made = LanguageServer(NAME, __version__)

    def look(uri: str) -> None:
        document = made.workspace.get_text_document(uri)
        found = findings(document, gpu, runtime, ours)
        made.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(
                uri=uri,
                version=document.version,
                diagnostics=[_diagnostic(each, document.lines) for each in found],
            )
        )

    @made.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        look(params.text_document.uri)

    @made.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        look(params.text_document.uri)

    @made.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        none = lsp.PublishDiagnosticsParams(uri=uri, diagnostics=[])
        made.text_document_publish_diagnostics(none)

    @made.feature(lsp.TEXT_DOCUMENT_CODE_ACTION)
    def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        document = made.workspace.get_text_document(params.text_document.uri)
        found = findings(document, gpu, runtime, ours)
        asked = params.range
        return [
            _action(each, document)
            for each in found
            if each.edits and _meets(each.place, asked.start.line + 1, asked.end.line + 1)
        ]

    return made


def findings(
    document: TextDocument, gpu: str | None, runtime: str | None, ours: Settings
) -> list[Finding]:
    """Of what an editor shows; nothing for what cannot be read as it stands."""
    path = to_fs_path(document.uri)
    kind = kind_of(Path(path)) if path else None
    if path is None or kind is None or len(document.source) > LARGEST:
        return []
    name = shown(Path(path))
    if ours.excluded(name):
        return []
    try:
        text = document.source.replace("\r\n", "\n")
        found = judge(text, name, kind, gpu, runtime).findings
    except NotRead:
        return []
    return [each for each in found if not ours.ignored(name, each.code)]


def _meets(place: Place, first: int, last: int) -> bool:
    return place.line <= last and first <= place.end_line


def _diagnostic(finding: Finding, lines: Sequence[str]) -> lsp.Diagnostic:
    said = [finding.message, *map(told, finding.evidence), f"Fix: {finding.fix}"]
    return lsp.Diagnostic(
        range=_range(finding.place, lines),
        severity=_LEVELS[finding.severity],
        code=finding.code,
        source=NAME,
        message="\n".join(said),
    )


def _range(place: Place, lines: Sequence[str]) -> lsp.Range:
    return lsp.Range(
        start=_position(place.line, place.column, lines),
        end=_position(place.end_line, place.end_column, lines),
    )


def _position(line: int, column: int, lines: Sequence[str]) -> lsp.Position:
    """Editors count from 0, and in units of UTF-16."""
    text = lines[line - 1] if line <= len(lines) else ""
    before = text[: column - 1].encode("utf-16-le", "surrogatepass")
    return lsp.Position(line=line - 1, character=len(before) // 2)


def _action(finding: Finding, document: TextDocument) -> lsp.CodeAction:
    lines = document.lines
    edits = [_edit(each, lines) for each in finding.edits]
    return lsp.CodeAction(
        title=f"{finding.code}: remove it",
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=[_diagnostic(finding, lines)],
        edit=lsp.WorkspaceEdit(changes={document.uri: edits}),
        is_preferred=True,
    )


def _edit(edit: Edit, lines: Sequence[str]) -> lsp.TextEdit:
    return lsp.TextEdit(range=_range(edit.place, lines), new_text=edit.text)
