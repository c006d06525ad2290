"""What the person on duty sees and does: made-up streams in Chromium, one statement of docs/service.md per test."""

import re
import time

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra 'service'")
pytest.importorskip("uvicorn", reason="the service needs the extra 'service'")
pytest.importorskip("playwright.sync_api", reason="the page is looked at with playwright (extra 'dev')")

from playwright.sync_api import expect

from obil.online.reports.change_advice import BUILDING_UP
from obil.online.reports.stream_facts import ROWS_TO_TELL
from tests.service.browser import chromium, open_page
from tests.service.page_server import LOG_ALARM, MadeUpStream, made_up_app, past_stream, served


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def made_up():
    """Streams whose names are in the order opposite to how urgent they are."""
    now = time.time()
    streams = [
        past_stream("a-calm", hours=30.0, rise=2.2),
        MadeUpStream("b-new", rows=int(ROWS_TO_TELL) - 1),
        past_stream("c-seen", hours=30.0, alarm=True),
        past_stream("d-silent", hours=30.0),
        past_stream("e-building", hours=30.0),
        past_stream("f-alarm", hours=30.0, alarm=True, labels=900),
    ]
    streams[2].acknowledged_by = "on-call"
    streams[3].last_row = now - 7200.0
    streams[4].log_evidence = BUILDING_UP + 0.1
    return made_up_app(streams=streams)


@pytest.fixture
def base_url(made_up):
    with served(made_up) as base_url:
        yield base_url


@pytest.fixture
def page(browser, base_url):
    with open_page(browser, base_url, timezone_id="Asia/Kolkata") as page:
        yield page


def test_streams_that_need_somebody_come_first(page, base_url, made_up):
    page.goto(base_url)
    names = page.locator("tbody th a")
    expect(names).to_have_text(["f-alarm", "e-building", "d-silent", "c-seen", "a-calm", "b-new"])
    expect(page.locator("tbody .group")).to_have_text(["Need somebody", "All others"])
    made_up.state.streams["a-calm"].log_evidence = LOG_ALARM + 1.0
    made_up.state.streams["a-calm"].remember(time.time())
    expect(names.first).to_have_text("a-calm")  # at once


def test_only_a_stream_that_is_monitored_long_enough_and_sends_rows_is_green(page, base_url, made_up):
    made_up.state.streams["g-unmonitored"] = unmonitored = past_stream("g-unmonitored", hours=3.0)
    unmonitored.log_evidence = None
    page.goto(base_url)
    for name, text in (
        ("a-calm", "Trusted"), ("b-new", "Too few rows"), ("c-seen", "Alarm, acknowledged"),
        ("e-building", "Look again"), ("f-alarm", "Alarm"), ("g-unmonitored", "Not monitored"),
    ):  # fmt: skip
        expect(page.get_by_role("row", name=name).locator(".badge")).to_have_text(re.compile(rf"^\W? ?{text}$"))
    silent = time.strftime("%H:%M", time.gmtime(made_up.state.streams["d-silent"].last_row + 5.5 * 3600))
    expect(page.get_by_role("row", name="d-silent").locator(".badge")).to_contain_text(f"Silent since {silent}")
    expect(page.locator(".badge.good")).to_have_count(1)
    for name in ("b-new", "d-silent"):
        page.goto(f"{base_url}/#/streams/{name}")
        expect(page.locator(".report .badge")).to_contain_text("Nothing so far")
        expect(page.locator(".badge.good")).to_have_count(0)
    page.goto(base_url)
    made_up.state.streams["b-new"].see(False, time.time())
    made_up.state.streams["b-new"].remember(time.time())
    expect(page.get_by_role("row", name="b-new")).to_contain_text("Trusted")


