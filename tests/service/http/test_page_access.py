"""The page for everybody: what axe-core finds in wide, phone, dark and light, and what Tab reaches."""

import shutil
import subprocess
import tarfile

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra 'service'")
pytest.importorskip("uvicorn", reason="the service needs the extra 'service'")
pytest.importorskip("playwright.sync_api", reason="the page is looked at with playwright (extra 'dev')")

from playwright.sync_api import expect

from tests.service.browser import chromium, open_page
from tests.service.page_server import made_up_app, past_stream, served

AXE = "axe-core@4.14.1"


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """Return the script of axe-core, from the registry that npm knows."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"{AXE} is installed with npm, which is not installed")
    folder = tmp_path_factory.mktemp("axe")
    got = subprocess.run([npm, "pack", AXE], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if got.returncode != 0:
        pytest.skip(f"npm cannot get {AXE}: {got.stderr.strip()[-200:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def base_url():
    streams = [
        past_stream("payments-eu", hours=30.0, rise=2.2, alarm=True, labels=900),
        past_stream("shop-de", hours=30.0, rise=3.0, labels=90),
        past_stream("shop-fr", hours=30.0, alarm=True),
    ]
    streams[0].note("noted", "a note")
    streams[2].note("acknowledged", "seen")
    streams[2].acknowledged_by = "on-call"
    app = made_up_app(streams=streams)
    app.state.shadow = {
        "version": "7b5cc4e6a505ec0d", "since": "2026-01-05T10:00:00Z", "rows": 1_200, "agreement": 0.971, "alerts": 45,
        "active_alerts": 40, "log_ratio_difference": {"0": 0.0, "1": -0.31}, "prior": {"0": 0.9, "1": 0.1},
        "trusted": False,
    }  # fmt: skip
    with served(app) as base_url:
        yield base_url


def violations(page, axe):
    """Return what axe-core finds in the page as it is, with everything that can be opened open."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate(axe)
    found = page.evaluate("axe.run()")
    assert len(found["passes"]) > 30  # it has looked
    return [(one["id"], [node["target"] for node in one["nodes"]]) for one in found["violations"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("address", ["#/", "#/streams/payments-eu", "#/streams/shop-de", "#/streams/shop-fr",
                                     "#/compare?streams=payments-eu,shop-de"])  # fmt: skip
def test_axe_finds_nothing(browser, base_url, axe, address, width, scheme):
    size = {"width": width, "height": 900}
    with open_page(browser, base_url, viewport=size, color_scheme=scheme) as page:
        page.goto(f"{base_url}/{address}")
        expect(page.locator("#connection")).to_have_text("Live")
        if address != "#/":
            expect(page.locator(".chart canvas").first).to_be_visible()
        if address.startswith("#/streams"):
            expect(page.get_by_text("97.1\u00a0% decided alike")).to_be_visible()
        assert violations(page, axe) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_axe_finds_nothing_in_what_opens_above_the_page(browser, base_url, axe):
    with open_page(browser, base_url) as page:
        page.goto(f"{base_url}/#/streams/shop-de")
        page.get_by_role("button", name="What is the threshold?").first.click()
        expect(page.locator("#tip")).to_be_visible()
        assert violations(page, axe) == []
    with served(made_up_app(key="obil_a_secret")) as locked:
        page = browser.new_page()
        page.goto(locked)
        expect(page.get_by_role("dialog")).to_be_visible()
        page.evaluate(axe)
        assert page.evaluate("axe.run()")["violations"] == []
        page.close()


@pytest.mark.parametrize("address", ["#/", "#/streams/payments-eu"])
def test_everything_that_can_be_pressed_is_reached_by_tab_and_seen_there(browser, base_url, address):
    with open_page(browser, base_url) as page:
        page.goto(f"{base_url}/{address}")
        expect(page.locator("#connection")).to_have_text("Live")
        wanted = page.evaluate(
            """() => [...document.querySelectorAll("a[href], button, input, textarea, summary, [tabindex='0']")]
                .filter((one) => one.checkVisibility() && one.tabIndex >= 0 && !one.disabled).length"""
        )
        reached = set()
        for _ in range(wanted + 5):
            page.keyboard.press("Tab")
            place, outlined = page.evaluate(
                """() => [[...document.body.querySelectorAll("*")].indexOf(document.activeElement),
                    getComputedStyle(document.activeElement).outlineStyle !== "none"]"""
            )
            if place >= 0:  # between the last and the first it is the body
                reached.add(place)
                assert outlined
        assert len(reached) >= wanted
