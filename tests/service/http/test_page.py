"""Look at the page as a person would: in Chromium, by mouse, by keyboard and by finger.

The streams are made up by `page_server`; `test_page_of_service` looks at real ones.
"""

import re
import time

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra 'service'")
pytest.importorskip("uvicorn", reason="the service needs the extra 'service'")
pytest.importorskip("playwright.sync_api", reason="the page is looked at with playwright (extra 'dev')")
pytest.importorskip("httpx", reason="rows are posted with httpx (extra 'dev')")

import httpx
from playwright.sync_api import expect

from tests.service.browser import chromium, drag, open_page
from tests.service.page_server import LOG_ALARM, MadeUpStream, made_up_app, past_stream, served

KEY = "obil_reader_secret"


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def made_up():
    return made_up_app(
        streams=[
            past_stream("payments-eu", hours=30.0, rise=2.2, alarm=True, labels=900),
            past_stream("shop-de", hours=30.0, rise=3.0, labels=90),
            past_stream("shop-fr", hours=30.0),
        ]
    )


@pytest.fixture
def served_page(made_up):
    """Yield the address, and a function that posts rows at a given prevalence."""
    with served(made_up) as base_url:

        def post_rows(stream, n, prevalence):
            rows = [[1.0 if k < n * prevalence else -1.0] for k in range(n)]
            httpx.post(f"{base_url}/v1/streams/{stream}/decisions", json={"rows": rows}).raise_for_status()

        yield base_url, post_rows


@pytest.fixture
def page(browser, served_page):
    with open_page(browser, served_page[0]) as page:
        yield page


def prevalence_of(text):
    return float(re.match(r"([\d.]+)\s%", text).group(1)) / 100.0


def wait_until(holds, seconds=14.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.05)


def test_shows_all_streams_and_the_prevalence_moves_while_rows_are_posted(page, served_page):
    base_url, post_rows = served_page
    page.goto(base_url)
    row = page.get_by_role("row", name="shop-fr")
    cell = row.locator("td .value").first
    expect(cell).to_have_text(re.compile("%"))
    before = prevalence_of(cell.inner_text())
    post_rows("shop-fr", 400, 0.5)
    wait_until(lambda: prevalence_of(cell.inner_text()) > 2.0 * before)


def test_opens_a_stream_by_keyboard_and_comes_back_to_it(page, served_page):
    page.goto(served_page[0])
    expect(page.get_by_role("row", name="shop-fr")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("ArrowDown")  # the alarm, the first of all
    expect(page.get_by_role("link", name="payments-eu")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("link", name="shop-de")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("shop-de")
    expect(page).to_have_url(re.compile(r"#/streams/shop-de$"))
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="shop-de")).to_be_focused()


def test_a_stream_in_depth_moves_live(page, served_page):
    base_url, post_rows = served_page
    page.goto(f"{base_url}/#/streams/shop-fr")
    figure = page.locator("#figure-prior")
    expect(figure).to_have_text(re.compile("%"))
    before = prevalence_of(figure.inner_text())
    chart = page.get_by_role("img", name="Chart of Prevalence of")
    told = chart.get_attribute("aria-label")
    post_rows("shop-fr", 400, 0.5)
    wait_until(lambda: prevalence_of(figure.inner_text()) > 2.0 * before)
    expect(chart).not_to_have_attribute("aria-label", told)  # the chart and its description follow


def test_dragging_on_one_chart_selects_a_range_for_all(page, served_page):
    page.goto(f"{served_page[0]}/#/streams/shop-de")
    expect(page.locator(".chart canvas")).to_have_count(5)
    alert_chart = page.get_by_role("img", name="Chart of Alert rate")
    before = alert_chart.get_attribute("aria-label")
    drag(page, "#chart-prior", 0.1, 0.4)
    expect(page.locator(".range-text")).to_have_text(re.compile(r"\d\d:\d\d:\d\d to "))
    expect(page).to_have_url(re.compile(r"\?from=\d+.*&to=\d+"))
    expect(alert_chart).not_to_have_attribute("aria-label", before)
    selected = page.evaluate("new URLSearchParams(location.hash.split('?')[1]).entries().toArray()")
    width = float(selected[1][1]) - float(selected[0][1])
    assert width == pytest.approx(0.3 * 30 * 3600, rel=0.05)
    page.get_by_role("button", name="Show all").click()
    expect(page).to_have_url(re.compile(r"shop-de$"))
    expect(alert_chart).to_have_attribute("aria-label", before)


