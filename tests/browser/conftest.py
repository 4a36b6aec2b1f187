"""A page of recorded runs, and the site, in a real browser that has no network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ecocompute_cube.report.write import write_report
from ecocompute_cube.site.write import write_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium; ECO_REQUIRE_BROWSER makes its absence an error."""
    path = os.environ.get("ECO_CHROMIUM") or shutil.which("chromium")
    if path is None:
        if os.environ.get("ECO_REQUIRE_BROWSER"):
            pytest.fail("there is no chromium: apt-get install chromium")
        pytest.skip("there is no chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report of the runs in data/."""
    folder = tmp_path_factory.mktemp("report")
    write_report(ROOT / "data/h200/runs", folder, lambda _: None)
    return folder


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    folder = tmp_path_factory.mktemp("site")
    write_site(folder)
    return folder


class Seen:
    """An open page, with everything it asked for and complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._said)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def open(self, address: str) -> None:
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]", state="attached")


Look = Callable[..., Seen]


@pytest.fixture
def look(chromium: Browser) -> Iterator[Look]:
    """Open an address in a window of its own; its size and its colours may be given."""
    contexts: list[BrowserContext] = []

    def open_page(address: str, width: int = 1100, *, dark: bool = False) -> Seen:
        context = chromium.new_context(
            offline=True,
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
        )
        contexts.append(context)
        seen = Seen(context.new_page())
        seen.open(address)
        return seen

    yield open_page
    for context in contexts:
        context.close()
