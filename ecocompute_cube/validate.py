"""``ecocompute validate``: schema, protocol and arithmetic of energy.json files, ours or published.

Nothing here needs a board or a network; jsonschema loads when the first document is checked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias

from ecocompute_cube.analysis.arithmetic import Disagreement, disagreements
from ecocompute_cube.analysis.clauses import is_measured
from ecocompute_cube.analysis.documents import Document, at, read_document, shown, text_at
from ecocompute_cube.analysis.protocol import Note, Profile, Verdict, Violation, grade
from ecocompute_cube.errors import DocumentInvalid, EcoError, UsageError
from ecocompute_cube.model.base import Record
from ecocompute_cube.model.journal_file import JOURNAL_NAME
from ecocompute_cube.report.recompute import journal_of
from ecocompute_cube.signature import NAMESPACE, check_signature, is_signed

#: Recomputes a document's figures from the journal beside it: one sentence a disagreement, None
#: where there is no journal.
Recompute: TypeAlias = Callable[[Path, Document], Sequence[str] | None]

Signed: TypeAlias = Callable[[Path], tuple[tuple[Disagreement, ...], tuple[Note, ...]]]

#: What measure writes, and the two ways in which published documents are named.
DOCUMENT_PATTERNS: Final = ("energy*.json", "*.energy.json")
_MOST_PATH: Final = 300  # characters of a path on screen

_DONE, _WANTING = 0, 1
_SIGNED_BY_SOMEBODY: Final = Note(
    code="signature_unchecked",
    text="A signature lies beside the journal; --signers FILE says whose it may be.",
)
_NOT_RECOMPUTED: Final = Note(
    code="not_recomputed",
    text="No journal lies where measure puts it, so the figures were not recomputed from evidence.",
)


class Checked(Record):
    """One file and what was found in it. All text of the file's own is already escaped."""

    path: str
    schema_version: str  #: empty when the document states none
    subject: str  #: model, precision and board as the document names them
    verdict: Verdict
    schema_errors: tuple[str, ...]
    violations: tuple[Violation, ...]
    findings: tuple[Disagreement, ...]  #: figures that contradict each other or the evidence
    notes: tuple[Note, ...]


class Validation(Record):
    """What ``--json`` prints."""

    format: Literal["ecocompute-validation/1"]
    profile: Profile
    exit_status: int
    documents: tuple[Checked, ...]


def validate_paths(
    paths: Sequence[Path],
    profile: Profile = Profile.CORE,
    recompute: Recompute | None = None,
    signers: Path | None = None,
) -> tuple[Checked, ...]:
    """Every document at these paths, checked; a folder stands for those below it, by their names.

    With ``signers``, a file of allowed signers, every journal must be signed by one of them. Raises
    UsageError for a path that is not there and a folder without documents. A file that is
    not a document is a result, not an error: its neighbours are checked all the same.
    """
    found = dict.fromkeys(file for path in paths for file in _documents_at(path))

    @cache
    def signed(journal: Path) -> tuple[tuple[Disagreement, ...], tuple[Note, ...]]:
        return _signed(journal, signers)

    return tuple(_checked(file, profile, recompute, signed) for file in found)


def check_document(document: Document, name: str, profile: Profile = Profile.CORE) -> Checked:
    """One document that lies nowhere, so that no journal and no signature is beside it."""
    return _looked_at(Path(name), document, profile, None, lambda _: ((), ()))


def exit_status(checked: Sequence[Checked], profile: Profile = Profile.CORE) -> int:
    """0: all reach what the profile asks; 1: some are found wanting; 6: some fail their schema."""
    if any(each.verdict is Verdict.SCHEMA_INVALID for each in checked):
        return DocumentInvalid.exit_status
    return _DONE if all(_reaches(each, profile) for each in checked) else _WANTING


def as_text(checked: Sequence[Checked], profile: Profile = Profile.CORE) -> str:
    """A report to read: every verdict with its reasons, and a count at the end."""
    parts = ["\n".join(_lines(each)) for each in checked]
    return "\n\n".join([*parts, _summary(checked, profile)]) + "\n"