def test_chooses_a_range_by_button_and_by_keys_on_a_chart(page, served_page):
    page.goto(f"{served_page[0]}/#/streams/shop-de")
    hour = page.get_by_role("button", name="The last hour")
    hour.focus()
    page.keyboard.press("Enter")
    expect(hour).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(re.compile(r"\?range=1h$"))
    page.get_by_role("img", name="Chart of Threshold").focus()
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile(r"\?from="))
    page.keyboard.press("0")
    expect(page.get_by_role("button", name="Since the beginning")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("+")
    expect(page).to_have_url(re.compile(r"\?from="))
    page.keyboard.press("-")
    expect(page).to_have_url(re.compile(r"shop-de$"))


def test_a_range_can_be_typed_and_a_link_to_it_opened(page, served_page):
    now = int(time.time())  # the page takes whole seconds
    page.goto(f"{served_page[0]}/#/streams/shop-de?from={now - 7200:.0f}&to={now - 3600:.0f}")
    expect(page.locator(".range-text")).to_have_text(re.compile(r"\d\d:\d\d:\d\d to "))
    page.get_by_text("Between two times").click()
    page.get_by_label("From").fill(time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now - 10000)))
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page).to_have_url(re.compile(rf"from={now - 10000}"))


@pytest.mark.parametrize("width", [360, 390, 768, 1400])
def test_nothing_is_wider_than_the_screen(page, served_page, width):
    page.set_viewport_size({"width": width, "height": 800})
    for address in ("", "#/streams/payments-eu"):
        page.goto(f"{served_page[0]}/{address}")
        expect(page.locator("#connection")).to_have_text("Live")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_says_what_each_quantity_is_by_keyboard(page, served_page):
    page.goto(f"{served_page[0]}/#/streams/shop-de")
    for name in ("the prevalence now", "the alert rate", "the threshold", "expected precision", "expected recall"):
        expect(page.get_by_role("button", name=f"What is {name}?").first).to_be_visible()
    button = page.get_by_role("button", name="What is the threshold?").first
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#tip")).to_contain_text("A row is alerted when")
    expect(button).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(page.locator("#tip")).to_be_hidden()
    expect(page.get_by_role("heading", level=1)).to_have_text("shop-de")  # that key closed the tip, not the stream
    expect(button).to_be_focused()


def test_tells_of_an_alarm_to_those_who_listen(page, served_page, made_up):
    page.goto(served_page[0])
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.get_by_role("row", name="shop-fr")).to_contain_text("Trusted")
    stream = made_up.state.streams["shop-fr"]
    stream.log_evidence = LOG_ALARM + 1.0
    stream.remember(time.time())
    expect(page.locator("#news")).to_have_text("Alarm: stream shop-fr is no longer trusted.")
    expect(page.get_by_role("row", name="shop-fr")).to_contain_text("Alarm")
    expect(page.locator(".count")).to_contain_text("2 alarms")


def test_a_lost_connection_is_seen_and_comes_back_with_what_was_missed(browser, served_page, made_up):
    page = browser.new_page()
    page.goto(f"{served_page[0]}/#/streams/shop-fr")
    expect(page.locator("#connection")).to_have_text("Live")
    before = page.locator("#figure-prior").inner_text()
    made_up.state.away = True
    made_up.state.cut += 1
    expect(page.get_by_role("alert")).to_contain_text("The connection to the service is lost")
    expect(page.locator("#connection")).to_have_text("Connection lost")
    stream = made_up.state.streams["shop-fr"]
    stream.prior = 0.3
    stream.remember(time.time())
    expect(page.locator("#figure-prior")).to_have_text(before)
    made_up.state.away = False
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.locator("#figure-prior")).to_have_text("30 %")
    page.close()


