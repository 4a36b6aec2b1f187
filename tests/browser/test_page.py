"""The report page as people meet it: offline, by keyboard, in the dark, on a phone, on paper."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ecocompute_cube.report.write import write_report

from ..report.stage import measured, quick, scene
from .conftest import ROOT, Look, Seen

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MOST_BYTES = 1_600_000


@pytest.fixture
def page(look: Look, report: Path) -> Seen:
    return look((report / "report.html").as_uri())


def test_it_works_from_a_disk_without_a_request_and_without_an_error(page: Seen) -> None:
    assert len(page.requests) == 1  # itself
    assert page.requests[0].startswith("file:")
    assert page.errors == []
    drawn = page.page.locator("[data-chart] svg.marks").count()
    assert drawn == page.page.locator("[data-chart]").count() >= 3


def test_it_is_small(report: Path) -> None:
    assert (report / "report.html").stat().st_size <= MOST_BYTES


def test_it_can_be_used_within_two_seconds(page: Seen) -> None:
    ready = page.page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive")
    assert ready < 2000


def test_the_numbers_are_those_of_report_json(page: Seen, report: Path) -> None:
    runs = json.loads((report / "report.json").read_text())["runs"]
    told = [arm["energy"]["mj_per_token"] for run in runs for arm in run["arms"]]
    shown = page.page.eval_on_selector_all(
        "#arms tbody tr", "rows => rows.map(row => Number(row.cells[2].dataset.value))"
    )
    assert sorted(shown) == pytest.approx(sorted(told), rel=1e-8)


def test_a_head_sorts_by_keyboard_and_says_so(page: Seen) -> None:
    button = page.page.locator("#arms th button", has_text="kJ per 1M tokens")
    script = "rows => rows.map(row => Number(row.cells[2].dataset.value))"
    for order, reverse in (("ascending", False), ("descending", True)):
        button.focus()
        page.page.keyboard.press("Enter")
        found = page.page.eval_on_selector_all("#arms tbody tr", script)
        assert found == sorted(found, reverse=reverse)
        assert button.locator("..").get_attribute("aria-sort") == order


def test_another_visit_can_be_chosen(page: Seen) -> None:
    before = page.page.locator('[data-chart="power"] svg').inner_html()
    page.page.locator("#visit").select_option("1")
    page.page.wait_for_function(
        "before => document.querySelector('[data-chart=\"power\"] svg').innerHTML !== before",
        arg=before,
    )
    assert page.errors == []


def test_cost_and_carbon_need_a_factor_and_show_it(page: Seen) -> None:
    assert page.page.locator("#costs table").count() == 0
    page.page.locator("#price").fill("0.30")
    page.page.locator("#known").select_option(index=1)
    row = page.page.locator("#costs tbody tr").first.locator("td")
    kwh, price, carbon = (float(row.nth(column).inner_text()) for column in (2, 3, 4))
    assert price == pytest.approx(0.3 * kwh, rel=0.01)
    assert carbon == pytest.approx(390 * kwh, rel=0.01)
    source = page.page.locator("#factor-source").inner_text()
    assert "390 g" in source
    assert "Energy Information Administration" in source


def document() -> dict[str, Any]:
    path = next((ROOT / "data/h200/runs").glob("*-verdict/arms/*NF4_graph/energy.json"))
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def dropped(page: Seen, name: str, text: bytes) -> str:
    page.page.locator("#files").set_input_files(
        {"name": name, "mimeType": "application/json", "buffer": text}
    )
    page.page.wait_for_selector("#dropped > *")
    page.page.wait_for_function("() => !document.querySelector('#files').files.length")
    told: str = page.page.locator("#dropped").inner_text()
    return told


def test_a_dropped_document_is_a_point_and_goes_nowhere(page: Seen) -> None:
    told = dropped(page, "energy.json", json.dumps(document()).encode())
    assert "NF4" in told
    assert "measured" in told
    assert len(page.requests) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"{", "is no JSON"),
        (b'{"a": NaN}', "is no JSON"),
        (b"[]", "no energy.json"),
        (b"null", "no energy.json"),
        (b'{"schema_version": "ecocompute-energy/2.0"}', "benchmark: is missing"),
        (b" " * (3 * 2**20), "MiB"),
    ],
)
def test_what_is_no_document_is_told(page: Seen, text: bytes, says: str) -> None:
    assert says in dropped(page, "mine.json", text)
    assert page.errors == []


def test_a_dropped_folder_is_told(page: Seen) -> None:
    """No program may drop a folder: a file that is gone when it is read fails in the same way."""
    page.page.evaluate("""async () => {
        const gone = new File([], "arms");
        gone.text = async () => { throw new DOMException("not found", "NotFoundError"); };
        const event = new Event("drop");
        event.dataTransfer = { files: [gone] };
        document.getElementById("drop").dispatchEvent(event);
    }""")
    page.page.wait_for_selector("#dropped > *")
    assert "arms: it cannot be read" in page.page.locator("#dropped").inner_text()
    assert page.errors == []


def test_a_hostile_document_stays_text(page: Seen) -> None:
    hostile = document()
    hostile["workload"]["model_name"] = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    assert "<img src=x" in dropped(page, "energy.json", json.dumps(hostile).encode())
    assert page.page.locator("#dropped img, #dropped script").count() == 0
    assert page.errors == []


def test_a_link_carries_points_as_the_published_site_codes_them(look: Look, report: Path) -> None:
    point = {"m": "Ünnamed", "N": 6.74, "a": "ada", "p": "NF4", "e": -12.5, "b": "measured"}
    coded = base64.urlsafe_b64encode(json.dumps(point).encode()).decode().rstrip("=")
    address = (report / "report.html").as_uri()
    seen = look(f"{address}?tab=run&overlay={coded}&overlay=%%%")
    told = seen.page.locator("#dropped").inner_text()
    assert "Ünnamed" in told and "-12.5" in told
    assert "cannot be read" in told
    again = look(seen.page.locator("#link").input_value())
    assert "Ünnamed" in again.page.locator("#dropped").inner_text()


def test_published_sessions_can_be_switched_on_behind(page: Seen) -> None:
    chart = page.page.locator('[data-chart="crossover"] svg')
    before = chart.inner_html().count("<path")
    page.page.locator("#background").check()
    page.page.wait_for_function(
        "n => (document.querySelector('[data-chart=\"crossover\"] svg').innerHTML.match(/<path/g)"
        " ?? []).length > n + 5",
        arg=before,
    )
    assert page.errors == []


def test_a_point_is_laid_beside_the_band_of_its_curve(page: Seen) -> None:
    """The packaged RTX 5090 sessions have a curve with a band."""
    curves = page.page.evaluate("JSON.parse(document.getElementById('published').textContent)")
    banded = next(c for c in curves if c["band"] and None not in c["band"][len(c["band"]) // 2])
    size, low, high = banded["band"][len(banded["band"]) // 2]
    mine = document()
    mine["system_under_test"]["gpu"] = banded["board"]
    mine["workload"] |= {k: banded[k] for k in ("precision", "runtime")} | {"params_b": size}
    for change, says in (((low + high) / 2, "consistent"), (high + 50, "outside the band")):
        mine["results"]["vs_fp16_energy_pct"] = change
        assert says in dropped(page, "energy.json", json.dumps(mine).encode())


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_keeps_people_out(look: Look, report: Path, *, dark: bool) -> None:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    seen = look((report / "report.html").as_uri(), dark=dark)
    found = Axe().run(seen.page)
    assert found.response["violations"] == [], found.generate_report()


def test_it_fits_a_phone(look: Look, report: Path) -> None:
    seen = look((report / "report.html").as_uri(), width=360)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_labels_are_as_large_on_a_phone(look: Look, report: Path) -> None:
    seen = look((report / "report.html").as_uri(), width=360)
    scales = seen.page.eval_on_selector_all(
        "[data-chart] svg.marks",
        "all => all.map(svg => svg.getBoundingClientRect().width / svg.getAttribute('width'))",
    )
    assert scales == pytest.approx([1.0] * len(scales), rel=0.01)
    crossover = seen.page.locator('[data-chart="crossover"]')
    assert crossover.evaluate("place => place.scrollWidth") < 600  # drawn anew, not only cut off


def test_it_prints(page: Seen) -> None:
    page.page.emulate_media(media="print")
    assert not page.page.locator("#drop").is_visible()
    assert page.page.locator('[data-chart="energy"] svg').is_visible()
    assert page.page.pdf()[:4] == b"%PDF"


def test_without_scripts_the_charts_are_there_all_the_same(chromium: Browser, report: Path) -> None:
    context = chromium.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto((report / "report.html").as_uri())
    assert page.locator("[data-chart] svg").count() >= 3
    assert page.locator("#arms tbody tr").count() > 10
    context.close()


@pytest.fixture(scope="session")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report of two runs of one plan."""
    set_up = scene(tmp_path_factory.mktemp("twice"))
    measured(set_up, quick())
    measured(set_up, quick())
    folder = tmp_path_factory.mktemp("pooled")
    write_report(set_up.output, folder, lambda _: None)
    return folder