def as_json(checked: Sequence[Checked], profile: Profile = Profile.CORE) -> str:
    """The same for programs: keys sorted, the same bytes for the same files."""
    report = Validation(
        format="ecocompute-validation/1",
        profile=profile,
        exit_status=exit_status(checked, profile),
        documents=tuple(checked),
    )
    return json.dumps(report.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"


# Finding and checking


def _documents_at(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    named = {file for pattern in DOCUMENT_PATTERNS for file in path.rglob(pattern)}
    found = sorted(file for file in named if file.is_file())
    if not found:
        raise UsageError(
            f"There is no {' or '.join(DOCUMENT_PATTERNS)} below the folder "
            f"'{shown(str(path), _MOST_PATH)}'.",
            "Name the folder that 'ecocompute measure' wrote to, or a file.",
        )
    return found


def _checked(path: Path, profile: Profile, recompute: Recompute | None, signed: Signed) -> Checked:
    try:
        document = read_document(path)
    except DocumentInvalid as error:
        return _unreadable(path, error)
    return _looked_at(path, document, profile, recompute, signed)


def _looked_at(
    path: Path,
    document: Document,
    profile: Profile,
    recompute: Recompute | None,
    signed: Signed,
) -> Checked:
    graded = grade(document, profile)
    valid = graded.verdict is not Verdict.SCHEMA_INVALID
    again, unchecked = _again(path, document, recompute) if valid else ((), ())
    unsigned, signature = signed(journal_of(path)) if valid else ((), ())
    return Checked(
        path=shown(str(path), _MOST_PATH),
        schema_version=shown(text_at(document, "schema_version") or ""),
        subject=_subject(document),
        verdict=graded.verdict,
        schema_errors=graded.schema_errors,
        violations=graded.violations,
        findings=(
            (*disagreements(document), *_admitted(document), *again, *unsigned) if valid else ()
        ),
        notes=(*graded.notes, *unchecked, *signature),
    )


def _unreadable(path: Path, error: DocumentInvalid) -> Checked:
    return Checked(
        path=shown(str(path), _MOST_PATH),
        schema_version="",
        subject="",
        verdict=Verdict.SCHEMA_INVALID,
        schema_errors=(str(error),),
        violations=(),
        findings=(),
        notes=(),
    )


def _subject(document: Document) -> str:
    places = ("workload.model_name", "workload.precision", "system_under_test.gpu")
    return ", ".join(shown(text) for place in places if (text := text_at(document, place)))


def _again(
    path: Path, document: Document, recompute: Recompute | None
) -> tuple[tuple[Disagreement, ...], tuple[Note, ...]]:
    """What recomputing finds, or a note that nothing was recomputed."""
    try:
        sentences = recompute(path, document) if recompute else None
    except EcoError as error:  # broken evidence of one document must not hide the others
        return (_broken(error.code, error.cause, error.fix),), ()
    except OSError as error:
        cause = f"The journal of the document cannot be read ({error.strerror})."
        return (_broken("journal_unreadable", cause, "Make the run's folder readable."),), ()
    if sentences is None:
        return (), (_NOT_RECOMPUTED,)
    return tuple(_differs(sentence) for sentence in sentences), ()


def _signed(
    journal: Path, signers: Path | None
) -> tuple[tuple[Disagreement, ...], tuple[Note, ...]]:
    """What the signature under a journal is worth."""
    if signers is None:
        return (), (_SIGNED_BY_SOMEBODY,) if is_signed(journal) else ()
    found = check_signature(journal, signers)
    if found.trouble is not None:
        fix = f"Have it signed: ssh-keygen -Y sign -f KEY -n {NAMESPACE} {JOURNAL_NAME}"
        return (_broken("signature", found.trouble, fix),), ()
    return (), (Note(code="signed", text=f"Signed by {shown(found.principal)}."),)


def _broken(code: str, cause: str, fix: str) -> Disagreement:
    return Disagreement(code=code, cause=shown(cause, _MOST_PATH), fix=fix)


def _differs(sentence: str) -> Disagreement:
    return Disagreement(
        code="recomputed",
        cause=shown(sentence, _MOST_PATH),
        fix="Trust the journal, and write the document again from it.",
    )


def _admitted(document: Document) -> Iterator[Disagreement]:
    """What a document of ours itself says forbids its figures."""
    own = at(document, "findings")
    for each in own if isinstance(own, list) and is_measured(document) else []:
        if isinstance(each, dict) and each.get("effect") == "invalid":
            yield Disagreement(
                code=shown(each.get("code")),
                cause=shown(each.get("cause"), _MOST_PATH),
                fix=shown(each.get("fix"), _MOST_PATH),
            )


def _reaches(checked: Checked, profile: Profile) -> bool:
    return checked.verdict.rank >= profile.goal.rank and not checked.findings


# Words


def _lines(checked: Checked) -> Iterator[str]:
    yield f"{checked.path}: {checked.verdict}"
    about = ", ".join(filter(None, (checked.schema_version, checked.subject)))
    if about:
        yield f"  {about}"
    for line in checked.schema_errors:
        yield f"  schema  {line}"
    for violation in checked.violations:
        yield from _reason(f"{violation.clause} {violation.about}", violation.cause, violation.fix)
    for finding in checked.findings:
        yield from _reason(finding.code, finding.cause, finding.fix)
    for note in checked.notes:
        yield f"  note {note.code}: {note.text}"


def _reason(code: str, cause: str, fix: str) -> Iterator[str]:
    yield f"  {code}: {cause}"
    yield f"      {fix}"


def _summary(checked: Sequence[Checked], profile: Profile) -> str:
    counts = Counter(each.verdict for each in checked)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    wanting = sum(bool(each.findings) for each in checked)
    figures = f"; in {wanting} the figures do not fit" if wanting else ""
    return f"{_documents(len(checked))} against {profile}: {verdicts}{figures}."


def _documents(count: int) -> str:
    return "1 document" if count == 1 else f"{count} documents"