def test_an_alarm_is_one_headline_with_time_and_zone_what_changed_and_what_to_do_here(page, base_url, made_up):
    page.goto(f"{base_url}/#/streams/f-alarm")
    since = made_up.state.streams["f-alarm"].alarm_since
    shown = time.strftime("%H:%M:%S UTC+5:30", time.gmtime(since + 5.5 * 3600))
    alarm = page.get_by_role("region", name="Alarm since")
    expect(alarm.get_by_role("heading", level=2)).to_have_count(1)
    expect(alarm.get_by_role("heading", level=2)).to_contain_text(
        f"{shown}: what arrives no longer looks like the data"
    )
    expect(alarm).to_contain_text("27 % of the recent rows have a log ratio")
    expect(alarm).to_contain_text("about 310 rows picked at random")
    expect(alarm.get_by_role("region", name="A command that sends a label")).to_contain_text(
        f"curl -X POST {base_url}/v1/streams/f-alarm/labels"
    )
    assert "online." not in page.locator("main").inner_text()
    page.goto(f"{base_url}/#/streams/a-calm")
    expect(page.get_by_role("heading", level=1)).to_have_text("a-calm")
    expect(page.locator("#figure-prior")).to_contain_text("%")
    expect(page.locator(".alarm")).to_be_hidden()


def test_figures_that_are_not_reliable_are_grey_and_say_so(page, base_url):
    def colour(selector):
        return page.locator(selector).evaluate("one => getComputedStyle(one).color")

    page.goto(f"{base_url}/#/streams/f-alarm")
    for quantity in ("prior", "threshold", "precision", "recall"):
        expect(page.locator(f".tile.{quantity}")).to_contain_text("not reliable")
        assert colour(f"#figure-{quantity}") != colour("#figure-alert_rate")
    expect(page.locator(".tile.alert_rate, .tile.evidence").filter(has_text="not reliable")).to_have_count(0)
    page.goto(f"{base_url}/#/streams/a-calm")
    expect(page.get_by_role("heading", level=1)).to_have_text("a-calm")
    expect(page.locator("#figure-prior")).to_contain_text("%")
    expect(page.locator(".tile").filter(has_text="not reliable")).to_have_count(0)
    assert colour("#figure-prior") == colour("#figure-alert_rate")
    page.goto(base_url)
    expect(page.get_by_role("row", name="f-alarm").locator(".untrusted").first).to_contain_text("not reliable")
    expect(page.get_by_role("row", name="a-calm").locator(".untrusted")).to_have_count(0)


def test_an_alarm_is_acknowledged_with_a_note_that_stays(page, base_url):
    page.goto(f"{base_url}/#/streams/f-alarm")
    expect(page.locator(".alarm")).to_contain_text("Nobody has acknowledged it yet")
    page.get_by_label("What you found or will do").fill("the till sends <b>cents</b>")
    page.get_by_role("button", name="Acknowledge the alarm").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".alarm .seen")).to_have_text(
        re.compile(r"Acknowledged by on-call, .*UTC\+5:30: the till sends <b>cents</b>$")
    )
    expect(page.get_by_role("button", name="Acknowledge the alarm")).to_be_hidden()
    expect(page.locator(".changes").first).to_contain_text("Alarm acknowledged: the till sends <b>cents</b>")
    page.get_by_label("Note", exact=True).fill("a new till comes tomorrow")
    page.get_by_role("button", name="Add the note").click()
    expect(page.locator(".changes li")).to_have_count(3)  # and one change of the settings
    page.reload()
    expect(page.locator(".changes").first).to_contain_text("a new till comes tomorrow")
    page.keyboard.press("Escape")
    expect(page.get_by_role("row", name="f-alarm")).to_contain_text("Alarm, acknowledged")


def test_a_note_that_is_refused_stays_in_its_box_with_the_reason(browser, base_url, made_up):
    made_up.state.may_only_read = True
    page = browser.new_page()
    page.goto(f"{base_url}/#/streams/a-calm")
    page.get_by_label("Note", exact=True).fill("for later")
    page.get_by_role("button", name="Add the note").click()
    expect(page.get_by_role("alert").filter(has_text="Not kept")).to_contain_text("this key lacks the scope 'label'")
    expect(page.get_by_label("Note", exact=True)).to_have_value("for later")
    page.close()


def test_the_monitor_is_restarted_here_and_the_alarm_is_over(page, base_url):
    page.goto(f"{base_url}/#/streams/f-alarm")
    expect(page.locator(".alarm")).to_be_visible()
    page.get_by_text("Once the cause is fixed").click()
    page.get_by_role("button", name="Restart the monitor").click()
    expect(page.locator(".alarm")).to_be_hidden()
    expect(page.locator(".heading .badge")).to_contain_text("Trusted")
    expect(page.locator("#news")).to_contain_text("The alarm of stream f-alarm is over.")


