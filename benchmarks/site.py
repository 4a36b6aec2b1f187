"""How heavy the site's pages are, and how soon each can be used.

``python -m benchmarks.site [--times N]`` writes the site, serves it on this machine and opens every
page N times in Chromium, each time with an empty cache. Printed are, of each page: the bytes that
the browser takes for it (uncompressed), the median and the longest time until its scripts are done
and its charts drawn, and the processor time that took; and how long the site takes to write and
whether two are the same bytes. Status 1 when a page is too heavy or, in the median, too slow.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from ecocompute_cube.site.build import PAGES
from ecocompute_cube.site.write import write_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_MOST_MB: Final = 1.6
_MOST_S: Final = 2.0


class Opened(NamedTuple):
    """One page, opened once."""

    bytes: int
    ready_s: float  #: since navigation began
    cpu_s: float  #: of the page's own thread


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def opened(browser: Browser, address: str) -> Opened:
    """In a context of its own: nothing is cached."""
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable")
    # The page marks itself when it can be used; the time of that is taken inside it.
    page.add_init_script(
        "new MutationObserver(() => { if (document.documentElement?.hasAttribute('data-ready'))"
        " window.readyAt ??= performance.now(); }).observe(document,"
        " { subtree: true, attributes: true, attributeFilter: ['data-ready'] })"
    )
    page.goto(address)
    page.wait_for_function("() => window.readyAt !== undefined")
    metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    taken = page.evaluate(
        "performance.getEntries().filter(e => e.decodedBodySize)"
        ".reduce((sum, e) => sum + e.decodedBodySize, 0)"
    )
    ready = page.evaluate("window.readyAt") / 1e3
    context.close()
    return Opened(int(taken), ready, metrics["TaskDuration"])


def main(arguments: Sequence[str]) -> int:
    """Print the figures; status 1 when one is out of reach, or could not be had."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args(arguments)
    chromium = os.environ.get("ECO_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.stdout.write("site: not measured, there is no chromium\n")
        return 1
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.monotonic()
        files = write_site(folder / "one")
        took = time.monotonic() - start
        write_site(folder / "two")
        alike = all(
            (folder / "one" / f).read_bytes() == (folder / "two" / f).read_bytes() for f in files
        )
        within = alike
        with served(folder / "one") as address, sync_playwright() as player:
            browser = player.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
            )
            opened(
                browser, f"{address}/{PAGES[0].file}"
            )  # the browser's own start is nobody's page
            for page in PAGES:
                found = [opened(browser, f"{address}/{page.file}") for _ in range(options.times)]
                size = found[0].bytes / 1e6
                ready = [each.ready_s for each in found]
                sys.stdout.write(
                    f"{page.file:16} {size:5.2f} MB, ready after {median(ready):.2f} s "
                    f"(longest {max(ready):.2f}), {median(e.cpu_s for e in found):.2f} s CPU\n"
                )
                within &= size <= _MOST_MB and median(ready) <= _MOST_S
            browser.close()
    sys.stdout.write(
        f"n = {options.times} each; written in {took:.1f} s; "
        f"two sites {'are the same bytes' if alike else 'DIFFER'}\n"
    )
    return 0 if within else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
