"""Open pages in Chromium that must stay without an error and without a request to another host."""

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium, or skip with the reason."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("the page is looked at in Chromium, which is not installed")
    expect.set_options(timeout=20_000)  # a shared machine may be busy
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextlib.contextmanager
def open_page(browser: Browser, base_url: str, **settings: Any) -> Iterator[Page]:
    """Open a page, and fail at the end if it complained or asked another host."""
    context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, "timezone_id": "UTC"} | settings)
    page = context.new_page()
    faults: list[str] = []
    hosts: set[str] = set()
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    yield page
    context.close()
    assert faults == []
    assert hosts == {base_url.split("/")[2]}


def drag(page: Page, chart: str, start: float, end: float) -> None:
    """Drag over a part of a chart, from and to a fraction of its width."""
    box = page.locator(f"{chart} .u-over").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + (start + end) / 2 * box["width"], middle, steps=4)
    page.mouse.move(box["x"] + end * box["width"], middle, steps=4)
    page.mouse.up()