def test_what_is_typed_and_opened_stays_while_rows_come(page, base_url, made_up):
    page.goto(f"{base_url}/#/streams/f-alarm")
    page.get_by_label("What you found or will do").fill("I am wri")
    page.get_by_text("The report in full").first.click()
    before = page.locator("#figure-prior").inner_text()
    stream = made_up.state.streams["f-alarm"]
    stream.prior = 0.3
    stream.remember(time.time())
    expect(page.locator("#figure-prior")).not_to_have_text(before)
    expect(page.get_by_label("What you found or will do")).to_have_value("I am wri")
    expect(page.locator(".alarm li").filter(has_text="rose from 2.0 % in training to 30.0 %")).to_be_visible()


def test_every_figure_of_a_screen_is_of_one_snapshot(page, base_url, made_up):
    """While the prevalence moves without a rest, tile, report, chart and its end agree at every moment."""
    stream = made_up.state.streams["a-calm"]
    page.goto(f"{base_url}/#/streams/a-calm")
    expect(page.locator("#figure-prior")).to_contain_text("%")
    seen = set()
    for k in range(60):
        stream.prior = 0.1 + 0.005 * k
        stream.rows += 5
        stream.remember(time.time())
        stream.history["prior"][-1] = 0.9  # the history is read at another moment: its end must not show
        tile, report, chart = page.evaluate(
            """() => ["#figure-prior", ".sentences", "#chart-prior .plot"].map((one) => document.querySelector(one))
                .map((one) => one.getAttribute("aria-label") ?? one.textContent)"""
        )
        now = float(re.match(r"[\d.]+", tile)[0])
        assert float(re.search(r"in training to ([\d.]+) %", report)[1]) == pytest.approx(now, abs=0.51)
        assert float(re.search(r"Last: ([\d.]+)", chart)[1]) == pytest.approx(now, abs=0.01)
        seen.add(tile)
        time.sleep(0.1)
    assert len(seen) >= 3
    assert page.locator("#chart-prior .reading").inner_text() == ""  # no second figure until one is pointed at
    box = page.locator("#chart-prior .u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#chart-prior .reading")).to_have_text(re.compile(r"\d\d:\d\d:\d\d UTC\+5:30: \d"))


PIXELS = """([chart, name]) => {
  const [canvas, over] = ["canvas", ".u-over"].map((one) => document.querySelector(`${chart} ${one}`));
  const [ratio, box, outer] = [devicePixelRatio, over.getBoundingClientRect(), canvas.getBoundingClientRect()];
  const [x0, y0] = [(box.left - outer.left) * ratio, (box.top - outer.top) * ratio].map(Math.round);
  const [w, h] = [box.width * ratio, box.height * ratio].map(Math.round);
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [w + 1, h];
  const drawn = copy.getContext("2d", { willReadFrequently: true });
  drawn.drawImage(canvas, -x0, -y0);
  drawn.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
  drawn.fillRect(w, 0, 1, 1);
  const [wanted, data] = [drawn.getImageData(w, 0, 1, 1).data, drawn.getImageData(0, 0, w, h).data];
  const [rows, columns] = [new Array(h).fill(0), new Array(w).fill(0)];
  for (let i = 0; i < w * h; i += 1) {
    if ([0, 1, 2].some((c) => Math.abs(data[4 * i + c] - wanted[c]) > 3) || data[4 * i + 3] < 200) continue;
    rows[Math.floor(i / w)] += 1;
    columns[i % w] += 1;
  }
  return {
    rows: rows.flatMap((n, y) => (n > w / 4 ? [y / h] : [])),
    columns: columns.flatMap((n, x) => (n > h / 2 ? [x / w] : [])),
  };
}"""


def pixels(page, chart, colour):
    """Return the rows and columns of a chart, as fractions of its plot, that have much of a colour."""
    return page.evaluate(PIXELS, [chart, colour])


