"""A journal signed with a key of the test's own, checked by the real ssh-keygen."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from ecocompute_cube.errors import UsageError
from ecocompute_cube.model.journal_file import JOURNAL_NAME
from ecocompute_cube.report.recompute import recompute
from ecocompute_cube.report.write import write_energy
from ecocompute_cube.signature import NAMESPACE, check_signature
from ecocompute_cube.validate import Checked, validate_paths

from ..run.rig import Scene, plan

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="OpenSSH's ssh-keygen is not installed here"
)


class Person(NamedTuple):
    """A key, and the line by which others know it."""

    key: Path
    line: str


def _person(folder: Path, name: str) -> Person:
    key = folder / name
    made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)]
    subprocess.run(made, check=True)
    return Person(key, f"{name}@example.org {key.with_suffix('.pub').read_text()}")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Person]:
    folder = tmp_path_factory.mktemp("keys")
    return {name: _person(folder, name) for name in ("ada", "eve")}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = Scene(tmp_path).measure(plan(protocol={"blocks": 1}))
    write_energy(folder)
    return folder


@pytest.fixture
def signers(tmp_path: Path, people: dict[str, Person]) -> Path:
    """Ada may sign."""
    file = tmp_path / "signers"
    file.write_text(people["ada"].line)
    return file


def _sign(run: Path, person: Person, namespace: str = NAMESPACE) -> None:
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(person.key), "-n", namespace]
    subprocess.run([*command, str(run / JOURNAL_NAME)], check=True, capture_output=True)


def _codes(checked: tuple[Checked, ...]) -> tuple[set[str], set[str]]:
    """Codes of findings, and of notes about signatures."""
    findings = {finding.code for each in checked for finding in each.findings}
    notes = {note.code for each in checked for note in each.notes}
    return findings, notes & {"signed", "signature_unchecked"}


def _check(run: Path, signers: Path | None = None) -> tuple[Checked, ...]:
    return validate_paths([run], recompute=recompute, signers=signers)


def test_an_allowed_signature_is_named(run: Path, signers: Path, people: dict[str, Person]) -> None:
    _sign(run, people["ada"])
    checked = _check(run, signers)
    assert _codes(checked) == (set(), {"signed"})
    assert any("ada@example.org" in note.text for note in checked[0].notes)


def test_a_signature_that_nobody_asks_about_is_mentioned(
    run: Path, people: dict[str, Person]
) -> None:
    _sign(run, people["ada"])
    assert _codes(_check(run)) == (set(), {"signature_unchecked"})
    (run / f"{JOURNAL_NAME}.sig").unlink()
    assert _codes(_check(run)) == (set(), set())


def test_whoever_asks_for_signatures_is_told_of_their_absence(run: Path, signers: Path) -> None:
    assert _codes(_check(run, signers)) == ({"signature"}, set())


def test_anothers_signature_counts_for_nothing(
    run: Path, signers: Path, people: dict[str, Person]
) -> None:
    _sign(run, people["eve"])
    assert _codes(_check(run, signers)) == ({"signature"}, set())


def test_a_signature_for_another_purpose_counts_for_nothing(
    run: Path, signers: Path, people: dict[str, Person]
) -> None:
    _sign(run, people["ada"], namespace="file")
    assert _codes(_check(run, signers)) == ({"signature"}, set())


def test_a_journal_that_was_changed_since_is_not_the_signed_one(
    run: Path, signers: Path, people: dict[str, Person]
) -> None:
    _sign(run, people["ada"])
    with (run / JOURNAL_NAME).open("ab") as journal:
        journal.write(b"\n")
    trouble = check_signature(run / JOURNAL_NAME, signers).trouble
    assert trouble == "The journal is not as it was when it was signed."


def test_what_is_missing_on_this_machine_is_a_usage_error(
    run: Path, signers: Path, people: dict[str, Person]
) -> None:
    _sign(run, people["ada"])
    with pytest.raises(UsageError, match="no-such-program"):
        check_signature(run / JOURNAL_NAME, signers, program="no-such-program")
    with pytest.raises(UsageError, match="allowed signers"):
        check_signature(run / JOURNAL_NAME, run / "nobody")
