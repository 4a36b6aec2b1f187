"""The site as people meet it: from a disk, from a server, by keyboard, in the dark, on a phone."""

from __future__ import annotations

import base64
import functools
import http.server
import json
import threading
from typing import TYPE_CHECKING

import pytest

from ecocompute_cube.analysis.estimator import estimate
from ecocompute_cube.analysis.optimizer import optimize
from ecocompute_cube.site.build import PAGES
from ecocompute_cube.units import signed

from .conftest import Look, Seen
from .test_page import document, dropped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

FILES = [page.file for page in PAGES]


@pytest.fixture(scope="module")
def server(site: Path) -> Iterator[str]:
    """The address of the site on a server of this machine, below a path of its own."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing: the test reads what the browser says."""

    handler = functools.partial(Quiet, directory=str(site.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_address[1]}/{site.name}"
        listening.shutdown()


def tiles(seen: Seen) -> dict[str, str]:
    found: dict[str, str] = seen.page.eval_on_selector_all(
        "#tiles > div",
        "all => Object.fromEntries(all.map(e => [e.querySelector('dt').textContent,"
        " [...e.querySelectorAll('dd')].map(d => d.textContent).join('; ')]))",
    )
    return {name: text.replace("\u00a0", " ") for name, text in found.items()}


@pytest.mark.parametrize("file", FILES)
def test_a_page_works_from_a_disk_and_asks_for_nothing_else(
    look: Look, site: Path, file: str
) -> None:
    seen = look((site / file).as_uri())
    assert all(address.startswith((site.as_uri(), "data:")) for address in seen.requests)
    assert seen.errors == []
    drawn = seen.page.locator("[data-chart] svg.marks").count()
    assert drawn == seen.page.locator("[data-chart]").count()


@pytest.mark.parametrize("file", FILES)
def test_a_page_works_from_a_server_and_asks_for_nothing_else(
    chromium: Browser, server: str, file: str
) -> None:
    context = chromium.new_context()  # the loop-back device counts as a network
    seen = Seen(context.new_page())
    seen.open(f"{server}/{file}")
    assert all(address.startswith((f"{server}/", "data:")) for address in seen.requests)
    assert seen.errors == []
    context.close()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("file", FILES)
def test_nothing_keeps_people_out(look: Look, site: Path, file: str, *, dark: bool) -> None:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    seen = look((site / file).as_uri(), dark=dark)
    found = Axe().run(seen.page)
    assert found.response["violations"] == [], found.generate_report()


@pytest.mark.parametrize("file", FILES)
def test_a_page_fits_a_phone(look: Look, site: Path, file: str) -> None:
    seen = look((site / file).as_uri(), width=360)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("file", FILES)
def test_nothing_is_cut_on_paper_and_paper_is_white(look: Look, site: Path, file: str) -> None:
    seen = look((site / file).as_uri(), width=718, dark=True)  # A4 less its margins
    seen.page.emulate_media(media="print")
    cut = seen.page.eval_on_selector_all(
        "table, figure svg, ul, p, dl",
        "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1"
        " && e.checkVisibility()).map(e => e.id || e.outerHTML.slice(0, 60))",
    )
    assert cut == []
    ground = seen.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    assert not seen.page.locator("nav").is_visible()
    if file == "model.html":
        assert seen.page.locator("#tiles").is_visible()
        assert not seen.page.locator("#ask").is_visible()


def test_without_scripts_the_measurements_are_there_all_the_same(
    chromium: Browser, site: Path
) -> None:
    context = chromium.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    assert page.locator("[data-chart] svg").count() == 1
    assert page.locator("#sessions tbody tr").count() > 90
    assert page.locator("#says li").count() > 1
    page.goto((site / "model.html").as_uri())
    assert page.locator("noscript code").is_visible()
    context.close()


def test_a_script_from_elsewhere_or_in_text_does_not_run(look: Look, site: Path) -> None:
    seen = look((site / "model.html").as_uri())
    seen.page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        document.body.append(script);
    }""")
    assert seen.page.evaluate("window.ran") is None
    refused = seen.page.evaluate("fetch('https://example.org').then(() => false, () => true)")
    assert refused


# Tested models


def test_another_board_and_model_can_be_chosen_and_linked(look: Look, site: Path) -> None:
    seen = look((site / "index.html").as_uri())
    before = seen.page.locator('[data-chart="tested"]').inner_html()
    seen.page.locator("#board").select_option("NVIDIA GeForce RTX 4090")
    seen.page.locator("#model").select_option("Qwen2-7B")
    seen.page.wait_for_function(
        "before => document.querySelector('[data-chart=\"tested\"]').innerHTML !== before",
        arg=before,
    )
    assert "NF4 eager: -34.0 % in 2 sessions" in seen.page.locator("#says").inner_text()
    again = look(f"{(site / 'index.html').as_uri()}?gpu=RTX+4090&m=Qwen2-7B")
    assert "NF4 eager: -34.0 % in 2 sessions" in again.page.locator("#says").inner_text()


def test_a_link_of_the_published_site_finds_its_page(look: Look, site: Path) -> None:
    seen = look(f"{(site / 'index.html').as_uri()}?tab=estimate&size=3&arch=ada&prec=NF4&batch=1")
    seen.page.wait_for_url("**/model.html?*")
    seen.page.wait_for_selector("html[data-ready]", state="attached")
    assert "3B, NF4/eager" in seen.page.locator("#understood").inner_text()


# Crossover


def test_the_curves_of_another_arm_are_drawn(look: Look, site: Path) -> None:
    seen = look((site / "crossover.html").as_uri())
    seen.page.locator("#arm").select_option("INT8 eager")
    seen.page.wait_for_function(
        "() => document.querySelector('[data-chart=\"curves\"]').textContent.includes('INT8')"
    )
    numbers = seen.page.locator("#numbers-curves").text_content() or ""
    assert "RTX 4090, INT8 eager" in numbers and "NF4" not in numbers
    assert seen.errors == []


# Your model


def test_a_plain_question_is_answered_as_python_does(look: Look, site: Path) -> None:
    seen = look((site / "model.html").as_uri())
    seen.page.locator("#question").fill("3B on RTX 5090, nf4, 12 bananas")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_function(
        "() => document.getElementById('understood').textContent.includes('5090')"
    )
    found = estimate(3, gpu="rtx 5090")
    assert found.delta_pct is not None and found.mj_per_token is not None
    told = tiles(seen)
    assert told["Change of energy"].startswith(f"{signed(found.delta_pct)} %")
    assert told["Advice"].startswith("it depends; measured")
    assert seen.page.locator("#verdict").inner_text() == found.verdict
    assert "12" in seen.page.locator("#unread").inner_text()
    shown = json.loads(seen.page.locator("#json").text_content() or "")
    assert shown["mj_per_token"] == pytest.approx(found.mj_per_token, rel=1e-3)
    assert len(shown["anchors"]) == len(found.anchors)


def test_the_slider_moves_the_answer_by_keyboard(look: Look, site: Path) -> None:
    seen = look((site / "model.html").as_uri())
    before = seen.page.locator("#understood").inner_text()
    seen.page.locator("#slider").focus()
    for _ in range(40):
        seen.page.keyboard.press("ArrowLeft")
    seen.page.wait_for_function(
        "before => document.getElementById('understood').textContent !== before", arg=before
    )
    size = float(seen.page.locator("#size").input_value())
    assert 1 < size < 6
    assert seen.errors == []


def test_a_link_gives_the_same_answer_again(look: Look, site: Path) -> None:
    seen = look((site / "model.html").as_uri())
    seen.page.locator("#board").select_option("hopper")
    seen.page.locator("#precision").select_option("INT8-T0")
    seen.page.locator("#size").fill("0.494")
    seen.page.wait_for_function(
        "() => document.getElementById('permalink').value.includes('size=0.494')"
    )
    again = look(seen.page.locator("#permalink").input_value())
    assert tiles(again) == tiles(seen)
    assert "for hopper" in again.page.locator("#understood").inner_text()


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("size=NaN", "params_b: "),
        ("size=1e9", "beyond what is sensible"),
        ("batch=0", "batch: 0 is not a whole number"),
        ("ctx=-1", "context: -1 is not"),
        ("gpu=RTX+4095", "Nearest: "),
        ("prec=nf5", "Did you mean NF4?"),
        ("q=7B+on+RTX+4095", "Nearest: "),
        ("q=7B+13B", "says both 7 and 13"),
        ("gpu=%3Cimg+src%3Dx%3E", "<img src=x>"),
    ],
)
def test_a_mistake_in_a_link_is_told_with_its_remedy(
    look: Look, site: Path, link: str, says: str
) -> None:
    seen = look(f"{(site / 'model.html').as_uri()}#{link}")
    told = seen.page.locator("#unread").inner_text() + seen.page.locator("#verdict").inner_text()
    assert says in told
    assert seen.errors == []
    assert seen.page.locator("main img").count() == 0


# Optimize


def test_the_recommendation_is_python_s_and_limits_block(look: Look, site: Path) -> None:
    seen = look(f"{(site / 'optimize.html').as_uri()}#size=7&gpu=4090&batch=any&obj=latency")
    best = optimize(7, gpu="4090", objective="min_latency").recommended
    assert best is not None
    verdict = seen.page.locator("#verdict").inner_text()
    assert verdict == f"{best.precision} {best.runtime}, batch {best.batch}."
    seen.page.locator("#max_vram_gb").fill("3")
    seen.page.wait_for_function(
        "() => document.getElementById('verdict').textContent.startsWith('No combination')"
    )
    assert "max_vram_gb 3.00: it takes" in seen.page.locator("#notes").inner_text()
    again = look(seen.page.locator("#permalink").input_value())
    assert again.page.locator("#notes").inner_text() == seen.page.locator("#notes").inner_text()


def test_cost_needs_a_price_and_says_so(look: Look, site: Path) -> None:
    seen = look((site / "optimize.html").as_uri())
    seen.page.locator("#objective").select_option("min_cost")
    seen.page.wait_for_function(
        "() => document.getElementById('verdict').textContent.includes('no cost without a price')"
    )
    seen.page.locator("#price_per_kwh").fill("0.3")
    seen.page.wait_for_function(
        "() => document.getElementById('tiles').textContent.includes('Cost of 1M tokens')"
    )
    assert seen.errors == []


# Run it yourself


def test_a_dropped_document_is_laid_over_the_curves_and_goes_nowhere(
    look: Look, site: Path
) -> None:
    seen = look((site / "run.html").as_uri())
    before = len(seen.requests)
    told = dropped(seen, "energy.json", json.dumps(document()).encode())
    assert "NF4" in told and "measured" in told
    assert "NVIDIA H200" in told
    assert len(seen.requests) == before
    assert seen.errors == []


def test_a_link_carries_points(look: Look, site: Path) -> None:
    point = {"m": "Mine", "N": 3, "a": "ada", "p": "NF4", "e": -3, "b": "measured"}
    point["g"] = "NVIDIA GeForce RTX 4090"
    coded = base64.urlsafe_b64encode(json.dumps(point).encode()).decode().rstrip("=")
    seen = look(f"{(site / 'index.html').as_uri()}?tab=run&overlay={coded}")
    seen.page.wait_for_url("**/run.html?*")
    seen.page.wait_for_selector("#dropped td")
    assert "consistent" in seen.page.locator("#dropped").inner_text()


# Accuracy × cost × carbon


def test_cost_and_carbon_follow_from_the_table(look: Look, site: Path) -> None:
    seen = look((site / "tradeoff.html").as_uri())
    seen.page.locator("#known").select_option(index=1)
    row = seen.page.locator("#costs tbody tr").first.locator("td")
    kwh, carbon = float(row.nth(2).inner_text()), float(row.nth(3).inner_text())
    assert carbon == pytest.approx(390 * kwh, rel=0.01)


def test_a_page_can_be_used_within_two_seconds(look: Look, site: Path) -> None:
    """Of processor time of the page: what other work on the machine does not lengthen."""
    seen = look((site / "model.html").as_uri())
    session = seen.page.context.new_cdp_session(seen.page)
    session.send("Performance.enable")
    metrics = {
        each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]
    }
    assert 0 < metrics["TaskDuration"] < 2