@pytest.mark.parametrize("evidence", [-400.0, 2.0, LOG_ALARM + 1.0, 900.0])
def test_the_alarm_line_is_in_sight_whatever_the_evidence(page, base_url, made_up, evidence):
    stream = made_up.state.streams["a-calm"]
    stream.history["log_evidence"] = [evidence * k / 600 for k in range(600)]
    stream.log_evidence = evidence
    page.goto(f"{base_url}/#/streams/a-calm")
    expect(page.locator("#chart-evidence .key").first).to_contain_text("alarm at 200:1")
    (*_, line) = pixels(page, "#chart-evidence", "bad")["rows"]
    assert 0.25 < line < 0.75


def test_charts_mark_the_alarm_the_change_and_notes_and_grey_what_follows(page, base_url, made_up):
    stream = made_up.state.streams["f-alarm"]
    stream.note("noted", "look here")
    stream.events[0]["at"] = stream.events[0]["at"].replace("Z", "+00:00")
    page.goto(f"{base_url}/#/streams/f-alarm")
    chart = page.locator("#chart-threshold")
    expect(chart.locator(".key").nth(1)).to_contain_text("Prevalence changed")
    expect(chart.locator(".key").nth(1)).to_contain_text("Alarm")
    since = time.strftime("%H:%M:%S UTC+5:30", time.gmtime(stream.alarm_since + 5.5 * 3600))
    expect(chart.get_by_role("img")).to_have_attribute("aria-label", re.compile(rf"Alarm: .*{re.escape(since)}"))
    start, end = stream.history["at"][0], stream.history["at"][-1]
    part = (stream.alarm_since - start) / (end - start)
    marked = pixels(page, "#chart-threshold", "bad")["columns"]
    assert min(marked) == pytest.approx(part, abs=0.02)
    greyed = pixels(page, "#chart-threshold", "shade")["columns"]
    assert max(greyed) > 0.97
    page.goto(f"{base_url}/#/streams/a-calm")
    expect(chart.locator(".key").nth(1)).not_to_contain_text("Alarm")


def test_streams_are_chosen_by_keyboard_and_compared(page, base_url):
    page.goto(base_url)
    page.get_by_role("link", name="f-alarm").focus()
    page.keyboard.press("c")
    expect(page.get_by_role("checkbox", name="Compare f-alarm")).to_be_checked()
    expect(page.locator("a.compare")).to_be_hidden()  # one alone is not compared
    page.get_by_role("checkbox", name="Compare a-calm").check()
    page.get_by_role("link", name="Compare 2 streams").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare streams")
    table = page.get_by_role("table")
    expect(table.get_by_role("columnheader")).to_have_text(["Figure", "f-alarm", "a-calm"])
    prevalence = table.get_by_role("row", name="Prevalence now").get_by_role("cell")
    expect(prevalence.nth(0)).to_contain_text("not reliable")
    expect(prevalence.nth(1)).not_to_contain_text("not reliable")
    expect(page.locator(".chart canvas")).to_have_count(3)
    expect(page.get_by_role("img", name="Chart of Prevalence")).to_have_attribute(
        "aria-label", re.compile("f-alarm .*a-calm")
    )
    expect(page.locator("#connection")).to_have_text("Live")
    page.keyboard.press("Escape")
    expect(page.get_by_role("checkbox", name="Compare f-alarm")).to_be_checked()


@pytest.mark.parametrize("width", [360, 768, 1200, 1345, 1400])
def test_nothing_is_wider_than_the_screen_whatever_a_stream_is(page, base_url, width):
    page.set_viewport_size({"width": width, "height": 800})
    for address in ("#/", "#/streams/c-seen", "#/compare?streams=c-seen,d-silent,e-building,f-alarm"):
        page.goto(f"{base_url}/{address}")
        expect(page.locator("#connection")).to_have_text("Live")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_stream_of_one_row_is_shown(page, base_url, made_up):
    made_up.state.streams["h-first"] = stream = MadeUpStream("h-first")
    stream.see(True, time.time())
    stream.remember(time.time())
    page.goto(f"{base_url}/#/streams/h-first")
    expect(page.locator(".heading .badge")).to_contain_text("Too few rows")
    expect(page.locator(".chart canvas")).to_have_count(5)