def test_asks_for_a_key_and_keeps_it_for_the_tab_alone(browser):
    app = made_up_app(streams=[past_stream("shop-de", hours=3.0)], key=KEY)
    with served(app) as base_url:
        context = browser.new_context()
        page = context.new_page()
        page.goto(base_url)
        box = page.get_by_label("API key", exact=True)
        expect(box).to_be_focused()
        box.fill("obil_wrong_key")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_contain_text("wrong, expired or revoked")
        box.fill(KEY)
        page.keyboard.press("Enter")
        expect(page.get_by_role("row", name="shop-de")).to_be_visible()
        expect(page.locator("#connection")).to_have_text("Live")
        assert KEY in page.evaluate("JSON.stringify(sessionStorage)")
        assert page.evaluate("localStorage.length + document.cookie.length") == 0
        page.get_by_role("button", name="Forget the key").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0
        context.close()


def test_tells_what_to_do_where_there_is_no_stream_and_shows_the_first_one(browser):
    with served(made_up_app()) as base_url:
        page = browser.new_page()
        page.goto(base_url)
        expect(page.locator("pre")).to_contain_text(f"curl -X POST {base_url}/v1/streams/first/decisions")
        expect(page.locator("pre")).to_contain_text('"amount":0')
        httpx.post(f"{base_url}/v1/streams/first/decisions", json={"rows": [[1.0]]})
        expect(page.get_by_role("row", name="first")).to_be_visible()
        page.close()


def test_searches_filters_and_pages_among_many_streams(browser):
    streams = [MadeUpStream(f"terminal-{k:04d}", rows=5) for k in range(120)]
    streams[77].alarm_row = 3
    with served(made_up_app(streams=streams)) as base_url:
        page = browser.new_page()
        page.goto(base_url)
        rows = page.locator("tbody tr:not(.group)")
        expect(page.locator(".pages")).to_contain_text("1 to 50 of 120")
        expect(page.locator("tbody a").first).to_have_text("terminal-0077")  # its alarm brings it to the first page
        page.get_by_role("button", name="Next").click()
        expect(page.locator(".pages")).to_contain_text("51 to 100 of 120")
        expect(page.get_by_role("link", name="terminal-0077")).to_be_focused()
        page.get_by_role("button", name="Next").click()
        expect(rows).to_have_count(20)
        expect(page.get_by_role("button", name="Next")).to_be_disabled()
        page.get_by_role("searchbox").fill("terminal-004")
        expect(rows).to_have_count(10)
        page.get_by_role("searchbox").fill("")
        page.get_by_label("Only alarms").check()
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("terminal-0077")
        page.get_by_role("searchbox").fill("nowhere")
        expect(page.locator(".empty")).to_contain_text("No stream name contains “nowhere”")
        page.close()


def test_a_finger_selects_a_range(browser, served_page):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{served_page[0]}/#/streams/shop-de")
    over = page.locator("#chart-prior .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    y = box["y"] + box["height"] / 2
    touch = context.new_cdp_session(page)

    def send(kind, x=None):
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [] if x is None else [{"x": x, "y": y}]})

    send("touchStart", box["x"] + 0.2 * box["width"])
    for part in (0.25, 0.35, 0.5, 0.7):
        send("touchMove", box["x"] + part * box["width"])
    send("touchEnd")
    expect(page).to_have_url(re.compile(r"\?from="))
    context.close()


def test_a_stream_that_does_not_exist_is_told_of_and_led_back_from(browser, served_page):
    page = browser.new_page()
    page.goto(f"{served_page[0]}/#/streams/no-such-stream")
    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such stream")
    page.keyboard.press("Escape")
    expect(page.get_by_role("row", name="shop-de")).to_be_visible()
    page.close()


def test_writes_numbers_as_the_reports_do(page, served_page):
    page.goto(served_page[0])
    written = {
        "percent(0.0016)": "0.16 %",
        "percent(0.051)": "5.1 %",
        "percent(0.9944)": "99.44 %",
        "percent(null)": "–",
        "percentRange(0.017, 0.026)": "1.7 to 2.6 %",
        "oneIn(1 / 119)": "1 in 120",
        "oneIn(0.5)": "",
        "odds(2.9)": "18:1",
        "odds(-2)": "1:7.4",
        "odds(40)": "over 1,000,000:1",
        "times(2.1)": "2.1 × more",
        "times(0.25)": "4.0 × less",
        "ago(1000, 1090)": "1 min ago",
        "zone(0)": "UTC",
        "secondsOf('1970-01-01T00:01:00Z')": "60",
    }
    for call, text in written.items():
        assert (
            page.evaluate(f"import('/static/numbers.js').then(numbers => String(numbers.{call}))").replace("\xa0", " ")
            == text
        ), call
