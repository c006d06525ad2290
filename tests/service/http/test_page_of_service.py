"""Look at the page of the service itself: a real model, real streams, a real store."""

import re
import time
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra 'service'")
pytest.importorskip("uvicorn", reason="the service needs the extra 'service'")
pytest.importorskip("httpx", reason="rows are posted with httpx (extra 'dev')")
pytest.importorskip("playwright.sync_api", reason="the page is looked at with playwright (extra 'dev')")

import httpx
from playwright.sync_api import expect

from obil.service.http.app import create_app, page_routes
from obil.service.service_settings import ServiceSettings
from obil.service.storage.store import open_store
from obil.service.streams.model_registry import ModelRegistry
from obil.service.streams.operations import StreamSettings
from obil.service.streams.stream_hub import StreamHub
from tests.service.browser import chromium, drag, open_page
from tests.service.models import gaussian_rows, saved_model
from tests.service.page_server import served


@pytest.fixture
def served_page(tmp_path: Path):
    """Yield the address of a service, and a function that posts rows at a given prevalence."""
    store = open_store(str(tmp_path / "streams.db"))
    registry = ModelRegistry(saved_model(tmp_path / "model"), store)
    hub = StreamHub(store, registry, defaults=StreamSettings(tracker="bank"))
    app = create_app(hub, ServiceSettings())
    if "/" not in {getattr(route, "path", None) for route in app.routes}:
        app.include_router(page_routes())
    with served(app) as base_url:

        def post_rows(stream, n, prevalence, seed=0):
            rows, _ = gaussian_rows(n, prevalence, seed)
            answer = httpx.post(f"{base_url}/v1/streams/{stream}/decisions", json={"rows": rows.tolist()}, timeout=60.0)
            answer.raise_for_status()

        post_rows.hub = hub
        yield base_url, post_rows
    hub.close()


def prevalence_of(text):
    return float(re.match(r"([\d.]+)\s%", text).group(1)) / 100.0


def test_a_stream_is_found_opened_followed_and_looked_at_in_part(served_page):
    base_url, post_rows = served_page
    for seed in range(4):
        post_rows("shop-de", 100, 0.1, seed)
    post_rows("shop-fr", 100, 0.1)
    with chromium() as browser, open_page(browser, base_url) as page:
        page.goto(base_url)
        row = page.get_by_role("row", name="shop-de")
        expect(row).to_contain_text("Too few rows")
        expect(page.locator("#connection")).to_have_text("Live")
        before = prevalence_of(row.locator("td .value").first.inner_text())
        assert before < 0.3

        post_rows("shop-de", 500, 0.7, 5)  # the list follows
        expect(row.locator("td .value").first).to_have_text(re.compile(r"^[4-9]\d\s%"))

        page.keyboard.press("/")  # a stream is opened by keyboard
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("shop-de")
        figure = page.locator("#figure-prior")
        expect(figure).to_have_text(re.compile(r"^[4-9]\d\s%"))
        expect(page.locator(".report")).to_contain_text("of '1' rose from 11 %")
        expect(page.locator(".chart canvas")).to_have_count(5)

        post_rows("shop-de", 1_000, 0.05, 6)  # the stream in depth follows
        expect(figure).to_have_text(re.compile(r"^([1-2]\d|\d\.\d)\s%"))

        drag(page, "#chart-prior", 0.1, 0.6)  # a range is chosen for all charts
        expect(page).to_have_url(re.compile(r"\?from=\d+.*&to=\d+"))
        expect(page.locator(".range-text")).to_have_text(re.compile(r"\d\d:\d\d:\d\d to "))

        page.keyboard.press("Escape")
        expect(page.get_by_role("row", name="shop-fr")).to_be_visible()


def test_a_shadow_model_is_compared_beside_the_active_one(served_page, tmp_path):
    base_url, post_rows = served_page
    post_rows("shop-de", 2_000, 0.3)
    hub = post_rows.hub
    folder = saved_model(tmp_path / "newer", seed=1)
    version = hub._registry.add({path.name: path.read_bytes() for path in folder.iterdir()}, by="ann")
    with chromium() as browser, open_page(browser, base_url) as page:
        page.goto(f"{base_url}/#/streams/shop-de")
        panel = page.locator("section", has=page.get_by_role("heading", name="Shadow model"))
        expect(page.locator("#figure-prior")).not_to_have_text("–")
        expect(panel).to_be_hidden()
        httpx.post(f"{base_url}/v1/models/{version}/shadow?fraction=1").raise_for_status()
        page.reload()
        expect(panel).to_contain_text("no row has been compared yet")
        post_rows("shop-de", 400, 0.3, 1)
        deadline = time.monotonic() + 20.0
        while not httpx.get(f"{base_url}/v1/streams/shop-de/shadow").json()["rows"] and time.monotonic() < deadline:
            time.sleep(0.1)
        page.reload()
        expect(panel).to_contain_text(re.compile(r"on 400 rows since .* 9\d(\.\d+)?\s% decided alike"))
        expect(panel.get_by_role("row", name="Alerts among these rows")).to_have_text(re.compile(r"\d+ \(\d\d\s%\)"))
        expect(panel.get_by_role("row", name="Prevalence now")).to_have_text(re.compile(r"[23]\d\s%.*[23]\d\s%"))
        expect(panel).to_contain_text(f"/v1/models/{version}/activate")
