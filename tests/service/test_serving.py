"""``ecocompute serve`` as a process: it starts, answers and ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from ecocompute_cube.cli import main
from ecocompute_cube.errors import UsageError
from ecocompute_cube.service.libraries import REST, TOOLS, require
from ecocompute_cube.service.serving import address_of, is_loopback, listen

COMMAND: Final = [sys.executable, "-m", "ecocompute_cube.cli", "serve"]


@contextmanager
def served(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [*COMMAND, "--port", "0", *options]
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            found = re.search(r"http://\S+", said)
            assert found, said
            yield process, found[0]
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_until_it_is_asked_to_end(number: signal.Signals) -> None:
    with served() as (process, address):
        with urllib.request.urlopen(f"{address}/v1/estimate?q=7B+on+h200") as reply:  # noqa: S310
            assert b'"basis"' in reply.read()
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err) == (0, "", "")


def test_a_port_that_is_taken_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    assert f"port {port}" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 300, "\N{SNOWMAN}", "999.1.1.1"])
def test_a_host_that_is_none_is_told(host: str) -> None:
    with pytest.raises(UsageError, match="Nothing can listen"):
        listen(host, 0)


@pytest.mark.parametrize(
    "options", [["--port", "65536"], ["--port", "x"], ["--rate_limit", "-1"], ["--proxies", "1.5"]]
)
def test_wrong_options_are_usage(options: list[str]) -> None:
    assert main(["serve", *options]) == 2


def test_what_is_not_installed_is_named_with_the_remedy() -> None:
    require(*REST, *TOOLS)
    with pytest.raises(UsageError, match="no_such_library, which") as told:
        require("fastapi", "no_such_library")
    assert "ecocompute-cube[service]" in told.value.fix


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("example.org", False),
    ],
)
def test_loopback_is_known(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone


def test_an_address_can_be_typed() -> None:
    with listen("::1", 0) as six, listen("127.0.0.1", 0) as four:
        assert address_of(six).startswith("http://[::1]:")
        assert address_of(four).startswith("http://127.0.0.1:")