def test_runs_together_have_a_table_with_the_numbers_of_report_json(
    look: Look, pooled: Path
) -> None:
    seen = look((pooled / "report.html").as_uri())
    (one,) = json.loads((pooled / "report.json").read_text())["pooled"]
    (row,) = seen.page.eval_on_selector_all(
        "#pooled tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert float(row[2]) == pytest.approx(one["mj_per_token"], rel=5e-3)
    low, high = (float(end) for end in row[3].split(" to "))
    assert low == pytest.approx(one["interval_mj"]["low"], rel=5e-3)
    assert high == pytest.approx(one["interval_mj"]["high"], rel=5e-3)
    assert row[7] == f"{one['n']} {one['unit']}"
    assert seen.errors == []


def test_the_tables_of_runs_together_fit_too(look: Look, pooled: Path) -> None:
    seen = look((pooled / "report.html").as_uri())
    for table in ("#pooled", "#arms"):
        scrolled = seen.page.locator(table).locator("..")
        assert scrolled.evaluate("place => place.scrollWidth <= place.clientWidth"), table


@pytest.mark.parametrize("which", ["report", "pooled"])
def test_nothing_is_cut_on_paper(look: Look, request: pytest.FixtureRequest, which: str) -> None:
    folder: Path = request.getfixturevalue(which)
    seen = look((folder / "report.html").as_uri(), width=718)  # A4 less its margins
    seen.page.emulate_media(media="print")
    cut = seen.page.eval_on_selector_all(
        "table, pre, figure svg, ul, p",
        "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1"
        " && e.checkVisibility()).map(e => e.id || e.outerHTML.slice(0, 60))",
    )
    assert cut == []


def test_paper_is_white_in_the_dark_too(look: Look, report: Path) -> None:
    seen = look((report / "report.html").as_uri(), dark=True)
    seen.page.emulate_media(media="print")
    ground = seen.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert ground == "rgb(255, 255, 255)"


def test_no_ink_of_a_chart_is_black_in_the_dark(look: Look, report: Path) -> None:
    seen = look((report / "report.html").as_uri(), dark=True)
    black = seen.page.eval_on_selector_all(
        "[data-chart] svg.marks [class*=legend] path, [data-chart] svg.marks text",
        "all => all.filter(e => [e.getAttribute('fill'), e.getAttribute('stroke')].some("
        "c => ['black', '#000', '#000000'].includes(c))).map(e => e.outerHTML.slice(0, 200))",
    )
    assert black == []
