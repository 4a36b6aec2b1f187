"""Bringing a bundle to a service of our own that is as strict as Zenodo says it is."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from ecocompute_cube.archive.about import Wishes
from ecocompute_cube.archive.bar import bar
from ecocompute_cube.archive.service import SANDBOX, ZENODO, Client, Service, token_of
from ecocompute_cube.archive.upload import Uploaded, Wanted, as_text, upload
from ecocompute_cube.cli import main
from ecocompute_cube.errors import (
    DocumentInvalid,
    OutputBusy,
    OutputError,
    ServiceBusy,
    ServiceError,
    ServiceRefused,
    ServiceUnreachable,
    UsageError,
)
from ecocompute_cube.model.bundle import Creator, Layout

from .rig import SOMEBODY, Desk, reseal
from .zenodo_server import TOKEN, Trouble, Zenodo, serving

FILES = {"bundle.zip", "README.md", "manifest.json", "results.csv"}


@pytest.fixture
def zenodo() -> Iterator[Zenodo]:
    with serving() as server:
        yield server


class Sender:
    """Uploads from a desk to a service, and what was waited for and said."""

    def __init__(self, desk: Desk, zenodo: Zenodo) -> None:
        self.desk, self.zenodo = desk, zenodo
        self.waited: list[float] = []
        self.lines: list[str] = []
        self.gone = self.total = 0
        self.clock: Callable[[], float] = lambda: 0.0

    def upload(
        self,
        token: str = TOKEN,
        bundle: Path | None = None,
        publish: bool = False,
        version_of: str | None = None,
    ) -> Uploaded:
        service = Service("The test's service", self.zenodo.address, "TEST_TOKEN")
        client = Client(service, token, self.lines.append, self.waited.append, self.clock)
        wanted = Wanted(bundle or self.desk.out, publish, version_of)
        try:
            return upload(wanted, client, self.lines.append, self._bar, self.waited.append)
        finally:
            client.close()

    def _bar(self, total: int) -> Callable[[int], None]:
        self.total, self.gone = total, 0
        return self._advance

    def _advance(self, count: int) -> None:
        self.gone += count

    @property
    def state(self) -> Path:
        return next(iter(self.desk.folder.glob("*.upload.json")))


@pytest.fixture
def sender(bundled: Desk, zenodo: Zenodo) -> Sender:
    return Sender(bundled, zenodo)


# A draft


def test_a_bundle_becomes_a_draft_with_its_files(sender: Sender, zenodo: Zenodo) -> None:
    done = sender.upload()
    kept = zenodo.only()
    assert not kept.published and not done.published and done.complaints == ()
    assert set(kept.files) == FILES and all(file.committed for file in kept.files.values())
    assert sender.gone == sender.total == sum(len(f.data or b"") for f in kept.files.values())
    assert done.page == f"{zenodo.address}/uploads/{done.record}"
    assert "not public" in as_text(done)


def test_what_arrives_is_a_bundle_that_is_as_it_should_be(sender: Sender, zenodo: Zenodo) -> None:
    sender.upload()
    arrived = sender.desk.folder / "arrived.zip"
    arrived.write_bytes(zenodo.only().files["bundle.zip"].data or b"")
    assert sender.desk.codes(arrived) == set()


@pytest.mark.parametrize("layout", list(Layout))
def test_a_zip_file_is_sent_as_it_is(desk: Desk, zenodo: Zenodo, layout: Layout) -> None:
    place = desk.folder / "mine.zip"
    desk.bundle(place, layout)
    Sender(desk, zenodo).upload(bundle=place)
    files = zenodo.only().files
    assert files["mine.zip"].data == place.read_bytes()
    assert set(files) == {"mine.zip", "README.md", "manifest.json", "results.csv"}


def test_the_description_says_what_the_bundle_says(sender: Sender, zenodo: Zenodo) -> None:
    sender.upload()
    metadata = zenodo.only().body["metadata"]
    assert metadata["title"] == sender.desk.check().manifest.about.title
    assert metadata["rights"] == [{"id": "cc-by-4.0"}]
    assert metadata["publication_date"] == "2026-11-30"
    assert metadata["dates"] == [{"date": "2026-11-30/2026-11-30", "type": {"id": "collected"}}]
    assert metadata["creators"] == [
        {
            "person_or_org": {
                "type": "personal",
                "family_name": "Doe",
                "given_name": "Jane",
                "identifiers": [{"scheme": "orcid", "identifier": "0000-0002-1825-0097"}],
            },
            "affiliations": [{"name": "A University"}],
        }
    ]


def test_a_group_is_a_creator_too(desk: Desk, zenodo: Zenodo) -> None:
    desk.bundle(wishes=Wishes(creators=(Creator(name="The Group"),)))
    assert Sender(desk, zenodo).upload().complaints == ()


def test_what_the_service_finds_wrong_with_a_draft_is_shown_and_not_published(
    sender: Sender, zenodo: Zenodo
) -> None:
    answer = {"id": "1001", "errors": [{"field": "metadata.title", "messages": ["Too dull."]}]}
    wrong = Trouble(200, body=json.dumps(answer).encode())
    zenodo.trouble("PUT /draft", wrong, wrong)
    assert sender.upload().complaints == ("metadata.title: Too dull.",)
    with pytest.raises(ServiceRefused, match="Too dull"):
        sender.upload(publish=True)
    assert zenodo.publications == 0


# Publishing, once


def test_it_is_published_when_that_is_asked_for(sender: Sender, zenodo: Zenodo) -> None:
    done = sender.upload(publish=True)
    assert done.published and zenodo.only().published
    assert done.doi == f"10.5072/zenodo.{done.record}" and done.doi in as_text(done)


@pytest.mark.parametrize("publish", [True, False])
def test_the_same_command_again_publishes_nothing(
    sender: Sender, zenodo: Zenodo, publish: bool
) -> None:
    first = sender.upload(publish=True)
    assert sender.upload(publish=publish) == first
    assert (len(zenodo.records), zenodo.publications) == (1, 1)


def test_a_draft_is_gone_on_with_and_then_published(sender: Sender, zenodo: Zenodo) -> None:
    draft = sender.upload()
    assert sender.upload(publish=True).record == draft.record
    assert (len(zenodo.records), zenodo.publications) == (1, 1)
    assert zenodo.sent("bundle.zip/content") == 1


LOST = (Trouble(500, done=True), Trouble(done=True, hang_up=True), Trouble(504, done=True))


@pytest.mark.parametrize("trouble", LOST)
def test_a_publication_whose_answer_is_lost_is_found_and_not_repeated(
    sender: Sender, zenodo: Zenodo, trouble: Trouble
) -> None:
    zenodo.trouble("POST /publish", trouble)
    assert sender.upload(publish=True).published
    assert zenodo.publications == 1
    assert sum("/publish" in each for each in zenodo.asked) == 1


@pytest.mark.parametrize("trouble", [Trouble(500), Trouble(hang_up=True)])
def test_a_publication_that_did_not_happen_is_told_and_asked_for_by_the_next_command(
    sender: Sender, zenodo: Zenodo, trouble: Trouble
) -> None:
    zenodo.trouble("POST /publish", trouble)
    with pytest.raises(ServiceUnreachable, match="not public so far"):
        sender.upload(publish=True)
    assert zenodo.publications == 0
    assert sender.upload(publish=True).published
    assert (len(zenodo.records), zenodo.publications) == (1, 1)


def test_a_publication_that_shows_only_later_is_not_repeated(
    sender: Sender, zenodo: Zenodo
) -> None:
    zenodo.trouble("POST /publish", Trouble(500, done=True))
    zenodo.trouble("GET /1001", *[Trouble(404)] * 3)
    with pytest.raises(ServiceUnreachable):
        sender.upload(publish=True)
    assert sender.upload(publish=True).published
    assert zenodo.publications == 1


def test_a_publication_that_shows_much_later_is_waited_for_and_not_made_anew(
    sender: Sender, zenodo: Zenodo
) -> None:
    zenodo.trouble("POST /publish", Trouble(500, done=True))
    zenodo.trouble("GET /1001", *[Trouble(404)] * 5)
    for _ in range(3):
        with pytest.raises(ServiceUnreachable, match="not public so far"):
            sender.upload(publish=True)
    assert sender.upload(publish=True).published
    assert (len(zenodo.records), zenodo.publications) == (1, 1)


PORTAL = b"<html>Welcome to the hotel. Log in.</html>"


@pytest.mark.parametrize("body", [PORTAL, b"{}", b"[]", b'{"id": "another"}'])
def test_an_answer_of_somebody_else_is_no_publication(
    sender: Sender, zenodo: Zenodo, body: bytes
) -> None:
    zenodo.trouble("POST /publish", Trouble(200, body=body))
    with pytest.raises(ServiceUnreachable):
        sender.upload(publish=True)
    assert zenodo.publications == 0
    assert sender.upload(publish=True).published
    assert (len(zenodo.records), zenodo.publications) == (1, 1)


def test_an_answer_of_somebody_else_is_no_draft_either(sender: Sender, zenodo: Zenodo) -> None:
    sender.upload()
    zenodo.trouble("GET /draft", Trouble(200, body=PORTAL))
    with pytest.raises(ServiceUnreachable, match="not the records API"):
        sender.upload(publish=True)
    assert zenodo.publications == 0


@pytest.mark.parametrize("pids", ["null", '"x"', '{"doi": null}', '{"doi": {"identifier": 7}}'])
def test_a_publication_without_a_doi_is_one(sender: Sender, zenodo: Zenodo, pids: str) -> None:
    body = f'{{"id": "1001", "is_published": true, "pids": {pids}}}'.encode()
    zenodo.trouble("POST /publish", Trouble(202, body=body, done=True))
    done = sender.upload(publish=True)
    assert (done.published, done.doi) == (True, None)


def test_too_many_requests_are_waited_out_before_a_publication_too(
    sender: Sender, zenodo: Zenodo
) -> None:
    zenodo.trouble("POST /publish", Trouble(429, {"Retry-After": "7"}))
    assert sender.upload(publish=True).published
    assert sender.waited == [7] and zenodo.publications == 1


def test_what_was_published_by_hand_is_seen(sender: Sender, zenodo: Zenodo) -> None:
    sender.upload()
    zenodo.only().published = True
    assert sender.upload(publish=True).published
    assert (len(zenodo.records), zenodo.publications) == (1, 0)


# Going on


def test_what_has_arrived_is_not_sent_again(sender: Sender, zenodo: Zenodo) -> None:
    zenodo.trouble("PUT /manifest.json/content", *[Trouble(503)] * 6)
    with pytest.raises(ServiceUnreachable):
        sender.upload()
    assert sender.upload().complaints == ()
    assert (zenodo.sent("bundle.zip/content"), len(zenodo.records)) == (1, 1)
    assert sender.gone == sender.total


def test_a_commit_whose_answer_is_lost_is_no_fault(sender: Sender, zenodo: Zenodo) -> None:
    zenodo.trouble("POST /README.md/commit", Trouble(502, done=True))
    assert sender.upload().complaints == ()
    assert zenodo.sent("README.md/content") == 1


def test_a_file_that_changed_is_replaced_and_one_that_is_strange_taken_away(
    sender: Sender, zenodo: Zenodo
) -> None:
    sender.upload()
    files = zenodo.only().files
    files["README.md"].data = b"another"
    files["old.zip"] = files["README.md"]
    sender.upload()
    assert set(files) == FILES
    assert files["README.md"].data == (sender.desk.out / "README.md").read_bytes()


def test_a_draft_that_was_discarded_is_begun_anew(sender: Sender, zenodo: Zenodo) -> None:
    first = sender.upload()
    del zenodo.records[first.record]
    second = sender.upload()
    assert second.record != first.record and set(zenodo.records[second.record].files) == FILES


def test_the_zip_of_a_folder_is_always_the_same(sender: Sender, zenodo: Zenodo) -> None:
    sender.upload()
    first = zenodo.only().files["bundle.zip"].data
    shutil.copytree(sender.desk.out, sender.desk.folder / "b" / "bundle")
    Sender(sender.desk, zenodo).upload(bundle=sender.desk.folder / "b" / "bundle")
    second = list(zenodo.records.values())[1].files["bundle.zip"].data
    assert first == second


# New versions


def test_a_changed_bundle_is_a_new_version_of_its_record(sender: Sender, zenodo: Zenodo) -> None:
    first = sender.upload(publish=True)
    wishes = Wishes(creators=(SOMEBODY,), version="2.0.0")
    sender.desk.bundle(wishes=wishes, force=True)
    with pytest.raises(UsageError) as refused:
        sender.upload(publish=True)
    assert f"--new_version {first.record}" in refused.value.fix
    second = sender.upload(publish=True, version_of=first.record)
    assert second.record != first.record
    kept = zenodo.records[second.record]
    assert kept.version_of == first.record and kept.body["metadata"]["version"] == "2.0.0"
    assert sender.upload(publish=True, version_of=first.record) == second
    assert zenodo.publications == 2


def test_a_version_of_what_is_not_there_is_refused(sender: Sender) -> None:
    with pytest.raises(ServiceRefused, match="does not exist"):
        sender.upload(version_of="4711")


def test_a_draft_begun_as_something_else_is_not_taken_for_a_version(sender: Sender) -> None:
    sender.upload()
    with pytest.raises(UsageError, match="was begun as record"):
        sender.upload(version_of="4711")


# Waiting


@pytest.mark.parametrize("what", ["POST /api/records", "PUT /draft", "PUT /README.md/content"])
def test_too_many_requests_are_waited_out_as_the_service_says(
    sender: Sender, zenodo: Zenodo, what: str
) -> None:
    zenodo.trouble(what, Trouble(429, {"Retry-After": "31"}), Trouble(429, {"Retry-After": "2"}))
    assert sender.upload().complaints == ()
    assert sender.waited == [31, 2]
    assert any("Trying again in 31 s" in line for line in sender.lines)
    assert sender.gone == sender.total


def test_a_date_to_wait_for_is_taken_by_the_services_own_clock(
    sender: Sender, zenodo: Zenodo
) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    until = format_datetime(now + timedelta(seconds=42), usegmt=True)
    headers = {"Retry-After": until, "Date": format_datetime(now, usegmt=True)}
    zenodo.trouble("PUT /draft", Trouble(503, headers))
    sender.upload()
    assert sender.waited == [42]


@pytest.mark.parametrize("trouble", [Trouble(500), Trouble(502), Trouble(hang_up=True)])
def test_faults_of_the_service_are_tried_again_with_longer_and_longer_waits(
    sender: Sender, zenodo: Zenodo, trouble: Trouble
) -> None:
    zenodo.trouble("PUT /draft", trouble, trouble, trouble)
    assert sender.upload().complaints == ()
    assert sender.waited == [2, 4, 8]


def test_a_fault_while_a_record_is_made_is_not_tried_again(sender: Sender, zenodo: Zenodo) -> None:
    """It may have been made: a second one would be one too many."""
    zenodo.trouble("POST /api/records", Trouble(500))
    with pytest.raises(ServiceUnreachable, match="status 500"):
        sender.upload()
    assert sender.waited == []


def test_a_wait_of_hours_is_told_and_not_waited(sender: Sender, zenodo: Zenodo) -> None:
    zenodo.trouble("PUT /draft", Trouble(429, {"Retry-After": "7200"}))
    with pytest.raises(ServiceBusy) as told:
        sender.upload()
    assert "7200 s" in told.value.fix and sender.waited == []


def test_a_service_that_stays_away_is_given_up(sender: Sender, zenodo: Zenodo) -> None:
    zenodo.trouble("PUT /draft", *[Trouble(503)] * 6)
    with pytest.raises(ServiceUnreachable, match="status 503"):
        sender.upload()
    assert len(sender.waited) == 5


def test_a_service_that_is_not_there_is_told(sender: Sender, zenodo: Zenodo) -> None:
    zenodo.close()
    with pytest.raises(ServiceUnreachable, match="cannot be reached"):
        sender.upload()


@pytest.mark.parametrize("status", [200, 400, 503])
def test_an_answer_without_end_is_cut_off(sender: Sender, zenodo: Zenodo, status: int) -> None:
    zenodo.trouble("PUT /draft", *[Trouble(status, endless=True)] * 6)
    with pytest.raises(ServiceUnreachable, match="no end"):
        sender.upload()


def test_an_answer_that_trickles_is_cut_off(sender: Sender, zenodo: Zenodo) -> None:
    zenodo.trouble("PUT /draft", *[Trouble(200, endless=True)] * 6)
    sender.clock = itertools.count(step=200).__next__
    with pytest.raises(ServiceUnreachable, match="no end"):
        sender.upload()


def test_a_body_nested_without_end_is_no_answer(sender: Sender, zenodo: Zenodo) -> None:
    zenodo.trouble("POST /api/records", Trouble(201, body=b'{"a":' * 100_000))
    with pytest.raises(ServiceUnreachable, match="not the records API"):
        sender.upload()


@pytest.mark.parametrize("record", ["../../x", "1\x1b[2J", "", None, {"a": 1}, "1" * 300])
def test_an_id_that_is_none_goes_nowhere(sender: Sender, zenodo: Zenodo, record: object) -> None:
    body = json.dumps({"id": record}).encode()
    zenodo.trouble("POST /api/records", Trouble(201, body=body))
    with pytest.raises(ServiceUnreachable, match="not the records API"):
        sender.upload()
    assert len(zenodo.asked) == 1


# What does not arrive, or should not be sent


@pytest.mark.parametrize("record", ["https://zenodo.org/records/7", "10.5281/zenodo.7", "", "7/.."])
def test_a_version_of_what_is_no_record_is_told_before_anything_is_asked(
    sender: Sender, zenodo: Zenodo, record: str
) -> None:
    with pytest.raises(UsageError, match="no number of a record"):
        sender.upload(version_of=record)
    assert zenodo.asked == []


def test_where_nothing_can_be_noted_nothing_is_begun(sender: Sender, zenodo: Zenodo) -> None:
    place = sender.desk.out.rename(sender.desk.folder / ("b" * 240))  # too long with .upload.json
    with pytest.raises(OutputError, match="too long") as refused:
        sender.upload(bundle=place)
    assert zenodo.asked == [] and "beside it" in refused.value.fix


def test_a_bundle_of_another_version_without_its_pages_is_not_sent(
    sender: Sender, zenodo: Zenodo
) -> None:
    (sender.desk.out / "README.md").unlink()
    reseal(sender.desk.out, lambda manifest: manifest.update(tool_version="0.0.1"))
    with pytest.raises(DocumentInvalid, match=r"README\.md"):
        sender.upload()
    assert zenodo.asked == []


def test_what_is_no_file_is_not_waited_for(sender: Sender) -> None:
    pipe = sender.desk.folder / "pipe.zip"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="no bundle"):
        sender.upload(bundle=pipe)


def test_a_file_that_arrives_altered_is_taken_away_and_sent_anew_by_the_next_command(
    sender: Sender, zenodo: Zenodo
) -> None:
    zenodo.trouble("PUT /bundle.zip/content", Trouble(altered=True))
    with pytest.raises(ServiceRefused, match="MD5 differs"):
        sender.upload(publish=True)
    assert zenodo.only().files == {} and zenodo.publications == 0
    assert sender.upload(publish=True).published


def test_a_bundle_that_is_found_wanting_is_not_sent(sender: Sender, zenodo: Zenodo) -> None:
    (sender.desk.out / "README.md").write_text("edited")
    with pytest.raises(DocumentInvalid, match=r"README\.md"):
        sender.upload()
    assert zenodo.asked == []


def test_a_bundle_of_nobody_is_not_sent(desk: Desk, zenodo: Zenodo) -> None:
    desk.bundle(wishes=Wishes())
    with pytest.raises(UsageError, match="Nobody is named"):
        Sender(desk, zenodo).upload()
    assert zenodo.asked == []


def test_two_uploads_of_one_bundle_do_not_meet(sender: Sender, zenodo: Zenodo) -> None:
    inner: list[str] = []

    class Nested(Sender):
        def _advance(self, count: int) -> None:
            super()._advance(count)
            if not inner:
                inner.append("asked")
                with pytest.raises(OutputBusy):
                    sender.upload()
                inner.append("refused")

    Nested(sender.desk, zenodo).upload()
    assert inner == ["asked", "refused"]


def test_a_state_that_is_none_is_told(sender: Sender) -> None:
    sender.upload()
    sender.state.write_text("{}")
    with pytest.raises(DocumentInvalid, match=r"upload\.json"):
        sender.upload()


# The token


def test_a_complaint_that_repeats_the_token_is_shown_without(
    sender: Sender, zenodo: Zenodo
) -> None:
    sender.upload()
    error = {"field": "x", "messages": [f"token {TOKEN} has no right"]}
    body = json.dumps({"id": "1001", "errors": [error]}).encode()
    zenodo.trouble("PUT /draft", *[Trouble(200, body=body)] * 2)
    assert sender.upload().complaints == ("x: token … has no right",)
    with pytest.raises(ServiceRefused) as refused:
        sender.upload(publish=True)
    assert TOKEN not in str(refused.value)


def test_a_wrong_token_is_told_without_its_letters(sender: Sender) -> None:
    with pytest.raises(ServiceRefused) as refused:
        sender.upload("WrongToken")
    assert "TEST_TOKEN" in refused.value.fix and "WrongToken" not in str(refused.value)


def test_the_token_stands_nowhere(sender: Sender, zenodo: Zenodo) -> None:
    said = f"your token was {TOKEN}".encode()
    refusal = json.dumps({"status": 400, "message": said.decode()}).encode()
    zenodo.trouble("PUT /draft", Trouble(400, body=refusal))
    with pytest.raises(ServiceError) as refused:
        sender.upload()
    done = sender.upload(publish=True)
    told = [str(refused.value), as_text(done), *sender.lines, sender.state.read_text()]
    assert "your token was …" in told[0]
    assert all(TOKEN not in each for each in told)
    everything = [p for p in sender.desk.folder.rglob("*") if p.is_file()]
    assert all(TOKEN.encode() not in path.read_bytes() for path in everything)


def test_a_redirect_takes_the_token_nowhere(sender: Sender, zenodo: Zenodo) -> None:
    with serving() as elsewhere:
        away = {"Location": f"{elsewhere.address}/api/records"}
        zenodo.trouble("POST /api/records", Trouble(302, away))
        with pytest.raises(ServiceError):
            sender.upload()
        assert elsewhere.asked == []


@pytest.mark.parametrize("service", [SANDBOX, ZENODO])
def test_each_service_has_a_token_of_its_own(service: Service) -> None:
    other = ZENODO if service is SANDBOX else SANDBOX
    assert token_of(service, {service.variable: " abc\n", other.variable: "x"}) == "abc"
    with pytest.raises(UsageError, match=f"{service.variable} is not set"):
        token_of(service, {other.variable: "x"})
    with pytest.raises(UsageError, match="no token has"):
        token_of(service, {service.variable: "a b"})


# The command


def test_without_a_token_nothing_is_tried(
    bundled: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZENODO_SANDBOX_TOKEN", raising=False)
    monkeypatch.delenv("ZENODO_TOKEN", raising=False)
    assert main(["upload", str(bundled.out)]) == 2
    assert "ZENODO_SANDBOX_TOKEN" in capsys.readouterr().err
    assert main(["upload", str(bundled.out), "--production", "--publish"]) == 2
    assert "error: ZENODO_TOKEN" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", "ftp://me:password@host"),
        ("HTTPS_PROXY", "socks9://host"),
        ("SSL_CERT_FILE", "/nowhere/ca.pem"),
        ("SSL_CERT_FILE", __file__),
    ],
)
def test_an_environment_that_no_connection_can_be_made_with_is_told(
    bundled: Desk,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
) -> None:
    monkeypatch.setenv("ZENODO_SANDBOX_TOKEN", TOKEN)
    monkeypatch.setenv(name, value)
    assert main(["upload", str(bundled.out)]) == 2
    told = capsys.readouterr().err
    assert name in told and "password" not in told


def test_what_is_no_bundle_is_told_before_anything_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZENODO_SANDBOX_TOKEN", TOKEN)
    assert main(["upload", str(tmp_path / "nowhere")]) == 2
    assert "no bundle" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_a_bar_that_moves_and_ends_full() -> None:
    screen = Terminal()
    advance = bar(screen, lambda _: None)(200)
    for count in (50, 50, -100, 100, 100):
        advance(count)
    shown = re.split(r"[\r\n]", screen.getvalue())
    assert [re.search(r"(\d+) %", each)[1] for each in shown if each] == [  # type: ignore[index]
        "25", "50", "0", "50", "100",
    ]  # fmt: skip
    assert shown[-2].startswith(f"[{'#' * 30}]") and screen.getvalue().endswith("\n")


def test_a_log_sees_no_bar() -> None:
    screen = io.StringIO()
    bar(screen, lambda _: None)(200)(200)
    assert screen.getvalue() == ""
